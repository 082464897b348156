// Nodes that do not answer, of which some may be declared dead.

import { badge } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { nodeName } from "./sequences_words.js";

const ABSENT = new Set(["down", "unknown"]);

/**
 * A box for each of these nodes that is not there: declared dead, nobody waits for it. `onChosen`
 * gets those that are, and what says whether they still are.
 */
export async function absentChoices(context, waited, onChosen) {
  const { nodes } = await context.api.get("/v1/nodes");
  const absent = nodes.filter((item) => waited.includes(item.id) && ABSENT.has(item.liveness));
  const boxes = absent.map((item) => h("input", { type: "checkbox", value: item.id }));
  const chosen = () => boxes.filter((box) => box.checked).map((box) => Number(box.value));
  const changed = () => {
    const dead = chosen();
    onChosen(dead, () => String(dead) === String(chosen()));
  };
  const element = absent.length
    ? h(
        "fieldset",
        { class: "choices", on: { change: changed } },
        h("legend", {}, "Not there now, and waited for unless declared dead"),
        absent.map((item, index) =>
          h("label", { class: "choice" }, boxes[index], ` ${nodeName(item.id)} `, badge(item.liveness, "bad")),
        ),
      )
    : null;
  return { element, chosen };
}

export function items(texts) {
  return texts.map((text) => h("li", {}, text));
}

export function refusal(problem) {
  const remedy = problem.remedy ? ` To go on, ${problem.remedy}.` : "";
  return `Refused (${problem.code}): ${problem.detail}.${remedy}`;
}
