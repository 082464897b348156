// Rows of entries, of which one may be open; a row that stays keeps its element and its focus.

import { badge } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { moment as clock } from "../parts/format.js";
import { openedEntry } from "./log_entry.js";
import { summary } from "./log_words.js";

const COLUMNS = ["Epoch", "Time", "Kind", "What", "Actor"];
const WIDE = new Set(["Time", "Kind", "Actor"]);
const TONES = [
  [/^(Prepare|Start|Mid|Finish)/, "info"],
  [/^(Retire)/, "good"],
  [/^(Cancel|Drop|Assassinate|Unregister|Unsafe|Force)/, "warn"],
  [/^(Create|Alter)/, "accent"],
];

export function logTable(context, onToggle) {
  const body = h("tbody");
  const nothing = h("p", { class: "empty" });
  const heads = COLUMNS.map((title) => h("th", { scope: "col", class: WIDE.has(title) ? "wide" : null }, title));
  const shown = h(
    "table",
    { class: "log-table" },
    h("caption", { class: "unseen" }, "Entries of the log, newest first"),
    h("thead", {}, h("tr", {}, heads)),
    body,
  );
  const scroll = h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Entries of the log" }, shown);
  let rows = new Map();
  let open = null;

  function rowOf(entry, isTail) {
    const known = rows.get(entry.epoch);
    if (known) return known;
    return row(entry, onToggle, isTail && rows.size > 0);
  }

  function opened(entry) {
    if (entry === undefined) return null;
    if (open?.epoch !== entry.epoch) {
      const cell = h("td", { colspan: COLUMNS.length }, openedEntry(context, entry));
      open = { epoch: entry.epoch, element: h("tr", { class: "log-opened", id: `entry-${entry.epoch}` }, cell) };
    }
    return open.element;
  }

  return {
    element: h("div", { class: "table" }, scroll, nothing),
    update(entries, { opened: wanted, isTail, isAll }) {
      rows = new Map(entries.map((entry) => [entry.epoch, rowOf(entry, isTail)]));
      const below = opened(entries.find((entry) => entry.epoch === wanted));
      if (!below) open = null;
      for (const [epoch, element] of rows) mark(element, epoch === wanted);
      const elements = [...rows.entries()].flatMap(([epoch, element]) => (epoch === wanted ? [element, below] : [element]));
      arrange(body, elements);
      nothing.textContent = isAll ? "No entry that is kept here matches." : "No entry matches; look further back, or clear the filters.";
      nothing.hidden = entries.length > 0;
      scroll.hidden = entries.length === 0;
    },
  };
}

function row(entry, onToggle, isNew) {
  const toggle = h(
    "button",
    {
      type: "button",
      class: "button button-quiet log-toggle",
      "aria-expanded": "false",
      "aria-controls": `entry-${entry.epoch}`,
      on: { click: () => onToggle(entry.epoch) },
    },
    String(entry.epoch),
  );
  return h(
    "tr",
    { class: isNew ? "is-new" : null, data: { epoch: entry.epoch, kind: entry.kind } },
    h("td", {}, toggle),
    h("td", { class: "wide muted" }, clock(entry.committed_at)),
    h("td", { class: "wide" }, badge(entry.kind, toneOf(entry.kind))),
    // On narrow screens the kind stands above the rest, for there is no room beside it.
    h("td", { class: "log-what" }, h("div", { class: "log-kind" }, badge(entry.kind, toneOf(entry.kind))), summary(entry), entry.reason ? h("span", { class: "muted" }, ` – ${entry.reason}`) : null),
    h("td", { class: "wide" }, entry.actor ?? "–"),
  );
}

function mark(element, isOpen) {
  element.classList.toggle("is-open", isOpen);
  element.querySelector(".log-toggle").setAttribute("aria-expanded", String(isOpen));
}

/** Only what is not in its place is moved: moving an element loses its focus. */
function arrange(body, elements) {
  const wanted = new Set(elements);
  for (const child of [...body.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, index) => {
    if (body.children[index] !== element) body.insertBefore(element, body.children[index] ?? null);
  });
}

function toneOf(kind) {
  return TONES.find(([pattern]) => pattern.test(kind))?.[1] ?? "quiet";
}
