// Nodes: what each is, how far it is behind, and what it holds.

import { fill, h } from "../parts/dom.js";
import { badge, card, empty } from "../parts/cards.js";
import { bytes, count, duration } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { LagKeeper } from "./nodes_lags.js";
import { NodePanel } from "./nodes_panel.js";
import { LIVENESS, STATES, heldBytes, heldRows } from "./nodes_words.js";
import { sparkline } from "../parts/sparkline.js";

const LAG_NOTABLE = 10; // epochs; a smaller lag is a low line

export const view = {
  title: "Nodes",
  refreshS: 2,
  mount: (root, context) => new NodesView(root, context),
};

// Outlives the view, so that a lag is still there when one comes back to it.
const lags = new LagKeeper();

class NodesView {
  #root;
  #context;
  #lines = new Map();
  #known = {};
  #then = null;

  constructor(root, context) {
    this.#root = root;
    this.#context = context;
    this.summary = h("div", { class: "row summary" });
    this.nothing = h("div");
    this.panel = new NodePanel(context);
    this.table = this.#table();
    this.list = card("All nodes", { actions: [this.summary] }, this.table.element);
    fill(this.#root, h("div", { class: "stack" }, this.nothing, this.panel.element, this.list));
  }

  async show(moment) {
    const nodes = await (moment.isLive ? this.#heard(moment) : this.#past(moment));
    const wish = JSON.stringify(moment.params);
    const isSame = this.#known.nodes === nodes && this.#known.wish === wish;
    this.#known = { nodes, wish };
    // What is the same is left alone while somebody slides past it.
    if (isSame && moment.isSliding && nodes.length) return;
    const isEmpty = nodes.length === 0;
    this.list.hidden = isEmpty;
    fill(this.nothing, isEmpty ? nobody(moment) : null);
    fill(this.summary, summary(nodes, moment));
    this.table.update(nodes);
    await this.#choose(nodes, moment);
  }

  async #heard(moment) {
    const { nodes } = await this.#context.api.get("/v1/nodes", { signal: moment.signal });
    lags.observe(nodes);
    return nodes;
  }

  /** From components, which are kept while they are the same, and so is the list. */
  async #past(moment) {
    const { api } = this.#context;
    const found = await Promise.all([api.component("directory", moment), api.component("ring", moment)]);
    const [directory, ring] = found;
    if (this.#then?.directory !== directory || this.#then.ring !== ring) {
      this.#then = { directory, ring, nodes: withTokens(directory.nodes, ring.tokens) };
    }
    return this.#then.nodes;
  }

  async #choose(nodes, moment) {
    const { node: wanted } = moment.params;
    if (!wanted) {
      this.panel.hide();
      return;
    }
    const node = nodes.find((item) => String(item.id) === wanted);
    await this.panel.show({ node, wanted, moment, line: node && this.#line(node, "panel") });
  }

  #table() {
    const context = this.#context;
    const href = (node) => context.href({ params: { node: node.id } });
    return table({
      caption: "Nodes",
      columns: [
        { title: "Node", sort: (node) => node.id, cell: (node) => h("a", { href: href(node) }, `node ${node.id}`) },
        { title: "State", sort: (node) => node.state, cell: (node) => badge(node.state, STATES[node.state]) },
        { title: "Liveness", sort: (node) => node.liveness, cell: liveness },
        { title: "Datacenter", isWide: true, sort: (node) => node.datacenter, cell: (node) => node.datacenter },
        { title: "Rack", isWide: true, sort: (node) => `${node.datacenter} ${node.rack}`, cell: (node) => node.rack },
        { title: "Watermark", isNumber: true, sort: (node) => node.watermark, cell: (node) => count(node.watermark) },
        { title: "Lag", isNumber: true, sort: (node) => node.lag, cell: (node) => count(node.lag) },
        { title: "Lag of late", isWide: true, cell: (node) => this.#line(node, "row") },
        { title: "Rows", isNumber: true, sort: heldRows, cell: (node) => count(heldRows(node)) },
        { title: "Bytes", isNumber: true, sort: heldBytes, cell: (node) => bytes(heldBytes(node)) },
        { title: "Tokens", isNumber: true, isWide: true, sort: (node) => node.tokens, cell: (node) => count(node.tokens) },
        { title: "Address", isWide: true, cell: (node) => h("span", { class: "mono" }, Object.values(node.addresses)[0] ?? "") },
      ],
      key: (node) => node.id,
      filter: (node) => `node ${node.id} ${node.state} ${node.liveness ?? ""} ${node.datacenter} ${node.rack} ${Object.values(node.addresses).join(" ")}`,
      filterLabel: "Filter nodes",
      onRow: href,
      empty: "No nodes.",
    });
  }

  /** The line of one node; each place has its own. */
  #line(node, place) {
    const key = `${node.id} ${place}`;
    if (!this.#lines.has(key)) this.#lines.set(key, sparkline({ least: LAG_NOTABLE }));
    const line = this.#lines.get(key);
    const values = lags.of(node.id);
    line.update(values, `Lag of node ${node.id}: now ${count(node.lag)}, at most ${count(Math.max(0, ...values))} in ${duration(lags.seconds)}`);
    return line.element;
  }
}

function liveness(node) {
  if (!node.liveness) return "–";
  const { tone, text } = LIVENESS[node.liveness] ?? { tone: "quiet", text: node.liveness };
  const heard = node.age_s === null ? "nothing was heard of it" : `last heard ${duration(node.age_s)} ago`;
  return [badge(text, tone, heard), node.diverged ? [" ", badge("diverged", "bad", "Its history is not the log's")] : null];
}

function summary(nodes, moment) {
  const states = tallied(nodes.map((node) => node.state));
  const parts = [...states].map(([state, number]) => badge(`${count(number)} ${state}`, STATES[state]));
  if (!moment.isLive) return parts;
  const missing = nodes.filter((node) => node.liveness !== "up").length;
  const behind = nodes.filter((node) => node.lag > 0).length;
  if (missing) parts.push(badge(`${count(missing)} not up`, "bad"));
  if (behind) parts.push(badge(`${count(behind)} behind`, "warn"));
  return parts;
}

/** As the CMS answers of a past epoch: nothing is said of liveness. */
function withTokens(nodes, tokens) {
  const counts = tallied(tokens.map((item) => item.node));
  return nodes.map((node) => ({ ...node, tokens: counts.get(node.id) ?? 0 }));
}

function tallied(values) {
  const found = new Map();
  for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
  return found;
}

function nobody(moment) {
  return moment.isLive
    ? empty("No nodes yet", "Start one with ringlog node; it registers itself.")
    : empty(`No nodes at epoch ${moment.epoch}`, "Go on in time to see them come.");
}
