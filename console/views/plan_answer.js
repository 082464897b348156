// A plan in figures and tables: what would be moved, locked and waited for, or why it may not be.

import { badge, card, nodeLink, rangeText } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { bytes, count, counted, duration, rate, share } from "../parts/format.js";
import { table } from "../parts/tables.js";
import { withSides } from "./sequences_steps.js";
import { named, nodeName, title } from "./sequences_words.js";

const CIRCLE = 2 ** 64;
const GROUPS_SHOWN_MAX = 20;
const ABSENT = new Set(["down", "unknown"]);

/** `nodes` are those of the directory, to say who is not there. */
export function planAnswer(context, { plan, transformation }, nodes, actions) {
  if (plan.outcome !== "accepted") return refused(context, plan);
  return h(
    "div",
    { class: "stack" },
    card(
      `${title(plan.sequence)} is possible`,
      { id: "plan-answer", actions: [badge(`planned at epoch ${count(plan.epoch)}`, "info")] },
      figures(plan),
      h("ul", { class: "plain plan-notes" }, notes(plan, nodes).map(([text, tone]) => h("li", {}, badge(tone[0], tone[1]), " ", text))),
      transformation.tokens ? tokensShown(transformation.tokens) : null,
      actions,
    ),
    card("Rows and bytes by node", { id: "plan-nodes" }, perNode(context, plan)),
    card("From where to where", { id: "plan-transfers" }, transfers(context, plan)),
    card("Ranges that change hands", { id: "plan-ranges" }, ranges(plan)),
    card("Voters", { id: "plan-voters" }, voters(plan)),
  );
}

function refused(context, { problem, epoch }) {
  return h(
    "div",
    { class: "stack" },
    card(
      "It would be refused",
      { id: "plan-answer", class: "is-bad", actions: [badge(problem.code, "bad")] },
      h("p", { class: "now-line" }, `${problem.detail.charAt(0).toUpperCase()}${problem.detail.slice(1)}.`),
      problem.remedy ? h("p", {}, `To go on: ${problem.remedy}.`) : null,
      problem.sequence
        ? h("p", {}, "In the way: ", h("a", { href: context.href({ view: "sequences", params: { id: problem.sequence } }) }, `sequence ${problem.sequence}`))
        : null,
      problem.ranges?.length ? h("p", {}, problem.ranges.slice(0, 10).map((item) => [rangeText(item), " "])) : null,
      h("p", { class: "muted" }, `Decided against epoch ${count(epoch)}; nothing was changed.`),
    ),
  );
}

function figures(plan) {
  const moves = plan.transfers.length > 0;
  const pairs = [
    ["Rows to move", moves ? count(plan.rows) : "none"],
    ["Bytes to move", moves ? bytes(plan.bytes) : "none"],
    ["Predicted time", plan.seconds === null ? "not known" : duration(plan.seconds)],
    ["At a rate of", plan.rows_per_s === null ? "not known" : rate(plan.rows_per_s, "rows")],
    ["Weakest moment", plan.weakest === null ? "–" : counted(plan.weakest, "replica")],
    ["Locked", lockText(plan.locks)],
  ];
  return h(
    "dl",
    { class: "plan-figures" },
    pairs.map(([name, value]) => h("div", {}, h("dt", { class: "figure-name" }, name), h("dd", { class: "figure-value" }, value))),
  );
}

function notes(plan, nodes) {
  const found = [];
  const warn = ["mind", "warn"];
  const note = ["note", "quiet"];
  if (plan.transfers.length > 0 && plan.rows === null) {
    found.push(["Rows are moved, but no node has reported yet how many it holds.", note]);
  } else if (plan.transfers.length > 0 && plan.seconds === null) {
    found.push(["Nothing was moved yet that tells how long it takes.", note]);
  }
  if (plan.transfers.length === 0) found.push(["No rows are moved: no table is affected.", note]);
  const { sequence } = plan;
  const takesPart = new Set([sequence.node, sequence.replaced, ...plan.transfers.map((item) => item.target)]);
  for (const item of nodes) {
    if (takesPart.has(item.id) && ABSENT.has(item.liveness) && !sequence.dead.includes(item.id)) {
      found.push([`${nodeName(item.id)} is ${item.liveness}: the sequence waits until it is up.`, warn]);
    }
  }
  for (const text of plan.result?.warnings ?? []) found.push([text, warn]);
  return found;
}

/** What each node would gain and give. */
function perNode(context, plan) {
  const sums = new Map();
  const of = (node) => {
    if (!sums.has(node)) sums.set(node, { node, gains: 0, gainsBytes: 0, gives: 0, ranges: 0 });
    return sums.get(node);
  };
  for (const item of plan.transfers) {
    const target = of(item.target);
    target.gains += item.rows ?? 0;
    target.gainsBytes += item.bytes ?? 0;
    target.ranges += item.ranges;
    of(item.source).gives += item.rows ?? 0;
  }
  const isKnown = plan.rows !== null;
  const made = table({
    caption: "Rows and bytes by node",
    key: (row) => row.node,
    rowsPage: 10,
    empty: "No node gains or gives rows.",
    columns: [
      { title: "Node", cell: (row) => nodeLink(context, row.node), sort: (row) => row.node },
      { title: "Gains rows", isNumber: true, cell: (row) => figure(isKnown, count(row.gains)), sort: (row) => row.gains },
      { title: "Gains bytes", isNumber: true, cell: (row) => figure(isKnown, bytes(row.gainsBytes)), sort: (row) => row.gainsBytes },
      { title: "Ranges", isNumber: true, isWide: true, cell: (row) => count(row.ranges), sort: (row) => row.ranges },
      { title: "Is read for rows", isNumber: true, cell: (row) => figure(isKnown, count(row.gives)), sort: (row) => row.gives },
    ],
  });
  made.update([...sums.values()].sort((one, other) => other.gains - one.gains || one.node - other.node));
  return made.element;
}

function figure(isKnown, text) {
  return isKnown ? text : "–";
}

function transfers(context, plan) {
  const made = table({
    caption: "What is read where, and for whom",
    key: (row) => `${row.source} ${row.target}`,
    rowsPage: 10,
    empty: "Nothing is transferred.",
    columns: [
      { title: "From", cell: (row) => nodeLink(context, row.source), sort: (row) => row.source },
      { title: "To", cell: (row) => nodeLink(context, row.target), sort: (row) => row.target },
      { title: "Ranges", isNumber: true, cell: (row) => count(row.ranges), sort: (row) => row.ranges },
      { title: "Rows", isNumber: true, cell: (row) => count(row.rows), sort: (row) => row.rows },
      { title: "Bytes", isNumber: true, cell: (row) => bytes(row.bytes), sort: (row) => row.bytes },
    ],
  });
  made.update(plan.transfers);
  return made.element;
}

function ranges(plan) {
  const made = table({
    caption: "Ranges that change hands",
    key: (row) => `${row.placement} ${row.left}`,
    rowsPage: 10,
    empty: "No range changes hands.",
    filter: (row) => `${row.left} ${row.right} ${row.placement}`,
    filterLabel: "Filter by token or placement",
    columns: [
      { title: "Range", cell: rangeText },
      { title: "Gained by", cell: (row) => row.gained.join(", ") || "–" },
      { title: "Lost by", cell: (row) => row.lost.join(", ") || "–" },
      { title: "Placement", isWide: true, cell: (row) => row.placement, sort: (row) => row.placement },
    ],
  });
  made.update(plan.deltas.map(withSides));
  return made.element;
}

function voters(plan) {
  const groups = plan.barrier?.groups ?? [];
  if (groups.length === 0) return h("p", {}, "Nobody is waited for: no table is affected.");
  const more = groups.length - GROUPS_SHOWN_MAX;
  return h(
    "ul",
    { class: "plain" },
    groups.slice(0, GROUPS_SHOWN_MAX).map((group) => h("li", {}, `${count(group.needed)} of ${named(group.group)}${away(group)}`)),
    more > 0 ? h("li", { class: "muted" }, `and ${counted(more, "more group", "more groups")}`) : null,
  );
}

function away(group) {
  const absent = group.missing.filter((item) => item.liveness !== "up");
  return absent.length ? `; not up now: ${absent.map((item) => `${nodeName(item.node)} (${item.liveness})`).join(", ")}` : "";
}

function lockText(locks) {
  const placed = locks.flatMap((item) => item.placements).filter((item) => item.ranges.length > 0);
  if (placed.length === 0) return "nothing";
  const widest = Math.max(...placed.map((item) => item.ranges.reduce((sum, range) => sum + width(range), 0)));
  return `${share(widest)} of the ring`;
}

function width({ left, right }) {
  const span = BigInt.asUintN(64, BigInt(right) - BigInt(left));
  return span === 0n ? 1 : Number(span) / CIRCLE;
}

function tokensShown(tokens) {
  return h(
    "details",
    {},
    h("summary", {}, counted(tokens.length, "token")),
    h("p", { class: "tokens-shown", tabindex: "0" }, tokens.join(", ")),
  );
}
