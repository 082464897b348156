// What is under the pointer, beside the pointer.

import { fill, h } from "../parts/dom.js";
import { share } from "../parts/format.js";
import { PHASES } from "./ring_model.js";

const AWAY_PX = 14;

export class Tooltip {
  constructor() {
    // The panel and the tables say the same to whoever has no pointer.
    this.element = h("div", { class: "ring-tooltip", "aria-hidden": "true", hidden: true });
  }

  show(event, { range, moving, owner }) {
    fill(
      this.element,
      h("strong", {}, owner ? `node ${owner.id}` : "nobody"),
      h("span", { class: "muted" }, owner ? owner.rack : ""),
      h("span", { class: "mono" }, `(${range.left},`),
      h("span", { class: "mono" }, `${range.right}]`),
      h("span", {}, `${share(range.to - range.from)} of the ring`),
      moving ? h("span", { class: "badge badge-warn" }, `${moving.kind} ${moving.sequence}: ${PHASES[moving.phase]}`) : null,
    );
    this.element.hidden = false;
    this.#beside(event);
  }

  hide() {
    this.element.hidden = true;
  }

  #beside(event) {
    const box = this.element.parentElement.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const x = Math.min(event.clientX - box.left + AWAY_PX, box.width - width);
    const y = event.clientY - box.top + AWAY_PX;
    const isLow = event.clientY + AWAY_PX + height > innerHeight;
    this.element.style.left = `${Math.max(0, x)}px`;
    this.element.style.top = `${isLow ? y - height - 2 * AWAY_PX : y}px`;
  }
}
