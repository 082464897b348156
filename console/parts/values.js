// Values of the metadata as people read them: every field by its name, what is long folded.

import { rangeText } from "./cards.js";
import { h } from "./dom.js";
import { count, shortToken } from "./format.js";

const CHARS_MAX = 400;
const TOKENS = new Set(["tokens", "splits", "merges"]);
const PLAIN_MAX = 8; // values that stand in a line
const OPEN_MAX = 4; // things that are shown without unfolding them
const FOLDED_MAX = 200;

/** Whether it stands in the line of its field. */
export function isPlain(value) {
  if (Array.isArray(value)) return value.length <= PLAIN_MAX && value.every(isScalar);
  return isScalar(value);
}

export function plainText(value) {
  if (value === undefined || value === null || value === "") return "nothing";
  const text = Array.isArray(value) ? value.join(", ") || "none" : String(value);
  return text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX)} …` : text;
}

export function fieldName(name) {
  return name.replaceAll("_", " ");
}

/** One thing: a range with its owners, a step with its epoch, or whatever its fields say. */
export function itemLine(item) {
  if (isScalar(item)) return plainText(item);
  if (Array.isArray(item)) return valueView("items", item);
  if ("left" in item && "right" in item) return rangeLine(item);
  if ("step" in item && "epoch" in item) return `${item.step} at epoch ${count(item.epoch)}`;
  const fields = Object.entries(item).filter(([, value]) => !isVoid(value));
  const plain = fields.filter(([, value]) => isPlain(value));
  const folded = fields.filter(([, value]) => !isPlain(value));
  return [
    h("span", { class: "muted" }, plain.map(([name, value]) => `${fieldName(name)} ${plainText(TOKENS.has(name) ? value.map(shortToken) : value)}`).join(", ")),
    folded.length ? h("ul", {}, folded.map(([name, value]) => h("li", {}, valueView(name, value)))) : null,
  ];
}

/** The value of a field with its name: a few things beside it, many of them folded. */
export function valueView(name, value) {
  if (!Array.isArray(value)) return [`${fieldName(name)}: `, itemLine(value)];
  if (value.length === 1) return [`${fieldName(name)}: `, itemLine(value[0])];
  const more = value.length - FOLDED_MAX;
  return h(
    "details",
    { class: "folded", open: value.length <= OPEN_MAX },
    h("summary", {}, `${count(value.length)} ${fieldName(name)}`),
    value.every(isScalar)
      ? h("p", { class: "folded-values" }, value.slice(0, FOLDED_MAX).join(", "))
      : h("ul", {}, value.slice(0, FOLDED_MAX).map((item) => h("li", {}, itemLine(item)))),
    more > 0 ? h("p", { class: "muted" }, `and ${count(more)} more`) : null,
  );
}

/** "(−46…12, 23…89]: 1, 2, 3 → 2, 3, 5". */
function rangeLine(item) {
  const owners = (nodes) => (nodes.length ? nodes.join(", ") : "nobody");
  const { before, after } = item;
  return [rangeText(item), before && after ? `: ${owners(before)} → ${owners(after)}` : null];
}

function isScalar(value) {
  return value === null || typeof value !== "object";
}

/** What is not there, or not so, needs no words. */
function isVoid(value) {
  return value === null || value === undefined || value === false || value === "" || (Array.isArray(value) && value.length === 0);
}
