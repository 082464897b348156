// The steps of a sequence with their epochs, and the ranges that change hands.

import { badge, rangeText } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { count, duration, moment as clock } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { changesOf, comingSteps } from "./sequences_words.js";

const MEANINGS = {
  prepare: "plans, splits and locks the ranges",
  start: "new owners get every write",
  mid: "reads move to the new owners",
  finish: "old owners stop writing",
  cancel: "reads move back",
  retire: "the ranges are free again",
};

export function stepList(context, { taken, state, view }) {
  const coming = state === "ended" ? [] : comingSteps(taken);
  return h(
    "ol",
    { class: "steps" },
    taken.map((item, index) => takenStep(context, item, taken[index - 1])),
    coming.map((step) => comingStep(step, step === view.due)),
  );
}

function takenStep(context, item, before) {
  const after = before ? (item.committed_at - before.committed_at) / 1e6 : null;
  const href = context.href({ at: item.epoch });
  return h(
    "li",
    { class: `step is-taken${item.step === "cancel" ? " is-cancel" : ""}`, data: { step: item.step } },
    h("div", { class: "step-name" }, item.step, h("span", { class: "unseen" }, " (taken)")),
    h("a", { class: "step-epoch", href, title: "Show this epoch" }, `epoch ${count(item.epoch)}`),
    h("div", { class: "step-time" }, clock(item.committed_at), after === null ? null : h("span", { class: "muted" }, ` +${duration(after)}`)),
    h("div", { class: "muted step-note" }, `${MEANINGS[item.step]}${item.actor ? `; by ${item.actor}` : ""}`),
  );
}

function comingStep(step, isDue) {
  return h(
    "li",
    { class: `step${isDue ? " is-due" : ""}`, data: { step }, "aria-current": isDue ? "step" : null },
    h("div", { class: "step-name" }, step),
    h("div", { class: "step-epoch" }, isDue ? badge("due", "accent") : "to come"),
    h("div", { class: "muted step-note" }, MEANINGS[step]),
  );
}

/** Ranges by placement, with the owners before and after. */
export function changesTable(context) {
  const made = table({
    caption: "Ranges whose owners change",
    key: (row) => `${row.placement} ${row.left} ${row.right}`,
    rowsPage: 10,
    empty: "No range changes hands: there is no keyspace yet.",
    filter: (row) => `${row.left} ${row.right} ${row.placement} ${row.after.join(" ")}`,
    filterLabel: "Filter by token, placement or node",
    columns: [
      { title: "Range", cell: rangeText },
      { title: "Gained by", cell: (row) => owners(row.gained) },
      { title: "Lost by", cell: (row) => owners(row.lost) },
      { title: "Owners before", isWide: true, cell: (row) => owners(row.before) },
      { title: "Owners after", isWide: true, cell: (row) => owners(row.after) },
      { title: "Placement", isWide: true, cell: (row) => row.placement, sort: (row) => row.placement },
    ],
  });
  let shown = null;
  return {
    element: made.element,
    /** The plan of a sequence never changes. */
    update(view) {
      if (shown === view.id) return;
      shown = view.id;
      made.update(changesOf(view).map(withSides));
    },
  };
}

export function withSides(change) {
  return {
    ...change,
    gained: change.gained ?? change.after.filter((node) => !change.before.includes(node)),
    lost: change.lost ?? change.before.filter((node) => !change.after.includes(node)),
  };
}

function owners(nodes) {
  return nodes.length ? nodes.join(", ") : "–";
}
