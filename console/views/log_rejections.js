// Proposals that were refused, by code: the log has none of them, so a CMS counts them.

import { card } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { slot } from "../parts/slots.js";

const AGAIN_MS = 5_000;
const LINE = /^ringlog_rejections_total\{code="([^"]+)"\} ([0-9.e+]+)$/gm;

export function rejectionsCard(context) {
  const body = slot();
  let askedMs = -Infinity;
  return {
    element: card("Rejections by code", { id: "rejections" }, body.element),
    async show(moment) {
      if (!moment.isLive) {
        body.show("past", () => h("p", { class: "muted" }, "Refusals are not in the log, so nothing is known of past ones."));
        askedMs = -Infinity;
        return;
      }
      if (performance.now() - askedMs < AGAIN_MS) return;
      askedMs = performance.now();
      body.show(counts(await context.api.text("/metrics", { signal: moment.signal })), shown);
    },
  };
}

function counts(text) {
  const found = [...text.matchAll(LINE)].map(([, code, value]) => [code, Number(value)]);
  return found.sort(([, one], [, other]) => other - one);
}

function shown(found) {
  const note = h("p", { class: "muted" }, "Counted by the CMS process that answers, since it started.");
  if (found.length === 0) return [h("p", {}, "Nothing was refused."), note];
  const most = found[0][1];
  return [
    h(
      "ul",
      { class: "rejections" },
      found.map(([code, value]) => {
        const bar = h("span", { class: "rejection-bar" });
        bar.style.width = `${(100 * value) / most}%`;
        return h("li", {}, h("span", { class: "mono" }, code), h("span", { class: "rejection-track", "aria-hidden": "true" }, bar), h("span", { class: "number" }, count(value)));
      }),
    ),
    note,
  ];
}
