// All that is known of one node.

import { h } from "../parts/dom.js";
import { badge, card, facts } from "../parts/cards.js";
import { bytes, count, duration } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { LIVENESS, STATES, heldTables } from "./nodes_words.js";

export async function nodePanel(context, { node, wanted, moment, line }) {
  const close = h("a", { class: "button button-quiet", href: context.href({ params: {} }) }, "Close");
  if (!node) {
    const said = `There is no node ${wanted} at epoch ${moment.epoch}.`;
    return card(`Node ${wanted}`, { actions: [close] }, h("p", {}, said));
  }
  const sequences = await context.api.component("sequences", moment);
  const ring = h("a", { href: context.href({ view: "ring", params: { node: node.id } }) }, "Show on the ring");
  return card(
    `Node ${node.id}`,
    { actions: [ring, close] },
    h("div", { class: "grid" }, identity(node), standing(context, node, sequences, line)),
    moment.isLive ? held(node) : null,
  );
}

function identity(node) {
  return facts([
    ["State", badge(node.state, STATES[node.state])],
    ["Datacenter", node.datacenter],
    ["Rack", node.rack],
    ["Addresses", Object.entries(node.addresses).map(([name, address]) => h("div", { class: "mono" }, `${name} ${address}`))],
    ["Version", node.version],
    ["Host id", h("span", { class: "mono" }, node.host_id)],
    ["Tokens", count(node.tokens)],
  ]);
}

function standing(context, node, { sequences }, line) {
  const concerned = sequences.filter((item) => item.node === node.id || item.replaced === node.id);
  const links = concerned.map((item) =>
    h("a", { href: context.href({ view: "sequences", params: { id: item.id } }) }, `${item.kind} ${item.id}`),
  );
  if (!node.liveness) {
    return facts([
      ["Sequences", links.length ? links : "none"],
      ["Liveness", "only known live"],
    ]);
  }
  const { tone, text } = LIVENESS[node.liveness] ?? { tone: "quiet", text: node.liveness };
  return facts([
    ["Liveness", badge(text, tone)],
    ["Last heard", node.age_s === null ? "never" : `${duration(node.age_s)} ago`],
    ["Watermark", count(node.watermark)],
    ["Drained", node.drained === null ? null : count(node.drained)],
    ["Lag", [count(node.lag), " ", h("span", { class: "inline-line" }, line)]],
    ["History", node.diverged ? badge("not the log's", "bad") : node.diverged === false ? "the log's" : null],
    ["Sequences", links.length ? links : "none"],
  ]);
}

function held(node) {
  const rows = heldTables(node).map(([name, found]) => ({ name, ...found }));
  if (rows.length === 0) return null;
  const made = table({
    caption: `Tables on node ${node.id}`,
    columns: [
      { title: "Table", sort: (row) => row.name, cell: (row) => row.name },
      { title: "Rows", isNumber: true, sort: (row) => row.rows, cell: (row) => count(row.rows) },
      { title: "Bytes", isNumber: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    ],
    key: (row) => row.name,
    empty: "No tables.",
  });
  made.update(rows);
  return h("div", { class: "stack section" }, h("h3", {}, "Tables"), made.element);
}
