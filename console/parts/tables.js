// Tables of any length: sorted, filtered, and only one page of rows in the document.

import { fill, h, unseen } from "./dom.js";
import { count } from "./format.js";
import { button, input } from "./forms.js";

const ROWS_PAGE = 50;
const FILTER_FROM_ROWS = 12;

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => any} cell  a node, a text or a list of them
 * @property {(row: any) => number|string|null} [sort]
 * @property {boolean} [isNumber]
 * @property {boolean} [isWide]  left out on narrow screens
 * @property {boolean} [isUnnamed]  the title is for screen readers only
 */

/**
 * `key` names a row, so that its element and focus outlast an update; `filter` gives the text
 * that is searched; `onRow` the address that a click anywhere in the row leads to.
 */
export function table(options) {
  const made = new Table(options);
  return { element: made.element, update: (rows) => made.update(rows) };
}

class Table {
  #options;
  #rows = [];
  #shown = new Map();
  #sorted = null;
  #isDescending = false;
  #page = 0;
  #wanted = "";

  constructor(options) {
    this.#options = { rowsPage: ROWS_PAGE, ...options };
    this.#build();
  }

  update(rows) {
    this.#rows = rows;
    this.#draw();
  }

  #build() {
    const { caption, columns, filter, filterLabel = "Filter" } = this.#options;
    this.body = h("tbody");
    this.heads = columns.map((column) => this.#head(column));
    this.nothing = h("div", { class: "table-empty" });
    this.pager = h("div", { class: "pager row" });
    this.search = filter
      ? input({
          type: "search",
          "aria-label": filterLabel,
          placeholder: filterLabel,
          on: { input: () => this.#narrow(this.search.value) },
        })
      : null;
    this.tools = h("div", { class: "table-tools row" }, this.search);
    const shown = h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, this.heads)),
      this.body,
    );
    const scroll = h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption }, shown);
    this.element = h("div", { class: "table" }, this.tools, scroll, this.nothing, this.pager);
  }

  #head(column) {
    const words = column.isUnnamed ? unseen(column.title) : column.title;
    const title = column.sort
      ? button(words, { kind: "quiet", class: "sorter", on: { click: () => this.#sort(column) } })
      : words;
    return h("th", { scope: "col", class: look(column) }, title);
  }

  #sort(column) {
    this.#isDescending = this.#sorted === column ? !this.#isDescending : false;
    this.#sorted = column;
    this.#options.columns.forEach((item, index) => {
      const order = this.#isDescending ? "descending" : "ascending";
      if (item === column) this.heads[index].setAttribute("aria-sort", order);
      else this.heads[index].removeAttribute("aria-sort");
    });
    this.#draw();
  }

  #narrow(text) {
    this.#wanted = text.trim().toLowerCase();
    this.#page = 0;
    this.#draw();
  }

  #draw() {
    const { rowsPage, key, empty: nothing } = this.#options;
    const found = this.#ordered(this.#filtered());
    const pages = Math.max(1, Math.ceil(found.length / rowsPage));
    this.#page = Math.min(this.#page, pages - 1);
    const seen = found.slice(this.#page * rowsPage, (this.#page + 1) * rowsPage);
    const kept = new Map();
    for (const row of seen) kept.set(key(row), this.#row(row, this.#shown.get(key(row))));
    this.#shown = kept;
    this.#arrange([...kept.values()]);
    this.tools.hidden = !this.search || (this.#rows.length < FILTER_FROM_ROWS && !this.#wanted);
    const isEmpty = found.length === 0;
    this.element.classList.toggle("is-empty", isEmpty);
    fill(this.nothing, isEmpty ? (this.#rows.length ? "Nothing matches the filter." : nothing) : null);
    this.#paged(found.length, pages);
  }

  #filtered() {
    const { filter } = this.#options;
    if (!filter || !this.#wanted) return this.#rows;
    return this.#rows.filter((row) => filter(row).toLowerCase().includes(this.#wanted));
  }

  #ordered(rows) {
    if (!this.#sorted) return rows;
    const { sort } = this.#sorted;
    const sign = this.#isDescending ? -1 : 1;
    return rows
      .map((row) => [sort(row), row])
      .sort(([one], [other]) => sign * compared(one, other))
      .map(([, row]) => row);
  }

  /** The row stays, and so do cells that are the same, with focus and marked text in them. */
  #row(row, known) {
    const { columns, onRow } = this.#options;
    const href = onRow?.(row);
    const element = known ?? h("tr", { on: { click: follow } });
    if (href) element.dataset.href = href;
    columns.forEach((column, index) => {
      const cell = h("td", { class: look(column) }, column.cell(row));
      const before = element.children[index];
      if (!before) element.append(cell);
      else if (!before.isEqualNode(cell) || cell.querySelector("button")) exchange(before, cell);
    });
    return element;
  }

  #arrange(elements) {
    const isSame =
      elements.length === this.body.children.length &&
      elements.every((element, index) => this.body.children[index] === element);
    if (!isSame) this.body.replaceChildren(...elements);
  }

  #paged(total, pages) {
    this.pager.hidden = pages < 2;
    if (pages < 2) return;
    const { rowsPage } = this.#options;
    const from = this.#page * rowsPage + 1;
    const to = Math.min(total, from + rowsPage - 1);
    if (!this.previous) {
      this.previous = button("Previous", { on: { click: () => this.#turn(-1) } });
      this.next = button("Next", { on: { click: () => this.#turn(1) } });
      this.where = h("span", { class: "muted", role: "status" });
      fill(this.pager, this.previous, this.next, this.where);
    }
    this.previous.disabled = this.#page === 0;
    this.next.disabled = this.#page >= pages - 1;
    const where = `${count(from)} to ${count(to)} of ${count(total)}`;
    // Said aloud, so only when it is another.
    if (this.where.textContent !== where) fill(this.where, where);
  }

  #turn(by) {
    this.#page += by;
    this.#draw();
  }
}

/** Where focus was on a link, the link in its place has it. */
function exchange(before, cell) {
  const isFocused = before.contains(document.activeElement);
  before.replaceWith(cell);
  if (isFocused) cell.querySelector("a, button")?.focus();
}

/** A click beside the links of a row follows the row; marking text does not. */
function follow(event) {
  const href = event.currentTarget.dataset.href;
  if (!href || event.target.closest("a, button, input, select") || String(getSelection())) return;
  location.hash = href;
}

function look(column) {
  return [column.isNumber ? "number" : "", column.isWide ? "wide" : ""].filter(Boolean).join(" ") || null;
}

function compared(one, other) {
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}
