// The small pieces that views are made of.

import { h } from "./dom.js";
import { shortToken } from "./format.js";

/** A section with a heading; the first argument after the title may be {actions: [nodes], ...attributes}. */
export function card(title, ...rest) {
  const isOptions = rest[0] && Object.getPrototypeOf(rest[0]) === Object.prototype;
  const { actions = [], class: more = "", ...properties } = isOptions ? rest.shift() : {};
  const head = h("div", { class: "card-head" }, h("h2", {}, title), actions.length ? h("div", { class: "row" }, actions) : null);
  return h("section", { class: `card${more ? ` ${more}` : ""}`, ...properties }, head, ...rest);
}

/** Names and values: [[name, value], …]; pairs whose value is null are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h(
    "dl",
    { class: "facts" },
    given.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** @param {"good"|"warn"|"bad"|"info"|"quiet"|"accent"} tone */
export function badge(text, tone = "quiet", title = null) {
  return h("span", { class: `badge badge-${tone}`, title }, text);
}

/** A range by the short names of its tokens; the whole ones are its title. */
export function rangeText({ left, right }) {
  // Where there is no room it breaks between the two, and nowhere else.
  const part = (text) => h("span", { class: "range-end" }, text);
  return h("span", { class: "mono range", title: `(${left}, ${right}]` }, part(`(${shortToken(left)},`), " ", part(`${shortToken(right)}]`));
}

/** What is said where there is nothing yet, and what to do about it. */
export function empty(title, sentence, ...actions) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", {}, sentence), ...actions);
}

/** How far something is, from 0 to 1. */
export function meter(fraction, label) {
  const filled = Math.max(0, Math.min(1, fraction || 0));
  const bar = h("span", { class: "bar-fill" });
  bar.style.width = `${(filled * 100).toFixed(2)}%`;
  const percent = Math.round(filled * 100);
  return h(
    "span",
    { class: "bar", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": percent },
    bar,
  );
}

/** A node by its number, as a link to all that is known of it. */
export function nodeLink(context, id, text = `node ${id}`) {
  return h("a", { href: context.href({ view: "nodes", params: { node: id } }) }, text);
}
