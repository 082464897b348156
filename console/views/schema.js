// The schema: keyspaces, how they are replicated, their tables and columns.

import { fill, h } from "../parts/dom.js";
import { badge, card, empty, facts } from "../parts/cards.js";
import { count, counted } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { placementKey } from "./ring_model.js";

export const view = {
  title: "Schema",
  mount: (root, context) => new SchemaView(root, context),
};

class SchemaView {
  #root;
  #context;
  #known = null;

  constructor(root, context) {
    this.#root = root;
    this.#context = context;
    this.list = table({
      caption: "Keyspaces",
      columns: [
        { title: "Keyspace", sort: (item) => item.name, cell: (item) => this.#link({ keyspace: item.name }, item.name) },
        { title: "Replication", sort: (item) => placementKey(item.replication), cell: (item) => replication(item.replication) },
        { title: "Tables", isNumber: true, sort: (item) => item.tables.length, cell: (item) => count(item.tables.length) },
        { title: "Changed at", isNumber: true, isWide: true, sort: (item) => item.epoch, cell: (item) => this.#epoch(item.epoch) },
      ],
      key: (item) => item.name,
      filter: (item) => item.name,
      filterLabel: "Filter keyspaces",
      onRow: (item) => context.href({ params: { keyspace: item.name } }),
      empty: "No keyspaces.",
    });
    this.tables = table({
      caption: "Tables of the keyspace",
      columns: [
        { title: "Table", sort: (item) => item.name, cell: (item) => this.#link({ keyspace: item.keyspace, table: item.name }, item.name) },
        { title: "Id", isNumber: true, sort: (item) => item.id, cell: (item) => count(item.id) },
        { title: "Partition key", cell: (item) => item.partition_key.join(", ") },
        { title: "Columns", isNumber: true, sort: (item) => item.columns.length, cell: (item) => count(item.columns.length) },
      ],
      key: (item) => item.id,
      filter: (item) => item.name,
      filterLabel: "Filter tables",
      onRow: (item) => context.href({ params: { keyspace: item.keyspace, table: item.name } }),
      empty: "No tables yet; make one with ringlog schema create-table.",
    });
    this.nothing = h("div");
    this.head = h("div");
    this.columns = h("div");
    this.keyspaces = card("Keyspaces", this.list.element);
    this.detail = h("div", { class: "stack", hidden: true }, this.head, this.tables.element);
    this.chosen = h("section", { class: "card", hidden: true, "aria-label": "Keyspace" }, this.detail);
    fill(root, h("div", { class: "stack" }, this.nothing, this.keyspaces, this.chosen, this.columns));
  }

  async show(moment) {
    const schema = await this.#context.api.component("schema", moment);
    const key = JSON.stringify(moment.params);
    const isSame = this.#known?.schema === schema && this.#known.key === key;
    // What is the same is left alone while somebody slides past it.
    if (isSame && moment.isSliding && schema.keyspaces.length) return;
    this.#known = { schema, key };
    const isEmpty = schema.keyspaces.length === 0;
    this.keyspaces.hidden = isEmpty;
    fill(this.nothing, isEmpty ? nothing(moment) : null);
    this.list.update(schema.keyspaces);
    this.#choose(schema, moment);
  }

  #choose(schema, { params, epoch }) {
    const { keyspaces } = schema;
    const found = keyspaces.find((item) => item.name === params.keyspace) ?? (keyspaces.length === 1 ? keyspaces[0] : null);
    this.chosen.hidden = this.detail.hidden = !found && !params.keyspace;
    fill(this.columns);
    if (!found) {
      fill(this.head, params.keyspace ? h("p", {}, `There is no keyspace ${params.keyspace} at epoch ${epoch}.`) : null);
      this.tables.element.hidden = true;
      return;
    }
    this.tables.element.hidden = false;
    fill(
      this.head,
      h("div", { class: "card-head" }, h("h2", {}, `Keyspace ${found.name}`), this.#ringLink(found)),
      facts([
        ["Replication", replication(found.replication)],
        ["Changed at", this.#epoch(found.epoch)],
      ]),
    );
    this.tables.update(found.tables.map((item) => ({ ...item, keyspace: found.name })));
    const one = found.tables.find((item) => item.name === params.table) ?? (found.tables.length === 1 ? found.tables[0] : null);
    if (one) fill(this.columns, columns(found, one));
  }

  #link(params, text) {
    return h("a", { href: this.#context.href({ params }) }, text);
  }

  #ringLink(keyspace) {
    return h("a", { href: this.#context.href({ view: "ring", params: { keyspace: keyspace.name } }) }, "Show on the ring");
  }

  #epoch(epoch) {
    return h("a", { href: this.#context.href({ at: epoch }), title: "Go to this epoch" }, count(epoch));
  }
}

function replication(found) {
  if (found.strategy === "simple") return [badge("simple"), ` ${counted(found.factor, "replica")}`];
  const factors = Object.entries(found.factors).map(([name, copies]) => `${name} × ${copies}`);
  return [badge("network"), ` ${factors.join(", ")}`];
}

function columns(keyspace, found) {
  const made = table({
    caption: `Columns of ${keyspace.name}.${found.name}`,
    columns: [
      { title: "Column", cell: (column) => column.name },
      { title: "Type", cell: (column) => h("code", {}, column.type) },
      { title: "Key", cell: (column) => (found.partition_key.includes(column.name) ? badge("partition key", "accent") : "") },
    ],
    key: (column) => column.name,
    filter: (column) => column.name,
    filterLabel: "Filter columns",
    empty: "No columns.",
  });
  made.update(found.columns);
  return card(`Table ${keyspace.name}.${found.name}`, made.element);
}

function nothing(moment) {
  return moment.isLive
    ? empty("No keyspace yet", "Make one with ringlog schema create-keyspace shop --factor 3.")
    : empty(`No keyspace at epoch ${moment.epoch}`, "Go on in time to see them come.");
}
