// The form of a plan: which change, of which node, with which tokens.

import { h } from "../parts/dom.js";
import { button, field, input, reselect, select } from "../parts/forms.js";

export const CHANGES = ["join", "leave", "move", "replace"];
const KINDS = { join: "PrepareJoin", leave: "PrepareLeave", move: "PrepareMove", replace: "PrepareReplace" };
const NAMES = { join: "Join", leave: "Leave", move: "Move", replace: "Replace" };
const COUNT_MAX = 1024;
const TOKEN = /^[+-]?\d{1,20}$/;
const LEAST = -(2n ** 63n);
const MOST = 2n ** 63n - 1n;
const SENTENCE_CHARS_MAX = 500;
const DEAD_SHOWN_MAX = 200;

/** Something in the form that cannot be; the text is a sentence. */
export class FormError extends Error {}

export class PlanForm {
  #radios = new Map();

  /**
   * `onChosen` is told what belongs into the address, `onEdited` of any change at all, `onPlan`
   * that somebody asks for the plan.
   */
  constructor({ onChosen, onEdited, onPlan }) {
    this.node = select([], { id: "plan-node", on: { change: onChosen } });
    this.replaced = select([], { id: "plan-replaced", on: { change: onChosen } });
    this.count = input({ type: "number", min: 1, max: COUNT_MAX, id: "plan-count", placeholder: "as the others" });
    this.tokens = h("textarea", { class: "input", id: "plan-tokens", rows: 3, spellcheck: "false" });
    this.loss = input({ type: "text", maxlength: SENTENCE_CHARS_MAX, id: "plan-loss", autocomplete: "off" });
    this.force = h("input", { type: "checkbox", id: "plan-force" });
    this.rate = input({ type: "number", min: 1, id: "plan-rate", placeholder: "as movements before" });
    this.dead = h("fieldset", { class: "choices" });
    this.submit = button("Show what it would do", { kind: "primary", type: "submit", id: "plan-show" });
    this.fields = h("fieldset", { class: "plan-fields stack" });
    this.element = h(
      "form",
      {
        id: "plan-form",
        on: {
          input: onEdited,
          submit: (event) => {
            event.preventDefault();
            onPlan();
          },
        },
      },
      this.fields,
    );
    this.#build(onChosen);
  }

  get change() {
    return CHANGES.find((name) => this.#radios.get(name).checked);
  }

  /** What the address holds. */
  get params() {
    const params = { change: this.change, node: this.node.value };
    if (this.change === "replace") params.replaced = this.replaced.value;
    return params;
  }

  /** Nodes as GET /v1/nodes lists them, and what the address asks for. */
  update(nodes, params, isEnabled) {
    const change = CHANGES.includes(params.change) ? params.change : (this.change ?? "join");
    this.#radios.get(change).checked = true;
    this.fields.disabled = !isEnabled;
    const joined = nodes.filter((item) => item.state === "joined");
    const spare = nodes.filter((item) => item.state === "registered");
    const wantsSpare = change === "join" || change === "replace";
    const none = "no node has joined";
    this.#offer(this.node, wantsSpare ? spare : joined, params.node, wantsSpare ? "no node waits to join" : none);
    this.#offer(this.replaced, joined, params.replaced, none);
    this.#offerDead(nodes);
    this.#layOut(change);
  }

  /** The transformation to plan; `tokens` proposes some where none are given. */
  async transformation(tokens) {
    const { change } = this;
    const found = { kind: KINDS[change], node: numberOf(this.node, noNode(change)) };
    if (change === "replace") found.replaced = numberOf(this.replaced, "No node has joined that could be replaced.");
    if (change === "join" || change === "move") found.tokens = await this.#tokens(found.node, tokens);
    const dead = [...this.dead.querySelectorAll("input:checked")].map((box) => Number(box.value));
    if (dead.length > 0) found.dead = dead;
    if (this.loss.value.trim()) found.accept_loss = this.loss.value.trim();
    if (change === "leave" && this.force.checked) found.force = true;
    return found;
  }

  get rowsPerSecond() {
    const value = Number(this.rate.value);
    return this.rate.value && value > 0 ? value : null;
  }

  #build(onChosen) {
    const kinds = CHANGES.map((name) => {
      const radio = h("input", { type: "radio", name: "change", value: name, on: { change: onChosen } });
      this.#radios.set(name, radio);
      return h("label", { class: "change-kind" }, radio, NAMES[name]);
    });
    this.#radios.get("join").checked = true;
    this.nodeField = field("Node", this.node);
    this.replacedField = field("Node that goes", this.replaced);
    this.countField = field("Number of tokens", this.count, { hint: "Tokens are proposed so that every node holds its share." });
    this.tokensField = field("Or exactly these tokens", this.tokens, { hint: "Numbers, with commas or spaces between." });
    this.forceField = h("label", { class: "choice" }, this.force, "Leave even if fewer replicas are left than wanted");
    const more = h(
      "details",
      {},
      h("summary", {}, "More"),
      h(
        "div",
        { class: "stack" },
        this.tokensField,
        this.dead,
        this.forceField,
        field("Loss that is accepted", this.loss, { hint: "A sentence that the log keeps; only where rows may be lost." }),
        field("Rows moved in a second", this.rate, { hint: "For the predicted time." }),
      ),
    );
    this.fields.append(
      h("fieldset", { class: "change-kinds" }, h("legend", { class: "unseen" }, "Change"), kinds),
      this.nodeField,
      this.replacedField,
      this.countField,
      more,
      this.submit,
    );
  }

  #layOut(change) {
    const hasTokens = change === "join" || change === "move";
    this.replacedField.hidden = change !== "replace";
    this.countField.hidden = !hasTokens;
    this.tokensField.hidden = !hasTokens;
    this.forceField.hidden = change !== "leave";
    this.nodeField.querySelector("label").textContent = change === "replace" ? "Node that takes its place" : "Node";
  }

  #offer(element, nodes, wanted, otherwise) {
    const options = nodes.map((item) => [item.id, label(item)]);
    const known = new Set(nodes.map((item) => String(item.id)));
    const value = [wanted, element.value].find((item) => known.has(item)) ?? String(nodes[0]?.id ?? "");
    reselect(element, options.length ? options : [["", otherwise]], value);
  }

  #offerDead(nodes) {
    const known = nodes.map((item) => `${item.id} ${item.liveness}`).join();
    if (this.dead.dataset.known === known) return;
    this.dead.dataset.known = known;
    const checked = new Set([...this.dead.querySelectorAll("input:checked")].map((box) => box.value));
    this.dead.replaceChildren(
      h("legend", {}, "Nodes that will not come back"),
      ...nodes.slice(0, DEAD_SHOWN_MAX).map((item) =>
        h("label", { class: "choice" }, h("input", { type: "checkbox", value: item.id, checked: checked.has(String(item.id)) }), label(item)),
      ),
    );
  }

  async #tokens(node, propose) {
    const given = this.tokens.value.split(/[\s,]+/).filter(Boolean);
    if (given.length === 0) {
      const wanted = Number(this.count.value);
      if (this.count.value && !(Number.isInteger(wanted) && wanted >= 1 && wanted <= COUNT_MAX)) {
        throw new FormError(`A node has 1 to ${COUNT_MAX} tokens, not ${this.count.value}.`);
      }
      return propose(node, this.count.value ? wanted : null);
    }
    const bad = given.find((text) => !TOKEN.test(text) || BigInt(text) < LEAST || BigInt(text) > MOST);
    if (bad) throw new FormError(`“${bad}” is no token: a token is a whole number of 64 bits.`);
    return given.map((text) => BigInt(text).toString());
  }
}

export function label(item) {
  const address = item.addresses.http ?? Object.values(item.addresses)[0] ?? "no address";
  const how = item.liveness && item.liveness !== "up" ? `, ${item.liveness}` : "";
  return `node ${item.id} – ${address}, ${item.datacenter}/${item.rack}${how}`;
}

function noNode(change) {
  return change === "join" || change === "replace"
    ? "No node is registered that could join: start one, and it appears here."
    : "No node has joined yet.";
}

function numberOf(element, otherwise) {
  if (!element.value) throw new FormError(otherwise);
  return Number(element.value);
}
