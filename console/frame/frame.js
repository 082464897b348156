// What stands around every view: navigation, who looks, the connection, time.

import { fill, h, unseen } from "../parts/dom.js";
import { button } from "../parts/forms.js";
import { ConnectionStatus } from "./status.js";
import { TimeSlider } from "./slider.js";
import { isDark, onTheme, switchTheme } from "./theme.js";

export class Frame {
  #links = new Map();

  /**
   * @param {Record<string, {title: string}>} views
   * @param {import("./session.js").Session} session
   * @param {object} wiring  onEpoch, onChanges, onSignOut, href(route)
   */
  constructor(views, session, wiring) {
    this.status = new ConnectionStatus();
    this.slider = new TimeSlider(wiring);
    this.title = h("h1", { tabindex: "-1" });
    this.cluster = h("span", { class: "cluster-name" });
    this.main = h("main", { id: "content", tabindex: "-1" });
    this.element = h(
      "div",
      { class: "frame" },
      this.#top(session, wiring),
      this.#nav(views),
      h("div", { class: "work" }, this.slider.element, this.main),
    );
  }

  /** The view that is seen, and where the others are: at the same epoch. */
  set(name, title, href) {
    for (const [view, link] of this.#links) {
      link.setAttribute("href", href(view));
      if (view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (this.main.dataset.view !== name) {
      this.main.dataset.view = name;
      this.main.dataset.shown = "";
      fill(this.title, title);
    }
    document.title = `${title} – ringlog`;
  }

  setCluster(name) {
    fill(this.cluster, name);
  }

  #top(session, wiring) {
    const who = session.isOpen ? "open, no tokens" : session.role;
    const theme = button("", { id: "theme", kind: "quiet", on: { click: switchTheme } });
    const named = () => fill(theme, isDark() ? "Light" : "Dark", unseen(" theme"));
    onTheme(named);
    named();
    return h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/ring" }, h("img", { src: "icon.svg", alt: "", width: 20, height: 20 }), "ringlog"),
      this.cluster,
      this.status.element,
      h("span", { class: "who", title: "What this token may do" }, unseen("Role: "), who),
      theme,
      session.isOpen
        ? null
        : button("Sign out", { id: "sign-out", kind: "quiet", on: { click: wiring.onSignOut } }),
    );
  }

  #nav(views) {
    const items = Object.entries(views).map(([name, view]) => {
      const link = h("a", { href: `#/${name}` }, view.title);
      this.#links.set(name, link);
      return h("li", {}, link);
    });
    return h("nav", { class: "views", "aria-label": "Views" }, h("ul", {}, items));
  }
}
