// What an operator can do to a sequence: turn it back, or take its due step where no driver does.

import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { button } from "../parts/forms.js";
import { askRetire } from "./sequences_retiring.js";
import { absentChoices, items, refusal } from "./sequences_choices.js";
import { ofCancel, ofStep } from "./sequences_consequences.js";
import { gaining, isDriven, named, nodeName, now, stepKind } from "./sequences_words.js";
import { guarded, submit } from "./submitting.js";

const BY_HAND = new Set(["start", "finish"]);

/** Buttons, for those who may and while it is the newest epoch that they see. */
export function actionsFor(context, id, moment) {
  if (!context.can("operator") || !moment.isLive) return [];
  return [
    button("Resume", { id: "resume", on: { click: () => ask(context, () => askResume(context, id)) } }),
    button("Cancel", { id: "cancel", kind: "danger", on: { click: () => ask(context, () => askCancel(context, id)) } }),
  ];
}

let isAsking = false;

/** One question at a time, however often somebody clicks; what is answered yes is submitted. */
async function ask(context, question) {
  if (isAsking) return;
  isAsking = true;
  await guarded(context, async () => {
    let change;
    try {
      change = await question();
    } finally {
      isAsking = false;
    }
    if (change) await submit(context, change);
  });
}

async function askCancel(context, id) {
  const view = await newest(context, id);
  if (!view) return null;
  const plan = await context.api.plan(cancelling(id));
  if (plan.outcome !== "accepted") {
    context.say(refusal(plan.problem), "bad");
    return null;
  }
  const means = h("ul", { class: "plain", id: "consequences", "aria-live": "polite" });
  fill(means, items(ofCancel(plan)));
  const choices = await absentChoices(context, waitedFor(plan, view), (dead, isStill) =>
    guarded(context, () => replan(context, cancelling(id, dead), { means, isStill })),
  );
  const answer = await context.confirm({
    title: `Cancel the ${view.kind} of ${nodeName(view.node)}?`,
    body: [means, choices.element],
    action: `Cancel sequence ${id}`,
    isDangerous: true,
    asksReason: true,
  });
  if (answer === null) return null;
  return {
    proposal: context.api.proposal(cancelling(id, choices.chosen()), answer),
    what: `the cancel of sequence ${id}`,
    done: ({ epoch }) => context.say(`Sequence ${id} turns back since epoch ${count(epoch)}.`, "good"),
  };
}

/** Those who have to apply the cancel, and those who drop what they have got. */
function waitedFor(plan, view) {
  const voters = (plan.barrier?.groups ?? []).flatMap((item) => item.group);
  return [...gaining(view), ...voters].filter((node) => !view.dead.includes(node));
}

function cancelling(id, dead = []) {
  return { kind: "CancelSequence", sequence: id, ...(dead.length > 0 ? { dead } : {}) };
}

/** Other nodes are dead than before, so other ones have to agree. */
async function replan(context, transformation, { means, isStill }) {
  const plan = await context.api.plan(transformation);
  if (!isStill()) return;
  fill(means, items(plan.outcome === "accepted" ? ofCancel(plan) : [refusal(plan.problem)]));
}

/** Drivers go on by themselves; this says what keeps them from it, and takes the step where one may. */
async function askResume(context, id) {
  const view = await newest(context, id);
  if (!view) return null;
  if (view.due === "retire") return askRetire(context, view);
  const transformation = dueStep(view);
  const plan = BY_HAND.has(view.due) ? await context.api.plan(transformation) : null;
  const isPossible = plan?.outcome === "accepted";
  const answer = await context.confirm({
    title: `Resume the ${view.kind} of ${nodeName(view.node)}`,
    body: [
      h("p", {}, now(view)),
      h("p", {}, isPossible ? possible(view, plan, transformation) : impossible(plan)),
      isPossible ? h("ul", { class: "plain", id: "consequences" }, items(ofStep(plan, view.due))) : null,
    ],
    action: isPossible ? `Take the step ${view.due} now` : "Understood",
    asksReason: isPossible,
  });
  if (answer === null || !isPossible) return null;
  return {
    proposal: context.api.proposal(transformation, { reason: answer.reason || "resumed by hand" }),
    what: `the step ${view.due} of sequence ${id}`,
    done: ({ epoch }) => context.say(`${view.due} was taken at epoch ${count(epoch)}.`, "good"),
  };
}

function dueStep(view) {
  const found = { kind: stepKind(view.kind, view.due), sequence: view.id };
  const { barrier } = view;
  if (barrier && barrier.groups.length > 0) {
    const applied = [...new Set(barrier.groups.flatMap((group) => group.applied))];
    found.barrier = { level: barrier.level, applied: applied.sort((one, other) => one - other) };
  }
  return found;
}

function possible(view, plan, transformation) {
  const who = transformation.barrier ? ` as ${named(transformation.barrier.applied)} have voted for it` : "";
  const driven = isDriven(view) ? " A driver is at work and may take it first; then yours is refused and nothing is lost." : "";
  return `The step ${view.due} can be taken now${who}; it would be epoch ${count(plan.epoch + 1)}.${driven}`;
}

function impossible(plan) {
  if (plan) return `The step cannot be taken yet. ${refusal(plan.problem)}`;
  return (
    "The step mid has to bring receipts for the rows that were moved, which only a driver can make. " +
    "Drivers go on by themselves; if none runs, start one with “ringlog driver”."
  );
}

async function newest(context, id) {
  const { sequences } = await context.api.get("/v1/sequences");
  const view = sequences.find((item) => item.id === id);
  if (!view) context.say(`Sequence ${id} is over; nothing was changed.`);
  return view;
}
