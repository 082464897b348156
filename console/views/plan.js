// Plan: fill in a change of ownership, see what it would do, then submit it.

import { card, empty } from "../parts/cards.js";
import { fill, h } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { button } from "../parts/forms.js";
import { slot } from "../parts/slots.js";
import { planAnswer } from "./plan_answer.js";
import { FormError, PlanForm } from "./plan_form.js";
import { title } from "./sequences_words.js";
import { guarded, submit } from "./submitting.js";

export const view = {
  title: "Plan",
  refreshS: 5,
  mount: (root, context) => new PlanView(root, context),
};

class PlanView {
  #context;
  #nodes = [];
  #asked = null; // what is on show and of the form as it stands: {plan, transformation}
  #edits = 0;
  #isAsking = false;

  constructor(root, context) {
    this.#context = context;
    this.form = new PlanForm({
      onChosen: () => this.#chosen(),
      onEdited: () => this.#edited(),
      onPlan: () => this.#plan(),
    });
    this.notice = slot();
    this.stale = h("div", { class: "plan-stale" });
    this.answer = h("div", { class: "plan-result", "aria-live": "polite" });
    this.problem = h("div", {});
    this.#clear();
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        this.notice.element,
        h(
          "div",
          { class: "plan-columns" },
          card("Change of ownership", { id: "plan-change" }, this.form.element),
          h("div", { class: "stack" }, this.problem, this.stale, this.answer),
        ),
      ),
    );
  }

  async show(moment) {
    const { nodes } = await this.#context.api.at("/v1/nodes", moment);
    this.#nodes = nodes;
    this.form.update(nodes, moment.params, moment.isLive);
    this.notice.show(moment.isLive ? null : moment.epoch, (epoch) => (epoch === null ? null : this.#past(epoch)));
    this.#age(moment);
  }

  #chosen() {
    this.#clear();
    this.#context.go({ params: this.form.params, replace: true });
  }

  /** What was planned is not what the form says any more, so it cannot be submitted. */
  #edited() {
    this.#edits += 1;
    if (this.#asked) this.#outdate();
  }

  #outdate() {
    this.#asked = null;
    this.answer.classList.add("is-outdated");
    const submit = this.answer.querySelector("#plan-submit");
    if (submit) submit.disabled = true;
    this.#warn("The form has changed since this was planned; plan it again to submit it.");
  }

  #warn(said) {
    const again = button("Plan again", { on: { click: () => this.#plan() } });
    fill(this.stale, h("div", { class: "notice notice-warn", role: "status" }, h("p", {}, said), again));
  }

  #clear() {
    this.#asked = null;
    this.answer.classList.remove("is-outdated");
    fill(this.problem);
    fill(this.stale);
    fill(
      this.answer,
      empty("Nothing is planned yet", "A plan shows what would be moved, locked and waited for. It changes nothing."),
    );
  }

  async #plan() {
    this.form.submit.disabled = true;
    fill(this.problem);
    const edits = this.#edits;
    try {
      const transformation = await this.form.transformation((node, wanted) => this.#proposed(node, wanted));
      const rowsPerSecond = this.form.rowsPerSecond;
      const plan = await this.#context.api.plan(transformation, rowsPerSecond === null ? {} : { rows_per_s: rowsPerSecond });
      this.#asked = { plan, transformation };
      fill(this.stale);
      this.answer.classList.remove("is-outdated");
      fill(this.answer, planAnswer(this.#context, this.#asked, this.#nodes, this.#actions()));
      if (edits !== this.#edits) this.#outdate();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.form.submit.disabled = false;
    }
  }

  async #proposed(node, wanted) {
    const { tokens } = await this.#context.api.get("/v1/tokens", { query: { node, count: wanted } });
    return tokens;
  }

  #failed(error) {
    this.#clear();
    if (!(error instanceof FormError) && error.name !== "Problem") console.error(error);
    const remedy = error.remedy ? ` ${error.remedy}` : "";
    fill(this.problem, h("div", { class: "notice notice-bad", role: "alert" }, h("p", {}, `${error.message}${remedy}`)));
  }

  /** Only whoever may commit it is offered to. */
  #actions() {
    if (!this.#context.can("operator")) {
      return h("p", { class: "muted" }, "Submitting it takes the role operator.");
    }
    return h(
      "div",
      { class: "row plan-actions" },
      button("Submit", { kind: "primary", id: "plan-submit", on: { click: () => this.#submit() } }),
      h("span", { class: "muted" }, "It begins at once; it can be cancelled until it has finished."),
    );
  }

  async #submit() {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const { plan, transformation } = this.#asked;
    const { kind } = plan.sequence;
    const answer = await this.#context.confirm({
      title: `Begin the ${kind}?`,
      body: h("p", {}, `${title(plan.sequence)}: ${consequence(plan)}`),
      action: `Begin the ${kind}`,
      asksReason: true,
    });
    this.#isAsking = false;
    if (answer === null) return;
    const proposal = this.#context.api.proposal(transformation, answer);
    await this.#send({ proposal, what: `the ${kind}`, done: ({ result }) => this.#begun(result) });
  }

  /** A second submit would be another change: while this one is in doubt its own id is asked for. */
  async #send(change) {
    this.#asked = null;
    this.answer.querySelector("#plan-submit").disabled = true;
    this.#warn("This was submitted; plan it again to see what would be done now.");
    await guarded(this.#context, async () => {
      try {
        await submit(this.#context, change);
      } catch (error) {
        // Somebody may have gone to another view meanwhile.
        if (!this.answer.isConnected) throw error;
        this.#failed(error);
      }
    });
  }

  #begun({ sequence }) {
    this.#context.say(`Sequence ${sequence} has begun.`, "good");
    this.#context.go({ view: "sequences", at: null, params: { id: sequence } });
  }

  #past(epoch) {
    const live = h("a", { class: "button", href: this.#context.href({ at: null }) }, "Back to live");
    return h(
      "div",
      { class: "notice notice-warn" },
      h("p", {}, `You see the nodes of epoch ${count(epoch)}. A change is planned against the newest epoch.`),
      live,
    );
  }

  /** Others may have committed since; the CMS decides again when it is submitted. */
  #age(moment) {
    const { plan } = this.#asked ?? {};
    if (!plan || !moment.isLive || moment.tip <= plan.epoch) return;
    if (this.stale.childNodes.length > 0) return;
    this.#warn(`The log has gone on since epoch ${count(plan.epoch)}; what is shown may have changed.`);
  }
}

function consequence(plan) {
  const rows = plan.transfers.length === 0 ? "no rows are moved" : moved(plan.rows);
  const weakest = plan.weakest === null ? "" : `, no range is read from fewer than ${plan.weakest} replicas on the way`;
  return `the ranges concerned are locked until it ends, ${rows}${weakest}.`;
}

function moved(rows) {
  return rows === null ? "rows are moved (nobody has reported how many)" : `about ${count(rows)} rows are moved`;
}
