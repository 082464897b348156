// Where the console begins: sign in, follow the log, show the view that the address names.

import { view as cms } from "../views/cms.js";
import { view as log } from "../views/log.js";
import { view as nodes } from "../views/nodes.js";
import { view as plan } from "../views/plan.js";
import { view as ring } from "../views/ring.js";
import { view as schema } from "../views/schema.js";
import { view as sequences } from "../views/sequences.js";
import { fill } from "../parts/dom.js";
import { empty } from "../parts/cards.js";
import { button } from "../parts/forms.js";
import { Api } from "./api.js";
import { Console } from "./console.js";
import { forget, resumed, signInForm } from "./session.js";
import { startTheme } from "./theme.js";

const VIEWS = { ring, nodes, sequences, plan, log, schema, cms };

const AGAIN_MS = 3_000;

const app = document.getElementById("app");
const api = new Api();
let running = null;

function open(session) {
  api.onUnauthorized = () => leave("The token is no longer taken; sign in again.");
  api.actor = session.actor;
  running = new Console(VIEWS, api, session, { onSignOut: () => leave("") });
  fill(app, running.frame.element);
  running.start();
}

function leave(said) {
  running?.close();
  running = null;
  forget();
  ask(said);
}

function ask(said) {
  api.onUnauthorized = () => {};
  api.signIn(null);
  document.title = "Sign in – ringlog";
  fill(app, signInForm(api, { said, onSession: open }));
  document.getElementById("token").focus();
}

async function start() {
  try {
    const session = await resumed(api);
    if (session) open(session);
    else ask("");
  } catch (error) {
    const timer = setTimeout(start, AGAIN_MS);
    const now = () => (clearTimeout(timer), start());
    fill(app, empty("The CMS does not answer", error.message, button("Try again", { on: { click: now } })));
  }
}

startTheme();
start();
