// What changed here: one entry, and what it made different.

import { fill, h } from "../parts/dom.js";
import { badge, facts } from "../parts/cards.js";
import { modal } from "../parts/dialogs.js";
import { differenceView } from "../parts/differences.js";
import { moment } from "../parts/format.js";
import { button } from "../parts/forms.js";

/**
 * @param {object} wiring
 * @param {(epoch: number) => string} wiring.hrefAt  the address of the same view at an epoch
 * @param {() => number} wiring.tip
 */
export function showChanges(api, epoch, wiring) {
  new Changes(api, wiring).turn(epoch);
}

class Changes {
  #api;
  #wiring;
  #epoch = 0;

  constructor(api, wiring) {
    this.#api = api;
    this.#wiring = wiring;
    this.title = h("span");
    this.found = h("div", { class: "stack" });
    this.before = button("Epoch before", { on: { click: () => this.turn(this.#epoch - 1) } });
    this.after = button("Epoch after", { on: { click: () => this.turn(this.#epoch + 1) } });
    this.link = h("a", { class: "button", on: { click: leave } }, "Show the view there");
    const actions = h("div", { class: "row dialog-actions" }, this.before, this.after, this.link);
    modal(this.title, h("div", { class: "stack" }, this.found, actions), { class: "drawer" });
  }

  /** Whatever is found there, one can go on from it. */
  async turn(epoch) {
    this.#epoch = epoch;
    fill(this.title, `What changed at epoch ${epoch}`);
    fill(this.found, h("p", { class: "muted", role: "status" }, "Loading …"));
    this.before.disabled = epoch <= 1;
    this.after.disabled = epoch >= this.#wiring.tip();
    this.link.href = this.#wiring.hrefAt(epoch);
    const made = await this.#read(epoch);
    // Somebody may have gone on meanwhile.
    if (this.#epoch === epoch) fill(this.found, made);
  }

  async #read(epoch) {
    try {
      const [entry, found] = await Promise.all([
        this.#api.get(`/v1/log/${epoch}`),
        this.#api.get("/v1/diff", { query: { from: epoch - 1, to: epoch } }),
      ]);
      return shown(entry, found);
    } catch (error) {
      return h("div", { class: "notice notice-bad", role: "alert" }, error.message);
    }
  }
}

function shown(entry, found) {
  return [
    h(
      "div",
      { class: "row" },
      badge(entry.kind, "accent"),
      h("span", { class: "muted" }, `${moment(entry.committed_at)} by ${entry.committed_by}`),
    ),
    facts([
      ["Actor", entry.actor],
      ["Reason", entry.reason],
      ["Entry", h("code", { class: "mono" }, entry.entry_id)],
    ]),
    differenceView(found.components),
  ];
}

function leave(event) {
  event.currentTarget.closest("dialog").close();
}
