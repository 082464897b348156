// What would follow from a cancel or from a step, as plan answers it.

import { bytes, count, counted, listed } from "../parts/format.js";
import { named, nodeName } from "./sequences_words.js";

const GROUPS_SHOWN_MAX = 4;
const NODES_SHOWN_MAX = 8;

/** What a cancel means, sentence by sentence. */
export function ofCancel(plan) {
  const taken = new Set(plan.sequence.taken.map((item) => item.step));
  return [
    turnedBack(taken, counted(plan.deltas.length, "range")),
    kept(plan),
    taken.has("start") ? dropped(plan, taken.has("mid")) : null,
    taken.has("start") ? "Nothing that was acknowledged is lost." : null,
    weakest(plan),
    waited(plan, "Before the ranges are free"),
    `It would be epoch ${count(plan.epoch + 1)}.`,
  ].filter(Boolean);
}

/** What a step that is taken by hand means. */
export function ofStep(plan, step) {
  const means = {
    start: `${sum(plan, "gained", "gets every write of")}. ${movedThen(plan)}`,
    finish: `${sum(plan, "lost", "stops writing")}; from then on it cannot be cancelled.`,
  };
  return [
    plan.deltas.length ? means[step] : "No range changes hands.",
    weakest(plan),
    waited(plan, `Before the step ${plan.sequence.due}`),
  ].filter(Boolean);
}

function turnedBack(taken, ranges) {
  if (taken.has("mid")) return `Reads of ${ranges} move back to the owners before.`;
  if (taken.has("start")) return `The movement of ${ranges} is given up; the owners stay who they are.`;
  return `Nothing has moved yet: the locks on ${ranges} go and the owners stay who they are.`;
}

/** Who would have lost a range, and does not. */
function kept(plan) {
  const text = sum(plan, "lost", "keeps");
  return text ? `${text}.` : null;
}

function dropped(plan, isWhole) {
  const text = sum(plan, "gained", isWhole ? "drops" : "drops what it has got of");
  if (!text) return null;
  if (plan.transfers.length === 0) return `${text}; no table is affected, so no rows are.`;
  if (plan.rows === null) return `${text}; how many rows that is nobody has reported.`;
  const most = isWhole ? "about" : "at most about";
  return `${text}: ${most} ${size(plan)}.`;
}

function movedThen(plan) {
  if (plan.transfers.length === 0) return "No rows are moved then: no table is affected.";
  if (plan.rows === null) return "Rows are moved then; how many nobody has reported.";
  return `About ${size(plan)} are moved then.`;
}

function size(plan) {
  return `${counted(plan.rows, "row")} (${bytes(plan.bytes)})`;
}

/** "Node 1 keeps 3 ranges and node 2 keeps 1 range", by one side of the ranges that change hands. */
function sum(plan, side, verb) {
  const counts = new Map();
  for (const node of plan.deltas.flatMap((item) => item[side])) counts.set(node, (counts.get(node) ?? 0) + 1);
  const all = [...counts].sort(([one], [other]) => one - other);
  const texts = all.slice(0, NODES_SHOWN_MAX).map(([node, ranges]) => `${nodeName(node)} ${verb} ${counted(ranges, "range")}`);
  if (all.length > NODES_SHOWN_MAX) texts.push(`${counted(all.length - NODES_SHOWN_MAX, "more node")} likewise`);
  const text = listed(texts);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function weakest(plan) {
  if (plan.weakest === null) return null;
  return `No range is read from fewer than ${counted(plan.weakest, "replica")} on the way.`;
}

function waited(plan, when) {
  const groups = plan.barrier?.groups ?? [];
  if (groups.length === 0) return "Nobody has to be waited for.";
  const shown = groups.slice(0, GROUPS_SHOWN_MAX).map((item) => `${needed(item)} ${named(item.group)}`);
  const more = groups.length - shown.length;
  if (more > 0) shown.push(`${count(more)} more`);
  return `${when}, ${counted(groups.length, "group")} must have applied it: ${shown.join("; ")}.`;
}

function needed(group) {
  return group.all_of || group.needed === group.group.length ? "all of" : `${count(group.needed)} of`;
}
