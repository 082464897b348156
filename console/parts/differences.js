// Differences as people read them: what is new, what is gone, what is otherwise.

import { h } from "./dom.js";
import { badge, rangeText } from "./cards.js";
import { count, listed } from "./format.js";
import { fieldName, isPlain, itemLine, plainText, valueView } from "./values.js";

const ITEMS_MAX = 30;
const ALTERED_MAX = 6; // more of them are folded
const NAMES = {
  cluster: "Cluster",
  directory: "Nodes",
  schema: "Schema",
  ring: "Ring",
  placements: "Owners of ranges",
  locks: "Locks",
  sequences: "Sequences",
  sessions: "Sessions",
  cms: "CMS",
  extensions: "Extensions",
};
const KEYS = ["name", "id", "token", "sequence", "node"];

/** `components` as GET /v1/diff answers them. */
export function differenceView(components) {
  const names = Object.keys(components);
  if (names.length === 0) {
    return h("p", { class: "muted" }, "Nothing that the metadata shows is different.");
  }
  return h(
    "div",
    { class: "stack" },
    names.map((name) =>
      h("section", { class: "difference" }, h("h3", {}, NAMES[name] ?? name), changeList(components[name])),
    ),
  );
}

/** One component: {added, removed, changed}. */
function changeList({ added = [], removed = [], changed = [] }) {
  const items = [
    ...added.map((item) => line("New", "good", item)),
    ...removed.map((item) => line("Gone", "bad", item)),
    ...changed.map((item) => ("before" in item && "after" in item ? altered(item) : moved(item))),
  ];
  const more = items.length - ITEMS_MAX;
  return h(
    "ul",
    { class: "changes" },
    items.slice(0, ITEMS_MAX),
    more > 0 ? h("li", { class: "muted" }, `and ${count(more)} more`) : null,
  );
}

/** An item may stand under the word for what it is: {table: {…}}. */
function unwrapped(item) {
  const [[word, value] = [], ...others] = Object.entries(item ?? {});
  const isWrapped = others.length === 0 && value !== null && typeof value === "object" && !Array.isArray(value);
  return isWrapped ? { word: `${word} `, item: value } : { word: "", item: item ?? {} };
}

function line(word, tone, given) {
  const { item } = unwrapped(given);
  const key = keyNameOf(item);
  const rest = Object.fromEntries(Object.entries(item).filter(([name]) => name !== key));
  return h("li", {}, badge(word, tone), " ", h("strong", {}, keyOf(given)), " ", itemLine(rest));
}

/** An item with fields before and after: only those that differ. */
function altered(change) {
  const { item: before } = unwrapped(change.before);
  const { item: after } = unwrapped(change.after);
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const differing = fields.filter((name) => text(before[name]) !== text(after[name]));
  return h(
    "li",
    {},
    badge("Changed", "info"),
    " ",
    h("strong", {}, keyOf(change.after ?? change.before)),
    h("ul", {}, differing.map((name) => h("li", {}, fieldLine(name, before[name], after[name])))),
  );
}

function fieldLine(name, before, after) {
  if (isPlain(before) && isPlain(after)) {
    return [`${fieldName(name)}: `, h("del", {}, plainText(before)), " → ", h("ins", {}, plainText(after))];
  }
  if (Array.isArray(before ?? []) && Array.isArray(after ?? [])) return listLine(name, before ?? [], after ?? []);
  return [`${fieldName(name)}: `, h("del", {}, itemLine(before ?? {})), " → ", h("ins", {}, itemLine(after ?? {}))];
}

/** Of two lists only what one of them has alone. */
function listLine(name, before, after) {
  const without = (list, other) => {
    const known = new Set(other.map(text));
    return list.filter((item) => !known.has(text(item)));
  };
  const gone = without(before, after);
  const fresh = without(after, before);
  if (gone.length + fresh.length > ALTERED_MAX) {
    return h("ul", {}, gone.length ? h("li", {}, "gone: ", valueView(name, gone)) : null, fresh.length ? h("li", {}, "new: ", valueView(name, fresh)) : null);
  }
  return [
    `${fieldName(name)}: `,
    gone.map((item) => [h("del", {}, itemLine(item)), " "]),
    fresh.map((item) => [h("ins", {}, itemLine(item)), " "]),
  ];
}

/** A range whose readers or writers are others. */
function moved(item) {
  const sides = ["readers", "writers"].filter(
    (side) => item[side] && text(item[side].before) !== text(item[side].after),
  );
  return h(
    "li",
    {},
    badge("Range", "info"),
    " ",
    rangeText(item),
    " ",
    h("span", { class: "muted" }, item.placement ?? ""),
    h(
      "ul",
      {},
      sides.map((side) =>
        h("li", {}, `${side}: `, h("del", {}, owners(item[side].before)), " → ", h("ins", {}, owners(item[side].after))),
      ),
    ),
  );
}

function owners(list) {
  return list?.length ? `${listed(list)}` : "nobody";
}

function keyOf(given) {
  const { word, item } = unwrapped(given);
  const key = keyNameOf(item);
  return key ? `${word}${key === "name" ? "" : `${key} `}${item[key]}` : word;
}

function keyNameOf(item) {
  return KEYS.find((name) => name in item);
}

function text(value) {
  return value === undefined ? "" : JSON.stringify(value);
}
