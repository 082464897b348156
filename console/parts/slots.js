// Places in a view that are made anew only when what they show is another.

import { fill, h } from "./dom.js";

/**
 * `show(value, make)` puts what `make(value)` gives in place, unless the same value is shown:
 * focus, selection and open details then outlast a refresh. Where it is another, focus goes to
 * what stands for the same, and details that were open are so again.
 */
export function slot(properties = {}) {
  const element = h("div", properties);
  let known;
  return {
    element,
    show(value, make) {
      const text = JSON.stringify(value);
      if (text === known) return;
      known = text;
      const restore = remembered(element);
      fill(element, make(value));
      element.hidden = element.childNodes.length === 0;
      restore();
    },
  };
}

function remembered(element) {
  const active = document.activeElement;
  const focused = active !== element && element.contains(active) ? active : null;
  const open = [...element.querySelectorAll("details")].map((item) => item.open);
  return () => {
    element.querySelectorAll("details").forEach((item, index) => (item.open ||= open[index] ?? false));
    if (!focused) return;
    const alike = (item) => item.textContent === focused.textContent;
    [...element.querySelectorAll(focused.tagName)].find(alike)?.focus({ preventScroll: true });
  };
}
