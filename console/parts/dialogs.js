// What interrupts: a question that wants an answer, a drawer beside the view, a passing remark.

import { h } from "./dom.js";
import { button, field, input } from "./forms.js";

const SAID_MS = 6_000;
const SAID_MAX = 4;
const REASON_CHARS_MAX = 500;

/**
 * Ask before something is done; null is no, and a reason comes with a yes. Where `body` is made by
 * a function, that gets the button, and may disable it while there is nothing to say yes to.
 * @returns {Promise<null|{reason: string}>}
 */
export function confirm({ title, body, action, isDangerous = false, asksReason = false }) {
  return new Promise((answer) => {
    const reason = input({ type: "text", maxlength: REASON_CHARS_MAX, autocomplete: "off" });
    let said = null;
    const yes = button(action, { kind: isDangerous ? "danger" : "primary", type: "submit" });
    const no = button("Keep as it is", { on: { click: () => dialog.close() } });
    const send = (event) => {
      event.preventDefault();
      said = { reason: reason.value.trim() };
      dialog.close();
    };
    const dialog = modal(
      title,
      h(
        "form",
        { class: "stack", on: { submit: send } },
        h("div", { class: "stack" }, typeof body === "function" ? body(yes) : body),
        asksReason ? field("Reason, for the log", reason, { hint: "Optional; it stays in the log for good." }) : null,
        h("div", { class: "row dialog-actions" }, no, yes),
      ),
      { onClosed: () => answer(said) },
    );
    (asksReason ? reason : no).focus();
  });
}

/** A dialog over the page; Escape and the cross close it, and focus goes back where it was. */
export function modal(title, body, { class: more = "", onClosed = () => {} } = {}) {
  const cross = button("×", { kind: "quiet", class: "dialog-close", "aria-label": "Close" });
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h(
    "dialog",
    { class: `dialog${more ? ` ${more}` : ""}`, "aria-labelledby": "dialog-title" },
    h("div", { class: "dialog-head" }, heading, cross),
    h("div", { class: "dialog-body" }, body),
  );
  const before = document.activeElement;
  cross.addEventListener("click", () => dialog.close());
  // A click beside it; one that only ends there, as when text is marked, is none.
  let isBeside = false;
  dialog.addEventListener("pointerdown", (event) => (isBeside = event.target === dialog));
  dialog.addEventListener("click", (event) => isBeside && event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
    onClosed();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A remark that goes by itself; bad news stay until they are closed, or until their action is taken. */
export function say(text, kind = "info", action = null) {
  const place = sayings();
  const close = button("×", { kind: "quiet", "aria-label": "Dismiss" });
  const role = kind === "bad" ? "alert" : "status";
  const taken = () => {
    item.remove();
    action.do();
  };
  const act = action ? button(action.text, { on: { click: taken } }) : null;
  const item = h("div", { class: `saying notice notice-${kind}`, role, data: action ? { acts: "" } : {} }, h("p", {}, text), act, close);
  close.addEventListener("click", () => item.remove());
  if (kind !== "bad") setTimeout(() => item.remove(), SAID_MS);
  // What somebody may still act on goes last.
  while (place.children.length >= SAID_MAX) {
    (place.querySelector(":scope > :not([data-acts])") ?? place.firstChild).remove();
  }
  place.append(item);
}

function sayings() {
  let place = document.getElementById("sayings");
  if (!place) {
    place = h("div", { id: "sayings", class: "sayings", role: "region", "aria-label": "Remarks" });
    document.body.append(place);
  }
  return place;
}
