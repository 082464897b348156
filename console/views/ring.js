// The ring: who owns what, who reads and who writes, and what is being moved.

import { fill, h } from "../parts/dom.js";
import { card, empty } from "../parts/cards.js";
import { count, counted } from "../parts/format.js";
import { field, reselect, select } from "../parts/forms.js";
import { slot } from "../parts/slots.js";
import { MARKS, RingCanvas } from "./ring_canvas.js";
import { PHASES, movingRanges, ownerAt, placementKey, rangeAt, rangeNamed, ringModel, shares } from "./ring_model.js";
import { chosenOf, chosenPanel } from "./ring_panels.js";
import { movingTable, nodeTable, swatch } from "./ring_tables.js";
import { Tooltip } from "./ring_tooltip.js";
import { coloured } from "./ring_colours.js";

const SHARED_TOKENS_MAX = 4_000; // with more, all placements together weigh megabytes

export const view = {
  title: "Ring",
  mount: (root, context) => new RingView(root, context),
};

class RingView {
  #context;
  #root;
  #model = null;
  #known = {};
  #moving = [];
  #shown = null;
  #renderedAt;

  constructor(root, context) {
    this.#root = root;
    this.#context = context;
    this.#build();
  }

  async show(moment) {
    const { api } = this.#context;
    const names = ["ring", "directory", "schema", "sequences"];
    const found = await Promise.all(names.map((name) => api.component(name, moment)));
    const [ring, directory, schema, sequences] = found;
    const keyspace = schema.keyspaces.find((item) => item.name === moment.params.keyspace) ?? schema.keyspaces[0];
    const placements =
      keyspace && ring.tokens.length <= SHARED_TOKENS_MAX ? await api.component("placements", moment) : null;
    const before = this.#known;
    const wish = JSON.stringify(moment.params);
    if (before.ring !== ring || before.directory !== directory) this.#model = ringModel(ring, directory);
    this.#known = { ring, directory, schema, sequences, placements, wish };
    this.#shown = { moment, keyspace };
    // What is the same is left alone while somebody slides past it.
    const isSame = Object.keys(this.#known).every((name) => before[name] === this.#known[name]);
    if (isSame && moment.isSliding && this.#model.nodes.size) {
      this.#middle(moment);
      return;
    }
    if (!isSame || this.#renderedAt !== moment.at) this.#render();
    this.#renderedAt = moment.at;
    await this.#choose();
  }

  close() {
    this.canvas.close();
  }

  #build() {
    const context = this.#context;
    this.keyspace = select([], { on: { change: () => this.#turn({ keyspace: this.keyspace.value }) } });
    this.colour = select([], { on: { change: () => this.#turn({ colour: this.colour.value }) } });
    this.tooltip = new Tooltip();
    this.canvas = new RingCanvas({
      onHover: (place, event) => this.#hover(place, event),
      onPick: (place) => this.#turn({ token: rangeAt(this.#model, place).right, node: null }),
    });
    this.middle = h("div", { class: "ring-middle", "aria-hidden": "true" });
    this.legend = h("ul", { class: "ring-legend" });
    this.panel = slot({ class: "stack", id: "ring-panel" });
    this.nodes = nodeTable(context);
    this.moving = movingTable(context);
    this.movingCard = card("Ranges being moved", this.moving.element);
    this.nothing = h("div");
    const figure = h("div", { class: "ring-figure" }, this.canvas.canvas, this.middle, this.tooltip.element);
    const controls = h(
      "div",
      { class: "row ring-controls" },
      field("Keyspace", this.keyspace),
      field("Colour by", this.colour),
    );
    this.whole = h(
      "div",
      { class: "ring-layout" },
      h("section", { class: "card ring-card", "aria-label": "Ring" }, controls, figure, this.legend),
      h("div", { class: "stack" }, this.panel.element, this.movingCard, card("Ownership", this.nodes.element)),
    );
    fill(this.#root, this.nothing, this.whole);
  }

  #render() {
    const { keyspace, moment } = this.#shown;
    const { schema, sequences, placements } = this.#known;
    const model = this.#model;
    const isEmpty = model.nodes.size === 0;
    this.whole.hidden = isEmpty;
    fill(this.nothing, isEmpty ? nobody(moment) : null);
    if (isEmpty) return;
    const key = keyspace ? placementKey(keyspace.replication) : null;
    this.#moving = movingRanges(sequences.sequences, key);
    const names = schema.keyspaces.map((item) => item.name);
    reselect(this.keyspace, names.length ? names : [["", "none yet"]], keyspace?.name ?? "");
    this.keyspace.disabled = names.length === 0;
    const placed = placements?.placements.find((item) => item.keyspaces.includes(keyspace.name));
    this.nodes.update({ model, shares: placed ? shares(placed) : null, colourOf: this.#colours(moment) });
    this.movingCard.hidden = this.#moving.length === 0;
    this.moving.update(this.#moving);
    this.#middle(moment);
    this.#draw(moment);
  }

  #colours({ params }) {
    const { by, colourOf, entries, options } = coloured(this.#model, params.colour);
    reselect(this.colour, options, by);
    const items = entries.map(({ colour, text }) => h("li", {}, swatch(colour), text));
    const phases = [...new Set(this.#moving.map((range) => range.phase))];
    const inner = phases.map((phase) => h("li", { class: "muted" }, swatch(MARKS[phase].colour), `inner band: ${PHASES[phase]}`));
    fill(this.legend, items, inner);
    return colourOf;
  }

  #middle(moment) {
    const { nodes, tokens, datacenters } = this.#model;
    fill(
      this.middle,
      h("strong", {}, count(nodes.size)),
      h("span", {}, nodes.size === 1 ? "node" : "nodes"),
      h("span", { class: "muted" }, counted(tokens.length, "token")),
      h("span", { class: "muted" }, counted(datacenters.length, "datacenter")),
      moment.isLive ? null : h("span", { class: "badge badge-warn" }, `epoch ${count(moment.epoch)}`),
    );
  }

  #draw({ params }) {
    const model = this.#model;
    const { colourOf } = coloured(model, params.colour);
    const meant = (item) => item.right === params.token;
    const range = params.token ? (this.#moving.find(meant) ?? rangeNamed(model, params.token)) : null;
    const marked = params.node ? new Set([Number(params.node)]) : null;
    const moving = this.#moving.length;
    const label =
      `Ring of ${counted(model.nodes.size, "node")} and ${counted(model.tokens.length, "token")}; ` +
      `${counted(moving, "range")} being moved. The table of ownership says the same.`;
    this.canvas.draw({ model, colourOf, moving: this.#moving, marked, range }, label);
  }

  /** What is known of the node or range that the address names. */
  async #choose() {
    const { moment, keyspace } = this.#shown;
    const chosen = { model: this.#model, moving: this.#moving, keyspace, moment };
    const found = await chosenOf(this.#context, chosen);
    this.panel.show(found, () => chosenPanel(this.#context, found));
  }

  #hover(place, event) {
    const model = this.#model;
    if (place === null || !model || model.tokens.length === 0) {
      this.tooltip.hide();
      return;
    }
    const range = rangeAt(model, place);
    const moving = this.#moving.find((item) => item.from < place && place <= item.to);
    this.tooltip.show(event, { range, moving, owner: ownerAt(model, range.index) });
  }

  #turn(change) {
    const { params } = this.#context.route();
    this.#context.go({ params: { ...params, ...change } });
  }
}

function nobody(moment) {
  const then = moment.isLive ? "Start one with ringlog node; it registers itself." : "Go on in time to see them come.";
  return empty(moment.isLive ? "No nodes yet" : `No nodes at epoch ${moment.epoch}`, then);
}
