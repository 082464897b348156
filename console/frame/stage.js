// One view at a time: mounted, shown at a moment, shown again when there is news.

import { fill, h } from "../parts/dom.js";
import { button } from "../parts/forms.js";
import { slot } from "../parts/slots.js";

const AGAIN_MS = 250; // live views follow the tip at most four times a second
const BUSY_MS = 150;
const SLOW_MS = 10_000; // by then what is on its way is given up for a newer wish
const LATE_S = 5; // by then it is said that nothing came
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 10_000;

/** @typedef {import("./route.js").Route} Route */

export class Stage {
  #context;
  #mounted = null;
  #moment = null;
  #running = null;
  #startedMs = 0;
  #queued = false;
  #timer = null;
  #refresh = null;
  #retry = null;
  #retryMs = RETRY_MS_MIN;
  #hasFailed = false;

  constructor(context) {
    this.#context = context;
    this.problem = slot({ class: "view-problem" });
    this.root = h("div", { class: "view" });
    this.element = h("div", { class: "stage" }, this.problem.element, this.root);
  }

  /** Enter another view. */
  enter(view) {
    this.leave();
    this.root = h("div", { class: "view" });
    this.#fine();
    fill(this.element, this.problem.element, this.root);
    this.#mounted = view.mount(this.root, this.#context);
    if (view.refreshS) {
      this.#refresh = setInterval(() => this.#again(), view.refreshS * 1000);
    }
  }

  leave() {
    this.#running?.abort();
    this.#running = null;
    clearInterval(this.#refresh);
    clearTimeout(this.#timer);
    this.#timer = null;
    clearTimeout(this.#retry);
    this.#mounted?.close?.();
    this.#mounted = null;
  }

  /** Show a moment at once; whatever is being shown is given up. */
  show(moment) {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#moment = moment;
    this.#run();
  }

  /**
   * While somebody slides: the newest wish as soon as what is on its way is there. Asking for more
   * at a time would only make the CMS restore epochs that nobody looks at any more.
   */
  slide(moment) {
    if (this.#running && performance.now() - this.#startedMs < SLOW_MS) {
      this.#moment = moment;
      this.#queued = true;
    } else {
      this.show(moment);
    }
  }

  /** Show it when the last one is through, and not too often. */
  follow(moment) {
    this.#moment = moment;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      if (this.#running) this.#queued = true;
      else this.#run();
    }, AGAIN_MS);
  }

  /** The connection is back: what is live is asked for anew, and so is what hangs or has failed. */
  mend(moment) {
    if (moment.isLive || this.#running || this.#hasFailed) this.show(moment);
  }

  entries(list) {
    this.#mounted?.entries?.(list);
  }

  #again() {
    if (this.#moment?.isLive && !this.#running && !document.hidden) this.#run();
  }

  async #run() {
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.#queued = false;
    this.#startedMs = performance.now();
    clearTimeout(this.#retry);
    const busy = setTimeout(() => this.root.classList.add("is-busy"), BUSY_MS);
    const late = setTimeout(() => this.#late(), LATE_S * 1000);
    this.root.setAttribute("aria-busy", "true");
    const moment = { ...this.#moment, signal: running.signal };
    try {
      await this.#mounted.show(moment);
      if (this.#running === running) this.#done(moment);
    } catch (error) {
      if (this.#running === running && error.name !== "AbortError") this.#failed(error);
    } finally {
      clearTimeout(busy);
      clearTimeout(late);
      if (this.#running === running) this.#settled();
    }
  }

  #settled() {
    this.#running = null;
    this.root.classList.remove("is-busy");
    this.root.removeAttribute("aria-busy");
    if (this.#queued) this.#run();
  }

  #done(moment) {
    this.#fine();
    const main = this.element.closest("main");
    main.dataset.shown = String(moment.epoch);
    main.dataset.live = String(moment.isLive);
  }

  #fine() {
    this.#hasFailed = false;
    this.#retryMs = RETRY_MS_MIN;
    this.problem.show(null, () => null);
  }

  #late() {
    if (this.#hasFailed) return;
    const said = `The CMS has not answered for ${LATE_S} seconds; what you see may be old.`;
    this.problem.show(said, () => h("div", { class: "notice notice-warn", role: "status" }, h("p", {}, said)));
  }

  /** What may pass is asked for again, with growing pauses; whatever else waits for somebody. */
  #failed(error) {
    if (!(error instanceof Error) || error.name !== "Problem") console.error(error);
    this.#hasFailed = true;
    const isPassing = error.isPassing ?? false;
    const said = isPassing ? `${error.message} The console keeps trying.` : error.message;
    const remedy = error.remedy ?? null;
    this.problem.show({ said, remedy }, () => this.#notice(said, remedy));
    if (!isPassing) return;
    this.#retry = setTimeout(() => this.#running || this.#run(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
  }

  #notice(said, remedy) {
    const again = button("Try again", { on: { click: () => this.#run() } });
    return h("div", { class: "notice notice-bad", role: "alert" }, h("p", {}, said), remedy ? h("p", {}, remedy) : null, again);
  }
}
