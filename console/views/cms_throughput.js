// How fast the log grows, measured from its tip.

const KEPT = 60;
const EVERY_MS = 1_000;
const OVER = 5; // values that the figure of now is taken from

export class Throughput {
  #points = [];

  /** @param {number} epoch @param {number} atMs */
  observe(epoch, atMs) {
    const last = this.#points.at(-1);
    // Processes answer in turn, and one may be a moment behind the other.
    if (last && (atMs - last.atMs < EVERY_MS || epoch < last.epoch)) return;
    this.#points = [...this.#points, { epoch, atMs }].slice(-KEPT - 1);
  }

  /** Commits per second between each two looks, oldest first. */
  get values() {
    return this.#points.slice(1).map((point, index) => speed(this.#points[index], point));
  }

  /** Commits per second of late, or null before there are two looks. */
  get now() {
    const recent = this.#points.slice(-OVER - 1);
    return recent.length < 2 ? null : speed(recent[0], recent.at(-1));
  }

  get spanS() {
    const recent = this.#points.slice(-OVER - 1);
    return recent.length < 2 ? 0 : (recent.at(-1).atMs - recent[0].atMs) / 1000;
  }
}

function speed(one, other) {
  return ((other.epoch - one.epoch) / (other.atMs - one.atMs)) * 1000;
}
