// One entry opened: what it holds, and what it made different.

import { facts } from "../parts/cards.js";
import { differenceView } from "../parts/differences.js";
import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { button } from "../parts/forms.js";
import { sequenceOf } from "./log_words.js";

const CHARS_MAX = 20_000;

/** Made at once; the difference follows when it has come. */
export function openedEntry(context, entry) {
  const difference = h("div", { class: "log-difference", tabindex: "0", role: "region", "aria-label": "What changed" }, h("p", { class: "muted", role: "status" }, "Comparing …"));
  load(context, entry.epoch, difference);
  const sequence = sequenceOf(entry);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("a", { class: "button", href: context.href({ view: "ring", at: entry.epoch }) }, "Show the ring at this epoch"),
      sequence === null
        ? null
        : h("a", { class: "button", href: context.href({ view: "sequences", params: { id: sequence } }) }, `Sequence ${sequence}`),
    ),
    h(
      "div",
      { class: "log-entry" },
      h("section", {}, h("h3", {}, "What changed"), difference),
      h("section", { class: "stack" }, ...held(entry)),
    ),
  );
}

function held(entry) {
  return [
    h("h3", {}, "Transformation"),
    h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Transformation" }, pretty(entry.transformation)),
    facts([
      ["Result", Object.keys(entry.result ?? {}).length ? mono(JSON.stringify(entry.result)) : null],
      ["Reason", entry.reason],
      ["Committed by", entry.committed_by],
      ["Entry id", mono(entry.entry_id)],
      ["Digest", mono(entry.digest)],
      ["Hash", mono(entry.hash)],
      ["Hash before", mono(entry.previous_hash)],
    ]),
  ];
}

async function load(context, epoch, place) {
  try {
    const query = { from: epoch - 1, to: epoch };
    const { components } = await context.api.get("/v1/diff", { query });
    fill(place, differenceView(components));
  } catch (error) {
    const again = button("Try again", { on: { click: () => load(context, epoch, place) } });
    fill(place, h("p", { role: "alert" }, error.message), again);
  }
}

function pretty(value) {
  const text = JSON.stringify(value, null, 2);
  const rest = text.length - CHARS_MAX;
  return rest > 0 ? `${text.slice(0, CHARS_MAX)}\n… and ${count(rest)} characters more` : text;
}

function mono(text) {
  return h("span", { class: "mono" }, text);
}
