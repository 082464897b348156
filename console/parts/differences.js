// Differences as people read them: what is new, what is gone, what is otherwise.

import { h } from "./dom.js";
import { badge } from "./cards.js";
import { count, listed } from "./format.js";

const ITEMS_MAX = 30;
const CHARS_MAX = 400;
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

function line(word, tone, item) {
  return h("li", {}, badge(word, tone), " ", h("strong", {}, keyOf(item)), " ", h("span", { class: "muted" }, restOf(item)));
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
    h("ul", {}, differing.map((name) => fieldLine(name, before[name], after[name]))),
  );
}

function fieldLine(name, before, after) {
  return h(
    "li",
    {},
    `${name.replaceAll("_", " ")}: `,
    h("del", {}, short(before)),
    " → ",
    h("ins", {}, short(after)),
  );
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
    h("span", { class: "mono" }, `(${item.left}, ${item.right}]`),
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
  const key = KEYS.find((name) => name in item);
  return key ? `${word}${key === "name" ? "" : `${key} `}${item[key]}` : word;
}

function restOf(given) {
  const { item } = unwrapped(given);
  const key = KEYS.find((name) => name in item);
  const parts = Object.entries(item)
    .filter(([name, value]) => name !== key && value !== null && text(value) !== "[]")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${plainly(value)}`);
  return cut(parts.join(", "));
}

function short(value) {
  if (value === undefined || value === null) return "nothing";
  return cut(plainly(value));
}

/** Without the brackets and quotes of JSON, as far as one still sees what belongs together. */
function plainly(value) {
  if (Array.isArray(value)) return value.map(plainly).join(", ") || "none";
  if (value === null || typeof value !== "object") return String(value);
  return Object.values(value).map(plainly).join(" ");
}

function text(value) {
  return value === undefined ? "" : JSON.stringify(value);
}

function cut(value) {
  return value.length > CHARS_MAX ? `${value.slice(0, CHARS_MAX)} …` : value;
}
