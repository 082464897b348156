// How long somebody may say nothing before they are given up.

/** Aborts `signal` once nothing was heard for so long, or when the caller's own signal says so. */
export class Silence {
  #ended = new AbortController();
  #caller;
  #limitS;
  #timer = null;
  #give = () => this.#ended.abort();

  /** @param {number} limitS @param {AbortSignal} [caller] */
  constructor(limitS, caller) {
    this.#limitS = limitS;
    this.#caller = caller;
    this.isOver = false; // it was silence that ended it, not the caller
    if (caller?.aborted) this.#give();
    caller?.addEventListener("abort", this.#give, { once: true });
    this.heard();
  }

  get signal() {
    return this.#ended.signal;
  }

  /** Something came, and the time begins anew. */
  heard() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.#give();
    }, this.#limitS * 1000);
  }

  close() {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#give);
  }
}

/** One sentence. */
export function silenceText(limitS) {
  return `The CMS was silent for ${limitS} seconds.`;
}
