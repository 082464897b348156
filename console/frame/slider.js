// The time slider: any epoch, live at its right end.

import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { button, input } from "../parts/forms.js";

const STEP_LARGE = 0.02; // of the whole log, by PageUp and PageDown

/**
 * @param {object} wiring
 * @param {(at: number|null) => void} wiring.onEpoch  while it moves, at most once a frame
 * @param {(epoch: number) => void} wiring.onChanges
 */
export class TimeSlider {
  #tip = 0;
  #at = null;
  #waiting = null;
  #wiring;

  constructor(wiring) {
    this.#wiring = wiring;
    this.#build();
  }

  /** Show where in the log one is; the slider is left alone while somebody drags it. */
  set(at, tip) {
    this.#tip = tip;
    this.#at = at;
    // A link may be ahead of the log: the slider then stands at its end, and says so.
    const isAhead = at !== null && at > tip;
    const epoch = isAhead ? tip : (at ?? tip);
    this.range.max = String(tip);
    if (this.#waiting === null) this.range.value = String(epoch);
    this.range.setAttribute("aria-valuetext", at === null ? `Live, epoch ${tip}` : `Epoch ${epoch} of ${tip}`);
    this.entry.max = String(tip);
    if (document.activeElement !== this.entry) this.entry.value = String(epoch);
    this.live.disabled = at === null;
    this.changes.disabled = epoch < 1;
    this.element.dataset.mode = at === null ? "live" : "past";
    fill(this.note, `of ${count(tip)}`, at === null ? null : where(at, tip));
    const fraction = tip > 0 ? epoch / tip : 1;
    this.range.style.setProperty("--filled", `${(fraction * 100).toFixed(2)}%`);
  }

  #build() {
    this.range = input({
      id: "epoch-slider",
      type: "range",
      min: 0,
      max: 0,
      step: 1,
      "aria-label": "Epoch",
      on: { input: () => this.#slide(Number(this.range.value)), keydown: (event) => this.#key(event) },
    });
    this.entry = input({
      id: "epoch-entry",
      type: "number",
      min: 0,
      step: 1,
      class: "epoch-entry",
      "aria-label": "Go to epoch",
      on: { change: () => this.#typed(), keydown: (event) => event.key === "Enter" && this.#typed() },
    });
    this.note = h("span", { class: "muted epoch-note" });
    this.live = button("Back to live", { id: "back-to-live", on: { click: () => this.#wiring.onEpoch(null) } });
    this.changes = button("What changed here", {
      id: "what-changed",
      on: { click: () => this.#wiring.onChanges(Math.min(this.#at ?? this.#tip, this.#tip)) },
    });
    const by = (step, name, sign) =>
      button(sign, { kind: "quiet", "aria-label": name, title: name, on: { click: () => this.#step(step) } });
    this.element = h(
      "section",
      { class: "time", "aria-label": "Time" },
      h(
        "div",
        { class: "time-track" },
        by(-1, "One epoch back", "‹"),
        this.range,
        by(1, "One epoch on", "›"),
      ),
      h(
        "div",
        { class: "time-words" },
        h("label", { class: "time-label", for: "epoch-entry" }, "Epoch"),
        this.entry,
        this.note,
        h("span", { class: "time-actions" }, this.changes, this.live),
      ),
    );
  }

  /** The newest wish of a frame is the one that counts. */
  #slide(epoch) {
    const isFirst = this.#waiting === null;
    this.#waiting = epoch;
    this.entry.value = String(epoch);
    if (isFirst) {
      requestAnimationFrame(() => {
        const wanted = this.#waiting;
        this.#waiting = null;
        this.#go(wanted);
      });
    }
  }

  #key(event) {
    const large = Math.max(10, Math.round(this.#tip * STEP_LARGE));
    const steps = { PageUp: large, PageDown: -large };
    if (event.key in steps) {
      event.preventDefault();
      this.#step(steps[event.key]);
    }
  }

  #step(by) {
    this.#go((this.#at ?? this.#tip) + by);
  }

  #typed() {
    if (this.entry.value === "" || !this.entry.checkValidity()) {
      this.entry.reportValidity();
      return;
    }
    const wanted = Number(this.entry.value);
    if (wanted !== (this.#at ?? this.#tip)) this.#go(wanted);
  }

  #go(epoch) {
    const bounded = Math.max(0, Math.min(epoch, this.#tip));
    this.#wiring.onEpoch(bounded >= this.#tip ? null : bounded);
  }
}

function where(at, tip) {
  return at > tip ? `; epoch ${count(at)} is not there yet` : `, ${count(tip - at)} behind the tip`;
}
