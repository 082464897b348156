// What an operator can do to a sequence: turn it back, or take its due step where no driver does.

import { badge } from "../parts/cards.js";
import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { button } from "../parts/forms.js";
import { ofCancel, ofStep } from "./sequences_consequences.js";
import { gaining, isDriven, named, nodeName, now, stepKind } from "./sequences_words.js";

const BY_HAND = new Set(["start", "finish"]);
const ABSENT = new Set(["down", "unknown"]);

/** Buttons, for those who may and while it is the newest epoch that they see. */
export function actionsFor(context, id, moment) {
  if (!context.can("operator") || !moment.isLive) return [];
  return [
    button("Resume", { id: "resume", on: { click: () => guarded(context, () => resume(context, id)) } }),
    button("Cancel", { id: "cancel", kind: "danger", on: { click: () => guarded(context, () => cancel(context, id)) } }),
  ];
}

async function guarded(context, work) {
  try {
    await work();
  } catch (error) {
    const remedy = error.remedy ? ` ${error.remedy}` : "";
    context.say(`${error.message}${remedy}`, "bad");
  }
}

async function cancel(context, id) {
  const view = await newest(context, id);
  if (!view) return;
  const plan = await context.api.plan(cancelling(id));
  if (plan.outcome !== "accepted") {
    context.say(refusal(plan.problem), "bad");
    return;
  }
  const means = h("ul", { class: "plain", id: "consequences", "aria-live": "polite" });
  fill(means, items(ofCancel(plan)));
  const choices = await absentChoices(context, view, (dead) => guarded(context, () => replan(context, cancelling(id, dead), means)));
  const answer = await context.confirm({
    title: `Cancel the ${view.kind} of ${nodeName(view.node)}?`,
    body: [means, choices.element],
    action: `Cancel sequence ${id}`,
    isDangerous: true,
    asksReason: true,
  });
  if (answer === null) return;
  const transformation = cancelling(id, choices.chosen());
  const { epoch } = await context.api.commit(transformation, { reason: answer.reason });
  context.say(`Sequence ${id} turns back since epoch ${count(epoch)}.`, "good");
}

function cancelling(id, dead = []) {
  return { kind: "CancelSequence", sequence: id, ...(dead.length > 0 ? { dead } : {}) };
}

/** Other nodes are dead than before, so other ones have to agree. */
async function replan(context, transformation, means) {
  const plan = await context.api.plan(transformation);
  fill(means, items(plan.outcome === "accepted" ? ofCancel(plan) : [refusal(plan.problem)]));
}

function items(texts) {
  return texts.map((text) => h("li", {}, text));
}

/** Drivers go on by themselves; this says what keeps them from it, and takes the step where one may. */
async function resume(context, id) {
  const view = await newest(context, id);
  if (!view) return;
  const transformation = dueStep(view);
  const plan = BY_HAND.has(view.due) ? await context.api.plan(transformation) : null;
  const isPossible = plan?.outcome === "accepted";
  const answer = await context.confirm({
    title: `Resume the ${view.kind} of ${nodeName(view.node)}`,
    body: [
      h("p", {}, now(view)),
      h("p", {}, isPossible ? possible(view, plan, transformation) : impossible(view, plan)),
      isPossible ? h("ul", { class: "plain", id: "consequences" }, items(ofStep(plan, view.due))) : null,
    ],
    action: isPossible ? `Take the step ${view.due} now` : "Understood",
    asksReason: isPossible,
  });
  if (answer === null || !isPossible) return;
  const { epoch } = await context.api.commit(transformation, { reason: answer.reason || "resumed by hand" });
  context.say(`${view.due} was taken at epoch ${count(epoch)}.`, "good");
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

function impossible(view, plan) {
  if (plan) return `The step cannot be taken yet. ${refusal(plan.problem)}`;
  const why =
    view.due === "mid"
      ? "The step mid has to bring receipts for the rows that were moved, which only a driver can make."
      : "Before the step retire a driver notes what has to be cleaned up.";
  return `${why} Drivers go on by themselves; if none runs, start one with “ringlog driver”.`;
}

/** Nodes that gain by it and do not answer: each may be declared dead, so that nobody waits for it. */
async function absentChoices(context, view, onChosen) {
  const { nodes } = await context.api.get("/v1/nodes");
  const waited = new Set(gaining(view).filter((node) => !view.dead.includes(node)));
  const absent = nodes.filter((item) => waited.has(item.id) && ABSENT.has(item.liveness));
  const boxes = absent.map((item) => h("input", { type: "checkbox", value: item.id }));
  const chosen = () => boxes.filter((box) => box.checked).map((box) => Number(box.value));
  const element = absent.length
    ? h(
        "fieldset",
        { class: "choices", on: { change: () => onChosen(chosen()) } },
        h("legend", {}, "Not there now, and waited for unless declared dead"),
        absent.map((item, index) =>
          h("label", { class: "choice" }, boxes[index], ` ${nodeName(item.id)} `, badge(item.liveness, "bad")),
        ),
      )
    : null;
  return { element, chosen };
}

async function newest(context, id) {
  const { sequences } = await context.api.get("/v1/sequences");
  const view = sequences.find((item) => item.id === id);
  if (!view) context.say(`Sequence ${id} is over; nothing was changed.`);
  return view;
}

function refusal(problem) {
  const remedy = problem.remedy ? ` To go on, ${problem.remedy}.` : "";
  return `Refused (${problem.code}): ${problem.detail}.${remedy}`;
}
