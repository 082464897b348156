// The ring for who reads rather than looks.

import { h } from "../parts/dom.js";
import { badge, meter } from "../parts/cards.js";
import { share, shortRange } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { PHASES } from "./ring_model.js";

const TONES = { prepared: "quiet", written: "warn", read: "accent", finished: "good", cancelled: "bad" };

/** Every node with its share; `update` takes {model, shares: Map|null, colourOf}. */
export function nodeTable(context) {
  let known = { shares: null, colourOf: () => "--line", largest: 1 };
  const of = (node, side) => known.shares?.get(node.id)?.[side] ?? (known.shares ? 0 : null);
  const made = table({
    caption: "Ownership by node",
    columns: [
      { title: "Node", sort: (node) => node.id, cell: (node) => [swatch(known.colourOf(node)), chosenLink(context, node), unusual(node)] },
      { title: "Datacenter / rack", isWide: true, sort: (node) => node.rack, cell: (node) => node.rack },
      { title: "Primary", isNumber: true, sort: (node) => node.primary, cell: (node) => sharing(node.primary, node, known.largest) },
      { title: "Reads", isNumber: true, sort: (node) => of(node, "reads"), cell: (node) => share(of(node, "reads")) },
      { title: "Writes", isNumber: true, sort: (node) => of(node, "writes"), cell: (node) => written(of(node, "reads"), of(node, "writes")) },
    ],
    key: (node) => node.id,
    rowsPage: 25,
    filter: (node) => `node ${node.id} ${node.rack} ${node.state} ${node.address}`,
    filterLabel: "Filter nodes",
    empty: "No nodes.",
  });
  const note = h("p", { class: "muted note" });
  const update = ({ model, shares, colourOf }) => {
    const largest = Math.max(Number.MIN_VALUE, ...[...model.nodes.values()].map((node) => node.primary));
    known = { shares, colourOf, largest };
    const isPlaced = shares !== null;
    note.textContent = isPlaced
      ? "Primary: the part of the ring that a node comes first for. Reads and writes: the part of the keyspace that it holds for each."
      : "Reads and writes are shown where there is a keyspace and the ring has at most 4,000 tokens; a range shows its own on a click.";
    made.update([...model.nodes.values()]);
  };
  return { element: h("div", { class: "stack" }, made.element, note), update };
}

/** Every range that a sequence moves. */
export function movingTable(context) {
  return table({
    caption: "Ranges being moved",
    columns: [
      { title: "Range", cell: (range) => rangeLink(context, range) },
      { title: "By", cell: (range) => sequenceLink(context, range) },
      { title: "Now", cell: (range) => badge(range.step, TONES[range.phase], PHASES[range.phase]) },
      { title: "Readers", cell: (range) => range.readers.join(", ") || "nobody" },
      { title: "Writers", cell: (range) => writersOf(range) },
    ],
    key: (range) => `${range.sequence} ${range.placement} ${range.left}`,
    rowsPage: 10,
    empty: "Nothing is being moved.",
  });
}

/** Writers that do not read stand out: writes go ahead of reads. */
export function writersOf({ readers, writers }) {
  if (writers.length === 0) return "nobody";
  return writers.map((node, index) => {
    const text = readers.includes(node) ? String(node) : h("strong", { class: "ahead", title: "writes, does not read" }, `+${node}`);
    return [index ? ", " : "", text];
  });
}

export function sequenceLink(context, { sequence, kind }) {
  const href = context.href({ view: "sequences", params: { id: sequence } });
  return h("a", { href }, `${kind} ${sequence}`);
}

export function swatch(name) {
  const box = h("span", { class: "swatch", "aria-hidden": "true" });
  box.style.background = `var(${name})`;
  return box;
}

function chosenLink(context, node) {
  const { params } = context.route();
  const href = context.href({ params: { ...params, node: node.id, token: null } });
  return h("a", { href }, `node ${node.id}`);
}

function rangeLink(context, range) {
  const { params } = context.route();
  const href = context.href({ params: { ...params, token: range.right, node: null } });
  return h("a", { class: "mono range-link", href, title: `(${range.left}, ${range.right}]` }, shortRange(range));
}

/** The state of a node is worth a word where it is not the usual one. */
function unusual({ state }) {
  return state === "joined" ? null : [" ", badge(state, "info")];
}

function sharing(fraction, node, largest) {
  const bar = meter(fraction / largest, `Primary share of node ${node.id}, of the largest there is`);
  return h("span", { class: "sharing" }, bar, h("span", {}, share(fraction)));
}

function written(reads, writes) {
  const isAhead = writes !== null && writes - reads > 1e-9;
  return isAhead ? h("strong", { class: "ahead", title: "writes more than it reads: ranges are on their way" }, share(writes)) : share(writes);
}
