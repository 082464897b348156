// One view at a time: mounted, shown at a moment, shown again when there is news.

import { fill, h } from "../parts/dom.js";
import { button } from "../parts/forms.js";

const AGAIN_MS = 250; // live views follow the tip at most four times a second
const BUSY_MS = 150;
const SLOW_MS = 10_000; // by then what is on its way is given up for a newer wish

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

  constructor(context) {
    this.#context = context;
    this.problem = h("div", { class: "view-problem" });
    this.root = h("div", { class: "view" });
    this.element = h("div", { class: "stage" }, this.problem, this.root);
  }

  /** Enter another view. */
  enter(view) {
    this.leave();
    this.root = h("div", { class: "view" });
    fill(this.problem);
    fill(this.element, this.problem, this.root);
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
    const busy = setTimeout(() => this.root.classList.add("is-busy"), BUSY_MS);
    this.root.setAttribute("aria-busy", "true");
    const moment = { ...this.#moment, signal: running.signal };
    try {
      await this.#mounted.show(moment);
      if (this.#running === running) this.#done(moment);
    } catch (error) {
      if (this.#running === running && error.name !== "AbortError") this.#failed(error);
    } finally {
      clearTimeout(busy);
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
    fill(this.problem);
    const main = this.element.closest("main");
    main.dataset.shown = String(moment.epoch);
    main.dataset.live = String(moment.isLive);
  }

  #failed(error) {
    if (!(error instanceof Error) || error.name !== "Problem") console.error(error);
    const again = button("Try again", { on: { click: () => this.#run() } });
    const remedy = error.remedy ? h("p", {}, error.remedy) : null;
    fill(
      this.problem,
      h("div", { class: "notice notice-bad", role: "alert" }, h("p", {}, error.message), remedy, again),
    );
  }
}
