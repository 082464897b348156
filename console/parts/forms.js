// Controls, all of one look.

import { h } from "./dom.js";

/** @param {"primary"|"danger"|"quiet"|undefined} kind */
export function button(text, { kind, class: more = "", ...properties } = {}) {
  const look = `button${kind ? ` button-${kind}` : ""}${more ? ` ${more}` : ""}`;
  return h("button", { type: "button", class: look, ...properties }, text);
}

export function input({ class: more = "", ...properties } = {}) {
  return h("input", { class: more ? `input ${more}` : "input", ...properties });
}

/** `options` are values, or [value, text] pairs. */
export function select(options, { value, ...properties } = {}) {
  const made = options.map((option) => {
    const [given, text] = Array.isArray(option) ? option : [option, option];
    return h("option", { value: given, selected: String(given) === String(value) }, text);
  });
  return h("select", { class: "input", ...properties }, made);
}

/** Other options in the same select; the choice stays where it can. */
export function reselect(element, options, value = element.value) {
  const texts = options.map((option) => (Array.isArray(option) ? option.join("\n") : option));
  const known = texts.join("\n\n");
  if (element.dataset.options !== known) {
    element.dataset.options = known;
    element.replaceChildren(...select(options).children);
  }
  element.value = value;
}

let made = 0;

/** A control with its label, and a hint that belongs to it. */
export function field(label, control, { hint } = {}) {
  made += 1;
  control.id ||= `field-${made}`;
  const below = hint ? h("span", { id: `${control.id}-hint`, class: "hint" }, hint) : null;
  if (below) {
    const described = [control.getAttribute("aria-describedby"), below.id].filter(Boolean);
    control.setAttribute("aria-describedby", described.join(" "));
  }
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, below);
}
