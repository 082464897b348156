// Places in a view that are made anew only when what they show is another.

import { fill, h } from "./dom.js";

/**
 * `show(value, make)` puts what `make(value)` gives in place, unless the same value is shown:
 * focus, selection and open details then outlast a refresh.
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
      fill(element, make(value));
      element.hidden = element.childNodes.length === 0;
    },
  };
}
