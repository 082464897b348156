// Sequences as the log has them: pages of it are read once, and only their steps are kept.

import { read } from "./log_reading.js";

const PAGE = 500;
const PAGES_FORWARD_MAX = 60;
const KINDS = { Join: "join", Leave: "leave", Move: "move", Replace: "replace" };
const STEP = /^(Prepare|Start|Mid|Finish)(Join|Leave|Move|Replace)$/;

/**
 * @typedef {object} Step
 * @property {number} sequence
 * @property {string} step
 * @property {string|null} kind  null for cancel and retire
 * @property {object} entry  the whole entry of the log
 */

/** @returns {Step|null} */
export function stepOf(entry) {
  const { kind, sequence } = entry.transformation;
  if (kind === "CancelSequence" || kind === "RetireSequence") {
    return { sequence, step: kind.replace("Sequence", "").toLowerCase(), kind: null, entry };
  }
  const found = STEP.exec(kind);
  if (!found) return null;
  const step = found[1].toLowerCase();
  const named = step === "prepare" ? entry.epoch : sequence;
  return { sequence: named, step, kind: KINDS[found[2]], entry };
}

export class SequenceHistory {
  #api;
  #pages = new Map();
  #seam = null;

  constructor(api) {
    this.#api = api;
  }

  /**
   * Steps in the newest `pages` pages up to an epoch, and the first epoch that was looked at;
   * `seam` is there where the log begins with it.
   */
  async back(epoch, pages, signal) {
    const last = pageOf(epoch);
    const first = Math.max(0, last - pages + 1);
    const steps = [];
    for (let number = first; number <= last; number += 1) {
      steps.push(...(await this.#steps(number, epoch, signal)));
    }
    const isAll = this.#seam !== null && first * PAGE <= this.#seam.epoch;
    return isAll
      ? { steps, from: Math.min(this.#seam.epoch + 1, epoch), seam: this.#seam }
      : { steps, from: first * PAGE + 1, seam: null };
  }

  /**
   * Steps of one sequence up to an epoch; `isWhole` is false where the search was given up, and
   * `seam` is there where its first step is not kept any more.
   */
  async of(sequence, epoch, signal) {
    const steps = [];
    const first = pageOf(sequence);
    const last = Math.min(pageOf(epoch), first + PAGES_FORWARD_MAX - 1);
    for (let number = first; number <= last; number += 1) {
      const found = await this.#steps(number, epoch, signal);
      steps.push(...found.filter((item) => item.sequence === sequence));
      if (steps.at(-1)?.step === "retire") break;
    }
    const isWhole = last === pageOf(epoch) || steps.at(-1)?.step === "retire";
    const isGone = this.#seam !== null && sequence <= this.#seam.epoch;
    return { steps, isWhole, seam: isGone ? this.#seam : null };
  }

  /** Those of one page, which is read as far as it has not been. */
  async #steps(number, epoch, signal) {
    const page = this.#pages.get(number) ?? { seen: number * PAGE, steps: [] };
    this.#pages.set(number, page);
    const end = Math.min((number + 1) * PAGE, epoch);
    page.seen = Math.max(page.seen, Math.min(end, this.#seam?.epoch ?? 0));
    while (page.seen < end) {
      const after = page.seen;
      const { entries, seam } = await read(this.#api, after, end, signal);
      this.#seam = seam ?? this.#seam;
      // Another reader may have come first.
      if (page.seen !== after) continue;
      page.steps.push(...entries.map(stepOf).filter((item) => item !== null));
      page.seen = entries.at(-1)?.epoch ?? Math.min(end, seam?.epoch ?? 0);
      if (page.seen <= after) break;
    }
    return page.steps.filter((item) => item.entry.epoch <= epoch);
  }
}

/** Sequences that ended, newest first; of those begun before the steps only the end is known. */
export function ended(steps) {
  const bySequence = Map.groupBy(steps, (item) => item.sequence);
  const found = [];
  for (const [sequence, taken] of bySequence) {
    if (taken.at(-1).step !== "retire") continue;
    const prepared = taken.find((item) => item.step === "prepare")?.entry ?? null;
    found.push({
      id: sequence,
      kind: taken.find((item) => item.kind)?.kind ?? null,
      node: prepared?.transformation.node ?? null,
      replaced: prepared?.transformation.replaced ?? null,
      outcome: taken.some((item) => item.step === "cancel") ? "cancelled" : "finished",
      began: prepared,
      end: taken.at(-1).entry,
    });
  }
  return found.sort((one, other) => other.end.epoch - one.end.epoch);
}

/** A step as the API tells it of sequences in progress. */
export function takenOf({ step, entry }) {
  const { epoch, committed_at, committed_by, actor, reason } = entry;
  return { step, epoch, committed_at, committed_by, actor, reason };
}

function pageOf(epoch) {
  return Math.floor(Math.max(0, epoch - 1) / PAGE);
}
