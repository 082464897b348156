// The running console: the address, the log as it grows, and the one view between them.

import { h } from "../parts/dom.js";
import { confirm, say } from "../parts/dialogs.js";
import { showChanges } from "./changes.js";
import { Frame } from "./frame.js";
import { Live } from "./live.js";
import { address, parsed, same } from "./route.js";
import { Stage } from "./stage.js";

const RECENT_MAX = 500;
const SETTLED_MS = 250;
const FIRST = "ring";

export class Console {
  #views;
  #api;
  #route;
  #live;
  #tip = null;
  #recent = [];
  #stage;
  #writing = null;
  #isLost = false;
  #ended = new AbortController();

  constructor(views, api, session, { onSignOut }) {
    this.#views = views;
    this.#api = api;
    const context = this.#context(session);
    this.frame = new Frame(views, session, {
      onEpoch: (at) => context.go({ at, replace: true }),
      onChanges: (epoch) => context.showChanges(epoch),
      onSignOut,
    });
    this.#stage = new Stage(context);
    this.frame.main.append(h("div", { class: "view-head" }, this.frame.title), this.#stage.element);
    this.#live = new Live(api, {
      entries: (entries) => this.#heard(entries),
      tip: (tip) => this.#moved(tip),
      state: (state, detail) => this.#connected(state, detail),
    });
  }

  start() {
    addEventListener("hashchange", () => this.#turnToAddress(), { signal: this.#ended.signal });
    this.#live.run();
    this.#name();
  }

  close() {
    this.#ended.abort();
    clearTimeout(this.#writing);
    this.#live.close();
    this.#stage.leave();
  }

  #context(session) {
    const merged = ({ view = this.#route.view, at = this.#route.at, params }) => {
      const kept = view === this.#route.view ? this.#route.params : {};
      return { view, at, params: params ?? kept };
    };
    return {
      api: this.#api,
      role: session.role,
      isOpen: session.isOpen,
      can: (role) => session.can(role),
      tip: () => this.#tip ?? 0,
      route: () => this.#route,
      recent: () => this.#recent,
      href: (change) => address(merged(change)),
      go: ({ replace = false, ...change }) => this.#go(merged(change), replace),
      say,
      confirm,
      showChanges: (epoch) =>
        showChanges(this.#api, epoch, { hrefAt: (at) => address(merged({ at })), tip: () => this.#tip ?? 0 }),
    };
  }

  /** A change that replaces the address is seen at once; the address follows when it settles. */
  #go(route, isReplaced) {
    this.#unwrite();
    if (!isReplaced) {
      location.hash = address(route);
      return;
    }
    // Browsers count how often a page changes its address, and stop one that does so all the time.
    this.#writing = setTimeout(() => this.#settle(), SETTLED_MS);
    this.#turn(route);
  }

  /** The slider rests: what was passed over in a hurry, such as links, is made good. */
  #settle() {
    this.#writing = null;
    history.replaceState(null, "", address(this.#route));
    this.#stage.slide(this.#moment());
  }

  #turnToAddress() {
    // A link within the page, such as the one that skips to the view, is no route.
    if (location.hash && !location.hash.startsWith("#/") && this.#route) return;
    this.#unwrite();
    const found = parsed(location.hash, FIRST);
    if (!(found.view in this.#views)) found.view = FIRST;
    this.#turn(found);
  }

  #unwrite() {
    clearTimeout(this.#writing);
    this.#writing = null;
  }

  #turn(route) {
    const before = this.#route;
    this.#route = route;
    this.#place();
    if (before && same(before, route)) return;
    const isEntered = before?.view !== route.view;
    if (isEntered) {
      this.#stage.enter(this.#views[route.view]);
      if (before) this.frame.title.focus({ preventScroll: true });
    }
    const isSlid = !isEntered && before.at !== route.at;
    if (isSlid) this.#stage.slide(this.#moment());
    else this.#stage.show(this.#moment());
  }

  #place() {
    const { view, at } = this.#route;
    const others = (name) => address({ view: name, at });
    this.frame.set(view, this.#views[view].title, others);
    this.frame.slider.set(at, this.#tip ?? 0);
  }

  #moment() {
    const { at, params } = this.#route;
    const tip = this.#tip ?? 0;
    return { at, epoch: at ?? tip, tip, isLive: at === null, isSliding: this.#writing !== null, params };
  }

  #heard(entries) {
    this.#recent = [...this.#recent, ...entries].slice(-RECENT_MAX);
    this.#stage.entries(entries);
  }

  #moved(tip) {
    const isFirst = this.#tip === null;
    // A log that is shorter than before is another one.
    if (tip < this.#tip) this.#api.forget();
    const before = this.#tip;
    this.#tip = tip;
    if (isFirst) {
      this.#turnToAddress();
      return;
    }
    const { at } = this.#route;
    this.frame.slider.set(at, tip);
    // An epoch that a link was ahead of is there now.
    const isReached = at !== null && before < at && at <= tip;
    if (at === null || isReached) this.#stage.follow(this.#moment());
  }

  #connected(state, detail) {
    this.frame.status.set(state, detail);
    if (state === "lost") this.#isLost = true;
    if (state !== "live" || !this.#isLost) return;
    this.#isLost = false;
    this.#name();
    // What happened in between is not known: ask again.
    if (this.#route) this.#stage.mend(this.#moment());
  }

  async #name() {
    try {
      const { name } = await this.#api.get("/v1/metadata/cluster");
      this.frame.setCluster(name || "not founded yet");
    } catch {
      // The name is an ornament; whatever is wrong, the view says it.
      this.frame.setCluster("");
    }
  }
}
