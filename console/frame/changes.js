// What changed here: one entry, and what it made different.

import { fill, h } from "../parts/dom.js";
import { badge, facts } from "../parts/cards.js";
import { modal } from "../parts/dialogs.js";
import { differenceView } from "../parts/differences.js";
import { moment } from "../parts/format.js";
import { button } from "../parts/forms.js";

/** @param {(epoch: number) => string} hrefAt  the address of the same view at an epoch */
export function showChanges(api, epoch, hrefAt) {
  const body = h("div", { class: "stack" });
  const title = h("span");
  modal(title, body, { class: "drawer" });
  load(api, epoch, { title, body, hrefAt });
}

async function load(api, epoch, place) {
  fill(place.title, `What changed at epoch ${epoch}`);
  fill(place.body, h("p", { class: "muted", role: "status" }, "Loading …"));
  try {
    const [entry, found] = await Promise.all([
      api.get(`/v1/log/${epoch}`),
      api.get("/v1/diff", { query: { from: epoch - 1, to: epoch } }),
    ]);
    fill(place.body, ...shown(api, entry, found, place));
  } catch (error) {
    fill(place.body, h("div", { class: "notice notice-bad", role: "alert" }, error.message));
  }
}

function shown(api, entry, found, place) {
  const { epoch } = entry;
  const turn = (to) => () => load(api, to, place);
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
    h(
      "div",
      { class: "row dialog-actions" },
      button("Epoch before", { on: { click: turn(epoch - 1) }, disabled: epoch <= 1 }),
      button("Epoch after", { on: { click: turn(epoch + 1) } }),
      h("a", { class: "button", href: place.hrefAt(epoch), on: { click: leave } }, "Show the view there"),
    ),
  ];
}

function leave(event) {
  event.currentTarget.closest("dialog").close();
}
