// The end of a sequence of which only retire is left, without the nodes that died.

import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { absentChoices, items, refusal } from "./sequences_choices.js";
import { isDriven, named, nodeName, now } from "./sequences_words.js";
import { guarded } from "./submitting.js";

/** What is to be committed, or null. */
export async function askRetire(context, view) {
  const means = h("ul", { class: "plain", id: "consequences", "aria-live": "polite" });
  let action = null;
  const choices = await absentChoices(context, missing(view), (dead, isStill) =>
    guarded(context, () => weigh(context, view, dead, { means, action, isStill })),
  );
  // A driver has noted what is to be cleaned up before it waits; nobody else does.
  const isOffered = isDriven(view) && choices.element !== null;
  const answer = await context.confirm({
    title: `Resume the ${view.kind} of ${nodeName(view.node)}`,
    body: (button) => {
      action = button;
      action.disabled = isOffered;
      const why = h("p", {}, isOffered ? OFFERED : IMPOSSIBLE);
      return [h("p", {}, now(view)), why, isOffered ? [choices.element, means] : null];
    },
    action: isOffered ? "End it without them" : "Understood",
    isDangerous: isOffered,
    asksReason: isOffered,
  });
  if (answer === null || !isOffered) return null;
  return {
    proposal: context.api.proposal(retiring(view, choices.chosen()), answer),
    what: `the end of sequence ${view.id}`,
    done: ({ epoch }) => context.say(`Sequence ${view.id} has ended at epoch ${count(epoch)}.`, "good"),
  };
}

const OFFERED =
  "Only the step retire is left, which a driver takes once those have applied what was before. " +
  "If one of these nodes will never be back, declare it dead: then it ends without it.";
const IMPOSSIBLE =
  "Before the step retire a driver notes what has to be cleaned up. " +
  "Drivers go on by themselves; if none runs, start one with “ringlog driver”.";

function missing(view) {
  const voters = (view.barrier?.groups ?? []).flatMap((item) => item.missing);
  return voters.map((item) => item.node).filter((node) => !view.dead.includes(node));
}

/** Whether the others are enough without those, as the CMS decides it. */
async function weigh(context, view, dead, { means, action, isStill }) {
  action.disabled = true;
  if (dead.length === 0) {
    fill(means);
    return;
  }
  const plan = await context.api.plan(retiring(view, dead));
  if (!isStill()) return;
  const isPossible = plan.outcome === "accepted";
  fill(means, items(isPossible ? consequences(view, dead, plan) : [refusal(plan.problem)]));
  action.disabled = !isPossible;
}

function consequences(view, dead, plan) {
  const end = view.cancelled ? "It has turned back" : "It has finished";
  return [
    `${end}: its ranges are free again, and nobody waits for ${named(dead)} any more.`,
    "Whoever is declared dead must not come back as it was: remove or replace it.",
    `It would be epoch ${count(plan.epoch + 1)}.`,
  ];
}

/** With the evidence of those that live, as they report it. */
function retiring(view, dead) {
  const groups = view.barrier?.groups ?? [];
  const found = { kind: "RetireSequence", sequence: view.id, dead };
  if (groups.length > 0) {
    const applied = new Set(groups.flatMap((item) => item.applied));
    const alive = [...applied].filter((node) => !dead.includes(node));
    found.barrier = { level: view.barrier.level, applied: alive.sort((one, other) => one - other) };
  }
  return found;
}
