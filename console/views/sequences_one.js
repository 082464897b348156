// One sequence, in progress or over: where it stands, and everything that proves it.

import { badge, card, empty, facts, nodeLink } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { count, duration } from "../parts/format.js";
import { slot } from "../parts/slots.js";
import { actionsFor } from "./sequences_actions.js";
import { barrierCard, votersCard } from "./sequences_barrier.js";
import { movementCard, receiptsTable } from "./sequences_movement.js";
import { seamText } from "./log_reading.js";
import { changesTable, stepList } from "./sequences_steps.js";
import { takenOf } from "./sequences_history.js";
import { now, standing, title } from "./sequences_words.js";

/**
 * @typedef {object} Found
 * @property {"running"|"ended"|"absent"} state
 * @property {object|null} view  the sequence as the API shows it; of one that ended, before its end
 * @property {object[]} taken  with who and when
 * @property {object|null} mid  the entry that carries the receipts
 */

export function onePart(context, history, id) {
  const entries = new Map();
  const slots = Object.fromEntries(
    ["head", "now", "steps", "barrier", "movement"].map((name) => [name, slot()]),
  );
  const receipts = receiptsTable(context);
  const changes = changesTable(context);
  const receiptsCard = card("Receipts", { id: "receipts" }, receipts.element);
  const changesCard = card("Ranges", { id: "ranges" }, changes.element);
  const rest = h(
    "div",
    { class: "stack sequence-cards" },
    slots.steps.element,
    h("div", { class: "grid sequence-pair" }, slots.movement.element, slots.barrier.element),
    receiptsCard,
    changesCard,
  );
  const back = h("p", {}, h("a", { class: "back", href: context.href({ params: {} }) }, "All sequences"));

  async function show(moment) {
    const found = await read(context, history, id, moment, entries);
    const isAbsent = found.state === "absent";
    slots.head.show({ ...essence(found), isLive: moment.isLive, at: moment.at, id }, () =>
      isAbsent ? absent(context, id, found, moment) : head(context, found, moment),
    );
    rest.hidden = isAbsent;
    slots.now.element.hidden = isAbsent;
    if (isAbsent) return;
    const { view } = found;
    const isRunning = found.state === "running" && moment.isLive;
    slots.now.show(isRunning ? view : null, () => (isRunning ? nowCard(view) : null));
    slots.steps.show([found.taken, found.state, view.due], () =>
      card("Steps", { id: "steps" }, stepList(context, found)),
    );
    slots.movement.show(isRunning ? (view.progress ?? view.due) : null, () =>
      isRunning ? movementCard(view) : null,
    );
    slots.barrier.show(found.state === "running" ? (view.barrier ?? view.voters) : null, () =>
      found.state === "running" ? (isRunning ? barrierCard(context, view) : votersCard(context, view)) : null,
    );
    receipts.update(found.mid?.transformation.receipts ?? []);
    changes.update(view);
  }

  return { element: h("div", { class: "stack sequence-cards" }, back, slots.head.element, slots.now.element, rest), show };
}

/** @returns {Promise<Found>} */
async function read(context, history, id, moment, entries) {
  const { sequences } = await context.api.at("/v1/sequences", moment);
  const view = sequences.find((item) => item.id === id) ?? null;
  if (view) {
    const read = await Promise.all(
      view.taken.map((item) => entryOf(context.api, item.epoch, entries, moment.signal)),
    );
    const taken = read.map((entry, index) => takenOf({ step: view.taken[index].step, entry }));
    const mid = read[view.taken.findIndex((item) => item.step === "mid")] ?? null;
    return { state: "running", view, taken, mid };
  }
  if (id > moment.epoch || id < 1) return { state: "absent", view: null, taken: [], mid: null, isLater: id >= 1 };
  return over(context, history, id, moment);
}

async function over(context, history, id, moment) {
  const { steps, isWhole, seam } = await history.of(id, moment.epoch, moment.signal);
  const nothing = { state: "absent", view: null, taken: [], mid: null, isWhole, seam };
  if (seam || steps[0]?.step !== "prepare" || steps.at(-1).step !== "retire") return nothing;
  const before = { at: steps.at(-1).entry.epoch - 1, signal: moment.signal };
  const { sequences } = await context.api.at("/v1/sequences", before);
  return {
    state: "ended",
    view: sequences.find((item) => item.id === id),
    taken: steps.map(takenOf),
    mid: steps.find((item) => item.step === "mid")?.entry ?? null,
  };
}

/** Entries never change, so each is asked for once. */
async function entryOf(api, epoch, entries, signal) {
  if (!entries.has(epoch)) entries.set(epoch, await api.get(`/v1/log/${epoch}`, { signal }));
  return entries.get(epoch);
}

/** What makes another head of it; figures that tick alone do not, and a button keeps its focus. */
function essence({ state, view, taken }) {
  return { state, steps: taken.length, due: view?.due, standing: view && standing(view)[0] };
}

function head(context, found, moment) {
  const { view, state, taken } = found;
  const actions = state === "running" ? actionsFor(context, view.id, moment) : [];
  return h(
    "section",
    { class: "card sequence-head" },
    h(
      "div",
      { class: "card-head" },
      h("div", { class: "row" }, h("h2", {}, title(view)), badge(...stateBadge(found, moment))),
      actions.length ? h("div", { class: "row" }, actions) : null,
    ),
    facts([
      ["Sequence", h("span", { class: "mono" }, String(view.id))],
      ["Node", nodeLink(context, view.node)],
      ["Takes the place of", view.replaced === null ? null : nodeLink(context, view.replaced)],
      ["Due", state === "ended" ? null : view.due],
      ["Tokens", view.tokens.length ? count(view.tokens.length) : null],
      ["Declared dead", view.dead.length ? view.dead.map((node) => `node ${node}`).join(", ") : null],
      ["Accepted loss", view.accept_loss],
      ["Began by", taken[0]?.actor ?? null],
      ["Reason", taken[0]?.reason ?? null],
      ["Rows moved", found.mid ? count(rowsIn(found.mid.transformation.receipts)) : null],
      ["Took", state === "ended" ? tookText(taken) : null],
    ]),
  );
}

function stateBadge({ state, view, taken }, moment) {
  if (state === "ended") {
    return taken.some((item) => item.step === "cancel") ? ["cancelled", "warn"] : ["finished", "good"];
  }
  return moment.isLive ? standing(view) : [`${view.due} due`, "info"];
}

function nowCard(view) {
  const [, tone] = standing(view);
  const said = view.driver
    ? `Told by ${view.driver.name} ${duration(view.driver.age_s)} ago.`
    : "No driver has told of it yet.";
  return card(
    "Now",
    { id: "now", class: tone === "bad" ? "is-bad" : "" },
    h("p", { class: "now-line" }, now(view)),
    h(
      "p",
      { class: "muted" },
      view.since_s === null ? said : `The last step was taken ${duration(view.since_s)} ago. ${said}`,
    ),
  );
}

function absent(context, id, { isLater, isWhole, seam }, moment) {
  if (isLater) {
    return empty(
      `There is no sequence ${count(id)} at epoch ${count(moment.epoch)}`,
      `A sequence is named by the epoch at which it began, and that one lies ahead.`,
      id <= context.tip()
        ? h("a", { class: "button", href: context.href({ at: id }) }, `Go to epoch ${count(id)}`)
        : null,
    );
  }
  if (seam) return empty(`Nothing is known here of a sequence ${count(id)}`, seamText(seam));
  return empty(
    `Nothing is known of a sequence ${count(id)}`,
    isWhole === false
      ? "Its end was not found in the entries that were read; look at the log from its first epoch on."
      : `Epoch ${count(id)} began no sequence.`,
    h("a", { class: "button", href: context.href({ view: "log", params: { entry: id } }) }, "Show that entry"),
  );
}

function rowsIn(receipts = []) {
  return receipts.reduce((sum, item) => sum + item.target_rows.rows, 0);
}

function tookText(taken) {
  return duration((taken.at(-1).committed_at - taken[0].committed_at) / 1e6);
}
