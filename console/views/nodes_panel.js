// All that is known of one node.

import { h } from "../parts/dom.js";
import { badge, card, facts } from "../parts/cards.js";
import { bytes, count, duration } from "../parts/format.js";
import { slot } from "../parts/slots.js";
import { table } from "../parts/tables.js";
import { LIVENESS, STATES, heldTables } from "./nodes_words.js";

export class NodePanel {
  #context;
  #whole = slot();
  #parts = null; // of the node that is shown

  constructor(context) {
    this.#context = context;
    this.element = h("div", { class: "stack", id: "node-panel" }, this.#whole.element);
    this.hide();
  }

  hide() {
    this.element.hidden = true;
    this.#whole.show(null, () => null);
  }

  async show({ node, wanted, moment, line }) {
    const sequences = node ? (await this.#context.api.component("sequences", moment)).sequences : [];
    const epoch = node ? null : moment.epoch;
    this.#whole.show({ wanted, at: moment.at, epoch }, () => (node ? this.#made(node) : this.#nobody(wanted, epoch)));
    this.element.hidden = false;
    if (!node) return;
    const { identity, figures, links, tables } = this.#parts;
    identity.show(known(node), () => identityOf(node));
    figures.show(told(node), () => figuresOf(node, line));
    links.show(concerned(node, sequences), (found) => linksOf(this.#context, found));
    const rows = moment.isLive ? heldTables(node).map(([name, held]) => ({ name, ...held })) : [];
    tables.element.hidden = rows.length === 0;
    tables.update(rows);
  }

  #made(node) {
    const parts = { identity: slot(), figures: slot(), links: slot(), tables: held(node) };
    this.#parts = parts;
    const ring = this.#context.href({ view: "ring", params: { node: node.id } });
    return card(
      `Node ${node.id}`,
      { actions: [h("a", { href: ring }, "Show on the ring"), this.#close()] },
      h("div", { class: "grid" }, parts.identity.element, h("div", { class: "facts-pair" }, parts.figures.element, parts.links.element)),
      parts.tables.element,
    );
  }

  #nobody(wanted, epoch) {
    return card(`Node ${wanted}`, { actions: [this.#close()] }, h("p", {}, `There is no node ${wanted} at epoch ${epoch}.`));
  }

  #close() {
    return h("a", { class: "button button-quiet", href: this.#context.href({ params: {} }) }, "Close");
  }
}

/** What the log says of it. */
function known({ state, datacenter, rack, addresses, version, host_id, tokens }) {
  return { state, datacenter, rack, addresses, version, host_id, tokens };
}

/** What it tells of itself. */
function told({ liveness, age_s, watermark, drained, lag, diverged }) {
  return { liveness, age_s, watermark, drained, lag, diverged };
}

function concerned(node, sequences) {
  const found = sequences.filter((item) => item.node === node.id || item.replaced === node.id);
  return found.map(({ id, kind }) => ({ id, kind }));
}

function identityOf(node) {
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

function figuresOf(node, line) {
  if (!node.liveness) return facts([["Liveness", "only known live"]]);
  const { tone, text } = LIVENESS[node.liveness] ?? { tone: "quiet", text: node.liveness };
  return facts([
    ["Liveness", badge(text, tone)],
    ["Last heard", node.age_s === null ? "never" : `${duration(node.age_s)} ago`],
    ["Watermark", count(node.watermark)],
    ["Drained", node.drained === null ? null : count(node.drained)],
    ["Lag", [count(node.lag), " ", h("span", { class: "inline-line" }, line)]],
    ["History", node.diverged ? badge("not the log's", "bad") : node.diverged === false ? "the log's" : null],
  ]);
}

function linksOf(context, sequences) {
  const links = sequences.map(({ id, kind }, index) => {
    const href = context.href({ view: "sequences", params: { id } });
    return [index ? ", " : null, h("a", { href }, `${kind} ${id}`)];
  });
  return facts([["Sequences", links.length ? links : "none"]]);
}

/** Its table stays, so that the order and focus do. */
function held(node) {
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
  const element = h("div", { class: "stack section", hidden: true }, h("h3", {}, "Tables"), made.element);
  return { element, update: made.update };
}
