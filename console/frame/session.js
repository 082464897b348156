// Who looks: the token of this tab, and the role that it stands for.

import { h } from "../parts/dom.js";
import { button, field, input } from "../parts/forms.js";

const KEPT_AS = "ringlog.token";
const NAME_KEPT_AS = "ringlog.name";
const NAME_CHARS_MAX = 60;
const WRONG = "This token is not known here; copy it again from tokens.json.";
const ROLES = ["viewer", "node", "operator", "admin"];

export class Session {
  constructor(role, isOpen, name = "") {
    this.role = role;
    this.isOpen = isOpen;
    this.name = name;
  }

  /** Who commits, as the log keeps it. Where nobody signs in, only the console is known. */
  get actor() {
    const who = this.name || (this.isOpen ? "" : this.role);
    return who ? `console:${who}` : "console";
  }

  can(role) {
    return ROLES.indexOf(this.role) >= ROLES.indexOf(role);
  }
}

/** The session of this tab, or null where a token has to be asked for. */
export async function resumed(api) {
  api.signIn(sessionStorage.getItem(KEPT_AS));
  const found = await asked(api, sessionStorage.getItem(NAME_KEPT_AS) ?? "");
  if (!found) forget();
  return found;
}

export function forget() {
  sessionStorage.removeItem(KEPT_AS);
  sessionStorage.removeItem(NAME_KEPT_AS);
}

/** The form that asks for a token; `onSession` gets the session it leads to. */
export function signInForm(api, { said = "", onSession }) {
  const problem = h("p", { id: "sign-in-problem", class: "problem", role: "alert" }, said);
  const token = input({
    id: "token",
    type: "password",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "sign-in-problem",
  });
  const name = input({ id: "name", type: "text", autocomplete: "username", maxlength: NAME_CHARS_MAX });
  const submit = button("Sign in", { kind: "primary", type: "submit" });
  const send = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    submit.disabled = true;
    try {
      onSession(await opened(api, token.value.trim(), name.value.trim()));
    } catch (error) {
      problem.textContent = error.message;
      token.select();
      token.focus();
    } finally {
      submit.disabled = false;
    }
  };
  const hint = [
    "Each role has its own. ",
    h("code", {}, "ringlog up --tokens"),
    " writes them to tokens.json in its state directory; with Docker Compose, print them by ",
    h("code", {}, "docker compose exec cms-1 cat /run/ringlog/tokens.json"),
    ".",
  ];
  return h(
    "main",
    { id: "content", class: "sign-in" },
    h(
      "form",
      { id: "sign-in", class: "card stack", on: { submit: send } },
      h("h1", {}, "Sign in to ringlog"),
      field("Token", token, { hint }),
      field("Name", name, { hint: "Optional; the log names you by it, or else by your role." }),
      problem,
      submit,
    ),
  );
}

async function opened(api, token, name) {
  api.signIn(token);
  const session = await asked(api, name);
  if (!session) throw new Error(WRONG);
  sessionStorage.setItem(KEPT_AS, token);
  if (name) sessionStorage.setItem(NAME_KEPT_AS, name);
  return session;
}

async function asked(api, name) {
  const { role, is_open: isOpen } = await api.get("/v1/me");
  return role === null ? null : new Session(role, isOpen, name);
}
