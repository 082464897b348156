// How far nodes were behind of late; kept in the page only.

const KEPT = 60;
const EVERY_MS = 2_000;

export class LagKeeper {
  #byNode = new Map();
  #lastMs = 0;

  /** How far back it goes. */
  get seconds() {
    return (KEPT * EVERY_MS) / 1000;
  }

  observe(nodes) {
    const now = performance.now();
    // Shown more often than that, the same moment would count twice.
    if (now - this.#lastMs < EVERY_MS * 0.75) return;
    this.#lastMs = now;
    const known = new Map();
    for (const { id, lag } of nodes) known.set(id, [...this.of(id), lag].slice(-KEPT));
    this.#byNode = known;
  }

  of(id) {
    return this.#byNode.get(id) ?? [];
  }
}
