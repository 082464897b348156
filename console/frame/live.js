// The log as it grows: server-sent events, read by hand because EventSource sends no token.

import { Silence, silenceText } from "./silence.js";

const QUIET_S_MAX = 25; // bookmarks come every ten seconds
const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 10_000;
const BEHIND_MAX = 2_000; // further behind, go on from the tip
const CHARS_MAX = 64 * 1024 * 1024;

/**
 * @typedef {object} Listener
 * @property {(entries: object[]) => void} entries  in order, those that came together
 * @property {(tip: number, isGap: boolean) => void} tip  with a gap, entries between were not read
 * @property {(state: "connecting"|"live"|"lost", detail: string) => void} state
 */

export class Live {
  #api;
  #listener;
  #stop = new AbortController();
  #tip = null;

  /** @param {import("./api.js").Api} api @param {Listener} listener */
  constructor(api, listener) {
    this.#api = api;
    this.#listener = listener;
  }

  /** Follow until closed; each loss is told, and mended with growing pauses. */
  async run() {
    let pauseMs = PAUSE_MS_MIN;
    while (!this.#stop.signal.aborted) {
      let detail = "The CMS ended the stream.";
      try {
        await this.#catchUp();
        await this.#follow(() => {
          pauseMs = PAUSE_MS_MIN;
        });
      } catch (error) {
        detail = error.message;
        if (error.status === 401 || error.status === 403) return;
      }
      if (this.#stop.signal.aborted) return;
      this.#listener.state("lost", detail);
      await pause(pauseMs * (0.75 + Math.random() / 2), this.#stop.signal);
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
      if (!this.#stop.signal.aborted) this.#listener.state("connecting", "");
    }
  }

  close() {
    this.#stop.abort();
  }

  /** Far behind, nobody reads every entry: the views ask for what they show anyway. */
  async #catchUp() {
    const { epoch } = await this.#api.get("/healthz", { signal: this.#stop.signal });
    const isGap = this.#tip !== null && epoch - this.#tip > BEHIND_MAX;
    // Another log than before (a cluster made anew) begins again as well.
    if (this.#tip === null || isGap || epoch < this.#tip) {
      this.#tip = epoch;
      this.#listener.tip(epoch, isGap);
    }
  }

  async #follow(heard) {
    const silence = new Silence(QUIET_S_MAX, this.#stop.signal);
    try {
      const path = `/v1/log/stream?after=${this.#tip}`;
      const response = await this.#api.fetch(path, { signal: silence.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      this.#listener.state("live", "");
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        silence.heard();
        heard();
        rest = this.#take(rest + value);
        if (rest.length > CHARS_MAX) throw new Error("The stream sent an event without an end.");
      }
    } catch (error) {
      throw silence.isOver ? new Error(silenceText(QUIET_S_MAX)) : error;
    } finally {
      silence.close();
    }
  }

  /** Tells of all whole events, and gives what is left of one. */
  #take(text) {
    const parts = text.split("\n\n");
    const rest = parts.pop();
    const entries = parts.filter((part) => part.startsWith("event: entry")).map(entryOf);
    if (entries.length > 0) {
      this.#tip = entries.at(-1).epoch;
      this.#listener.entries(entries);
      this.#listener.tip(this.#tip, false);
    }
    return rest;
  }
}

function entryOf(event) {
  const line = event.split("\n").find((item) => item.startsWith("data: "));
  return JSON.parse(line.slice("data: ".length));
}

function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
