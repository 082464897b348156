// What there is to say of a sequence: why it waits, for whom, and since when.

import { bytes, count, counted, duration, listed, rate } from "../parts/format.js";

const SILENT_AFTER_S = 6; // a driver that says nothing for so long does not drive
const LAGGARDS_SHOWN_MAX = 5;
const STEPS = ["prepare", "start", "mid", "finish", "retire"];

export function nodeName(node) {
  return `node ${node}`;
}

export function named(nodes) {
  return listed(nodes.map(nodeName));
}

/** "Join of node 4", "Replace of node 2 by node 5". */
export function title(view) {
  const kind = view.kind.charAt(0).toUpperCase() + view.kind.slice(1);
  if (view.replaced !== null && view.replaced !== undefined) {
    return `${kind} of ${nodeName(view.replaced)} by ${nodeName(view.node)}`;
  }
  return `${kind} of ${nodeName(view.node)}`;
}

/** The steps that are still to come, after those taken. */
export function comingSteps(taken) {
  const names = taken.map((item) => item.step);
  if (names.includes("retire")) return [];
  if (names.includes("cancel")) return ["retire"];
  return STEPS.slice(STEPS.indexOf(names.at(-1)) + 1);
}

export function isDriven(view) {
  return Boolean(view.driver) && view.driver.age_s < SILENT_AFTER_S;
}

/** What is being done about it, or why nothing is, in one sentence. */
export function now(view) {
  if (!isDriven(view)) return undriven(view);
  const { driver } = view;
  // It has not come to this step yet, and what it said of another one misleads.
  if (driver.step !== view.due) return sentence(`${view.due} ${waits(view)}`);
  const since = `for ${duration(driver.for_s)}`;
  if (driver.doing === "stuck") return stuck(view);
  if (driver.doing === "waiting") return `Waits ${since} for ${waitedFor(view)}.`;
  if (driver.doing === "moving") {
    return view.progress ? sentence(moved(view.progress)) : `Moves rows ${since}.`;
  }
  return sentence(`${driver.doing} ${since}${driver.detail ? `: ${driver.detail}` : ""}`);
}

/** How pressing it is, for a badge: its text and its tone. */
export function standing(view) {
  if (isDriven(view) && view.driver.doing === "stuck") return ["stuck", "bad"];
  if (view.since_s !== null && !isDriven(view) && view.since_s > SILENT_AFTER_S) {
    return ["not driven", "bad"];
  }
  if (view.cancelled) return ["cancelling", "warn"];
  if (view.progress) return ["moving", "info"];
  return view.barrier && !view.barrier.passed ? ["waiting", "warn"] : ["in progress", "info"];
}

/** By name, with how far behind each is. */
export function waitedFor(view) {
  const lagging = (view.laggards ?? []).filter((item) => item.blocking);
  if (lagging.length > 0) {
    const shown = lagging.slice(0, LAGGARDS_SHOWN_MAX).map(laggard);
    const more = lagging.length - shown.length;
    if (more > 0) shown.push(`${count(more)} more`);
    return `${listed(shown)} to apply epoch ${view.barrier.epoch}`;
  }
  // They told the CMS that they are there; only the driver cannot hear them.
  if (view.driver?.waiting.length) return `${named(view.driver.waiting)} to answer ${view.driver.name}`;
  return "nobody any more";
}

export function moved(moving) {
  const parts = [`${moving.phase}: ${count(moving.rows_done)} of ${count(moving.rows_total)} rows`];
  if (moving.bytes_total) parts.push(`${bytes(moving.bytes_done)} of ${bytes(moving.bytes_total)}`);
  if (moving.rows_per_s) parts.push(rate(moving.rows_per_s, "rows"));
  if (moving.eta_s !== null) parts.push(`${duration(moving.eta_s)} left`);
  return parts.join(", ");
}

/** Nodes that gain a range by it. */
export function gaining(view) {
  const found = new Set();
  for (const change of changesOf(view)) {
    for (const node of change.after) if (!change.before.includes(node)) found.add(node);
  }
  return found.size > 0 ? [...found].sort((one, other) => one - other) : [view.node];
}

export function changesOf(view) {
  return view.plans.flatMap((plan) =>
    plan.changes.map((change) => ({ placement: plan.placement, ...change })),
  );
}

/** The kind of transformation that takes a step of such a sequence. */
export function stepKind(kind, step) {
  const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  return step === "retire" || step === "cancel" ? `${upper(step)}Sequence` : upper(step) + upper(kind);
}

function stuck(view) {
  const { driver } = view;
  // Since the step before, because each try begins anew with the driver.
  const since = duration(view.since_s ?? driver.for_s);
  const tries = driver.failures ? ` (${counted(driver.failures, "failure")})` : "";
  return sentence(`${view.due} is due for ${since}, but stuck: ${driver.detail || "no reason is given"}${tries}`);
}

function waits(view) {
  return !view.barrier || view.barrier.passed ? "is due" : `waits for ${waitedFor(view)}`;
}

function undriven(view) {
  if (view.since_s === null) return sentence(`${view.due} is due`);
  const waiting = `${view.due} ${waits(view)}`;
  // A driver tells what it does once a second, so it may just not have come to it.
  if (!view.driver && view.since_s < SILENT_AFTER_S) return sentence(waiting);
  const who = view.driver
    ? `${view.driver.name} has said nothing for ${duration(view.driver.age_s)}`
    : "no driver reports about it: start one with “ringlog driver”";
  return sentence(`${waiting} for ${duration(view.since_s)}, but ${who}`);
}

function laggard(item) {
  const behind = item.behind === null ? "" : `, ${counted(item.behind, "epoch")} behind`;
  return `${nodeName(item.node)} (${item.liveness}${behind})`;
}

function sentence(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}
