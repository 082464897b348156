// The CMS, as anybody may ask it. Answers about a past epoch never change, so they are kept.

import { Silence, silenceText } from "./silence.js";

const KEPT_MAX = 200;
const KEPT_CHARS_MAX = 64 * 1024 * 1024;
const TRIES_MAX = 5;
const PAUSE_MS = 400;
const COMMIT_S_MAX = 20; // after that no other try begins
const SILENT_S_MAX = 20; // a CMS itself waits up to 15 seconds for its log

/** A problem that the CMS answered (RFC 9457), or that it did not answer (`code` "unreachable"). */
export class Problem extends Error {
  constructor(members) {
    super(members.detail || members.title || "The CMS could not answer.");
    this.name = "Problem";
    this.code = members.code ?? "internal";
    this.status = members.status ?? 0;
    this.detail = this.message;
    this.remedy = members.remedy ?? null;
    this.members = members;
  }

  /** Whether it may be gone when one asks again. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  /** Whether what was asked for may have been done: nobody answered, or not the CMS itself. */
  get mayBeDone() {
    return ["unreachable", "unknown", "internal"].includes(this.code);
  }
}

export class Api {
  #token = null;
  #kept = new Map();
  #chars = 0;
  #modified = new WeakMap();

  /** `onUnauthorized` is told when the token is not, or no longer, taken. */
  constructor({ base = new URL("..", document.baseURI), onUnauthorized = () => {} } = {}) {
    this.base = base;
    this.onUnauthorized = onUnauthorized;
    this.actor = "console";
  }

  signIn(token) {
    this.#token = token;
    this.forget();
  }

  /** Keep nothing of what was answered so far. */
  forget() {
    this.#kept.clear();
    this.#chars = 0;
  }

  /** What fetch() gives, with the token sent; anything but success is a `Problem`. */
  async fetch(path, { headers = {}, ...options } = {}) {
    const sent = new Headers(headers);
    if (this.#token) sent.set("Authorization", `Bearer ${this.#token}`);
    let response;
    try {
      const target = new URL(path.replace(/^\//, ""), this.base);
      // Always asked again, by tag: at this address there may be another cluster than yesterday.
      response = await fetch(target, { cache: "no-cache", ...options, headers: sent });
    } catch (error) {
      throw error.name === "AbortError" ? error : unreachable("The CMS does not answer.");
    }
    if (response.ok) return response;
    const problem = new Problem(await said(response));
    if (problem.status === 401) this.onUnauthorized(problem);
    throw problem;
  }

  /** JSON from a path such as "/v1/nodes"; null and undefined in `query` are left out. */
  async get(path, { query = {}, signal } = {}) {
    return JSON.parse(await this.text(target(path, query), { signal }));
  }

  /** The whole of an answer, as long as it keeps coming. */
  async text(path, { signal, ...options } = {}) {
    const silence = new Silence(SILENT_S_MAX, signal);
    try {
      const response = await this.fetch(path, { ...options, signal: silence.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parts = [];
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return parts.join("");
        silence.heard();
        parts.push(value);
      }
    } catch (error) {
      if (silence.isOver) throw unreachable(silenceText(SILENT_S_MAX));
      if (error instanceof Problem || error.name === "AbortError") throw error;
      throw unreachable("The answer of the CMS broke off.");
    } finally {
      silence.close();
    }
  }

  /** JSON at the epoch of a moment: kept where that is past, asked for anew where it is live. */
  async at(path, moment, query = {}) {
    if (moment.at === null) return this.get(path, { query, signal: moment.signal });
    const wanted = target(path, { ...query, at: moment.at });
    return this.#once(wanted, wanted, moment.signal);
  }

  /**
   * A component of the metadata, such as "ring", at a moment. One that is the same at two epochs
   * is asked for once, and is then the same object; all of one moment are of one epoch.
   */
  async component(name, moment) {
    if (!this.#modified.has(moment)) this.#modified.set(moment, this.at("/v1/modified", moment));
    const { epoch, modified } = await this.#modified.get(moment);
    const wanted = target(`/v1/metadata/${name}`, { at: epoch });
    return this.#once(`${name}@${modified[name]}`, wanted, moment.signal);
  }

  async #once(name, path, signal) {
    const known = this.#kept.get(name);
    if (known !== undefined) {
      this.#kept.delete(name);
      this.#kept.set(name, known);
      return known.value;
    }
    const text = await this.text(path, { signal });
    const value = JSON.parse(text);
    this.#keep(name, value, text.length);
    return value;
  }

  async post(path, body, { signal } = {}) {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", headers, body: JSON.stringify(body), signal };
    return JSON.parse(await this.text(path, options));
  }

  /** What a transformation would do; a refusal is an answer with `outcome` and `problem`. */
  plan(transformation, more = {}) {
    return this.post("/v1/plan", { transformation, ...more });
  }

  /** A transformation under an id of its own: however often it is sent, it is made once at most. */
  proposal(transformation, { reason = null } = {}) {
    return { entry_id: madeId(), transformation, actor: this.actor, reason: reason || null };
  }

  /** Commit a proposal. Where nobody said what became of it, the problem has the code "unknown". */
  async commit(proposal) {
    const untilMs = performance.now() + COMMIT_S_MAX * 1000;
    let isInDoubt = false;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.post("/v1/commit", proposal);
      } catch (error) {
        if (!(error instanceof Problem) || !error.isPassing) throw error;
        isInDoubt ||= error.mayBeDone;
        if (attempt >= TRIES_MAX || performance.now() > untilMs) throw isInDoubt ? unknown() : error;
        await new Promise((done) => setTimeout(done, PAUSE_MS * attempt));
      }
    }
  }

  #keep(name, value, chars) {
    this.#chars -= this.#kept.get(name)?.chars ?? 0;
    this.#kept.set(name, { value, chars });
    this.#chars += chars;
    while (this.#kept.size > 1 && (this.#kept.size > KEPT_MAX || this.#chars > KEPT_CHARS_MAX)) {
      const [oldest, { chars: freed }] = this.#kept.entries().next().value;
      this.#kept.delete(oldest);
      this.#chars -= freed;
    }
  }
}

function unreachable(detail) {
  return new Problem({ code: "unreachable", detail });
}

function unknown() {
  return new Problem({ code: "unknown", detail: "The CMS does not say whether the change was made." });
}

function target(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

async function said(response) {
  try {
    return await response.json();
  } catch {
    return { status: response.status, detail: `The CMS answered ${response.status}; try again.` };
  }
}

/** A random UUID; crypto.randomUUID is there only where the page came by TLS or from this machine. */
function madeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
