// Rows on their way, and the receipts that prove they arrived.

import { badge, card, facts, meter, nodeLink, rangeText } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { bytes, count, duration, rate } from "../parts/format.js";
import { table } from "../parts/tables.js";

export function movementCard(view) {
  const { progress } = view;
  if (!progress) {
    const said =
      view.due === "mid" && view.session !== null
        ? "Rows may move now, but no driver tells of any yet."
        : "No rows move between these steps.";
    return card("Movement", { id: "movement" }, h("p", { class: "muted" }, said));
  }
  const done = progress.rows_total ? progress.rows_done / progress.rows_total : 0;
  return card(
    "Movement",
    { id: "movement", class: "movement-facts", actions: [badge(progress.phase, "info")] },
    h("div", { class: "row movement-bar" }, meter(done, "Rows moved"), h("span", { class: "number" }, `${Math.floor(done * 100)} %`)),
    facts([
      ["Rows", `${count(progress.rows_done)} of ${count(progress.rows_total)}`],
      ["Bytes", `${bytes(progress.bytes_done)} of ${bytes(progress.bytes_total)}`],
      ["Rate", progress.rows_per_s ? rate(progress.rows_per_s, "rows") : "not known yet"],
      ["Time left", progress.eta_s === null ? "not known yet" : duration(progress.eta_s)],
    ]),
  );
}

export function receiptsTable(context) {
  const made = table({
    caption: "Receipts: what was read at the sources, and what the target has",
    key: (row) => `${row.left} ${row.right} ${row.target}`,
    rowsPage: 10,
    empty: "Receipts come with the step mid; there are none yet, or no table needed any.",
    filter: (row) => `${row.left} ${row.right} node ${row.target}`,
    filterLabel: "Filter by token or node",
    columns: [
      { title: "Range", cell: rangeText },
      { title: "Target", cell: (row) => nodeLink(context, row.target), sort: (row) => row.target },
      { title: "Rows", isNumber: true, cell: (row) => count(row.target_rows.rows), sort: (row) => row.target_rows.rows },
      { title: "Sources", isWide: true, cell: sourcesText },
      { title: "Proof", cell: proof },
    ],
  });
  let known = "";
  return {
    element: made.element,
    update(receipts) {
      const text = JSON.stringify(receipts);
      if (text === known) return;
      known = text;
      made.update(receipts);
    },
  };
}

function sourcesText(row) {
  return row.sources.map((item) => `node ${item.node} at epoch ${item.epoch}`).join(", ") || "–";
}

function proof(row) {
  const same = ["rows", "xor", "sum"].every((name) => String(row.source[name]) === String(row.target_rows[name]));
  const title = `sources: xor ${row.source.xor}, sum ${row.source.sum}; target: xor ${row.target_rows.xor}, sum ${row.target_rows.sum}`;
  return same ? badge("equal", "good", title) : badge("differs", "bad", title);
}
