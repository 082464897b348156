// The log: its newest entries as they come, any older ones, and what each of them changed.

import { card } from "../parts/cards.js";
import { fill, h } from "../parts/dom.js";
import { count, counted } from "../parts/format.js";
import { button, field, input } from "../parts/forms.js";
import { seamText } from "./log_reading.js";
import { rejectionsCard } from "./log_rejections.js";
import { logTable } from "./log_table.js";
import { extended, filterOf, isFiltering, readPage, ROWS, ROWS_SLIDING, search, SEARCHED_MAX } from "./log_window.js";

const NUMBER = /^\d{1,15}$/;
const TYPED_MS = 350;
const FILTERS = [
  ["kind", "Kind", "such as Join"],
  ["actor", "Actor", "such as driver-1"],
  ["node", "Node", "its number"],
  ["keyspace", "Keyspace", "its name"],
];

export const view = {
  title: "Log",
  refreshS: 5,
  mount: (root, context) => new LogView(root, context),
};

class LogView {
  #context;
  #page = null; // what the table shows
  #top = null; // which page was asked for; of a log that was trimmed another may be shown
  #known = ""; // and for which question
  #inputs = new Map();
  #timer = null;

  constructor(root, context) {
    this.#context = context;
    this.rejections = rejectionsCard(context);
    this.table = logTable(context, (epoch) => this.#toggle(epoch));
    this.note = h("p", { class: "muted", role: "status", id: "log-note" });
    this.pager = this.#pager();
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        card("Entries", { id: "entries" }, this.#filters(), this.note, this.table.element, this.pager.element),
        this.rejections.element,
      ),
    );
  }

  async show(moment) {
    const filter = filterOf(moment.params);
    for (const [name, element] of this.#inputs) {
      if (element !== document.activeElement) element.value = filter[name];
    }
    await this.#fetch(moment, filter);
    this.#draw(moment, filter);
    if (!moment.isSliding) await this.rejections.show(moment);
  }

  close() {
    clearTimeout(this.#timer);
  }

  async #fetch(moment, filter) {
    const { api } = this.#context;
    const { signal, isSliding } = moment;
    const top = topOf(moment);
    const question = JSON.stringify([filter, isSliding, isFollowing(moment) ? null : top]);
    const isSame = question === this.#known && this.#page !== null;
    if (isSame && (this.#top === top || this.#extend(top, filter))) return;
    // A search waits until the slider rests.
    if (isSliding && isFiltering(filter) && this.#page !== null) return;
    this.#page = isFiltering(filter)
      ? await search(api, filter, top, signal)
      : await readPage(api, { top, newest: moment.epoch }, signal, isSliding ? ROWS_SLIDING : ROWS);
    this.#top = top;
    this.#known = question;
  }

  /** With the entries that the stream brought, where none is missing between. */
  #extend(top, filter) {
    const news = this.#context.recent().filter((entry) => entry.epoch > this.#page.top && entry.epoch <= top);
    if (news.length !== top - this.#page.top) return false;
    this.#page = extended(this.#page, news, filter, top);
    this.#top = top;
    return true;
  }

  #draw(moment, filter) {
    const { entries, top, from, seam } = this.#page;
    const isAll = seam !== null && from <= seam.epoch + 1;
    const opened = NUMBER.test(moment.params.entry ?? "") ? Number(moment.params.entry) : null;
    this.table.update(entries, { opened, isTail: isFollowing(moment), isAll });
    const span = top === 0 ? "The log is empty." : `Epochs ${count(from)} to ${count(top)} of ${count(moment.epoch)}`;
    const filtered = `${span}: ${counted(entries.length, "entry matches", "entries match")}. The filter looks at up to ${count(SEARCHED_MAX)} entries at a time; “Older” goes on.`;
    const live = isFollowing(moment) ? "; new ones appear on top" : null;
    fill(this.note, isFiltering(filter) ? filtered : span, live, isAll ? h("span", { id: "log-seam" }, ` ${seamText(seam)}`) : null);
    this.pager.update({ top, from, first: (seam?.epoch ?? 0) + 1, newest: moment.epoch, isFiltering: isFiltering(filter), isFollowing: isFollowing(moment) });
  }

  #filters() {
    const fields = FILTERS.map(([name, label, placeholder]) => {
      const element = input({ type: "search", placeholder, autocomplete: "off", id: `log-${name}`, on: { input: () => this.#typed() } });
      if (name === "node") element.inputMode = "numeric";
      this.#inputs.set(name, element);
      return field(label, element);
    });
    const clear = button("Clear filters", { on: { click: () => this.#narrow({}) } });
    return h("form", { class: "log-filters", "aria-label": "Filter entries", on: { submit: (event) => (event.preventDefault(), this.#typed(0)) } }, fields, clear);
  }

  #typed(waitMs = TYPED_MS) {
    clearTimeout(this.#timer);
    const given = () => Object.fromEntries([...this.#inputs].map(([name, element]) => [name, element.value.trim()]));
    this.#timer = setTimeout(() => this.#narrow(given()), waitMs);
  }

  #narrow(filter) {
    for (const [name, element] of this.#inputs) element.value = filter[name] ?? "";
    this.#context.go({ params: filter, replace: true });
  }

  #toggle(epoch) {
    const { params } = this.#context.route();
    const isOpen = params.entry === String(epoch);
    this.#context.go({ params: { ...params, entry: isOpen ? null : epoch }, replace: true });
  }

  #pager() {
    const { go, route } = this.#context;
    const turn = (upto) => go({ params: { ...route().params, entry: null, upto } });
    let where = null;
    const step = () => Math.max(ROWS, where.top - where.from + 1);
    const newest = button("Newest", { id: "log-newest", on: { click: () => turn(null) } });
    const newer = button("Newer", { id: "log-newer", on: { click: () => turn(where.top + step() >= where.newest ? null : where.top + step()) } });
    const older = button("Older", { id: "log-older", on: { click: () => turn(where.from - 1) } });
    const oldest = button("Oldest", { id: "log-oldest", on: { click: () => turn(Math.min(where.newest, where.first + ROWS - 1)) } });
    return {
      element: h("div", { class: "row pager", role: "group", "aria-label": "Pages of the log" }, newest, newer, older, oldest),
      update(found) {
        where = found;
        newest.disabled = found.isFollowing || found.top >= found.newest;
        newer.disabled = found.top >= found.newest;
        older.disabled = oldest.disabled = found.from <= found.first;
      },
    };
  }
}

/** While live and on the newest page, entries are added as they come. */
function isFollowing(moment) {
  return moment.isLive && topOf(moment) === moment.epoch;
}

/** The newest epoch on the page: asked for, or such that a linked entry is on it. */
function topOf({ epoch, params }) {
  if (NUMBER.test(params.upto ?? "")) return Math.max(1, Math.min(Number(params.upto), epoch));
  const entry = NUMBER.test(params.entry ?? "") ? Number(params.entry) : epoch;
  return entry <= epoch - ROWS ? Math.max(1, entry + Math.floor(ROWS / 2)) : epoch;
}
