// Whether what is seen is what is: the connection, in words.

import { fill, h } from "../parts/dom.js";

const STALE_MS = 3_000;
const TEXTS = {
  connecting: "Connecting",
  live: "Live",
  lost: "Connection lost; trying again",
  stale: "Stale: the connection is lost, and what you see may be old",
};

/** A line that screen readers hear when it changes. */
export class ConnectionStatus {
  #label = h("span", { class: "connection-text" });
  #timer = null;

  constructor() {
    const dot = h("span", { class: "connection-dot", "aria-hidden": "true" });
    this.element = h("p", { id: "connection", class: "connection", role: "status" }, dot, this.#label);
    this.set("connecting", "");
  }

  /** @param {"connecting"|"live"|"lost"} state */
  set(state, detail) {
    const before = this.element.dataset.state;
    if (state === "live") {
      clearTimeout(this.#timer);
      this.#timer = null;
      this.#say("live", "");
    } else if (before === "live" || before === undefined) {
      this.#say(state, detail);
      this.#timer = setTimeout(() => this.#say("stale", detail), STALE_MS);
    }
  }

  #say(state, detail) {
    this.element.dataset.state = state;
    this.element.title = detail;
    document.documentElement.classList.toggle("is-stale", state === "stale" || state === "lost");
    fill(this.#label, TEXTS[state]);
  }
}
