// Elements made from values. Data only ever become text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. `properties` are attributes, but for `class`, `on` ({event: listener}) and
 * `data` ({name: value}); false, null and undefined leave an attribute out, true makes it empty.
 * Children are nodes, texts, numbers or lists of them; null, undefined and false are left out.
 */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

/** Put these children in place of whatever there is. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** A text that only screen readers find. */
export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
