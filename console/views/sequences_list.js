// All sequences: those in progress first, then those that the log says have ended.

import { badge, card, empty, meter, nodeLink } from "../parts/cards.js";
import { fill, h } from "../parts/dom.js";
import { count, duration, moment as clock } from "../parts/format.js";
import { button } from "../parts/forms.js";
import { slot } from "../parts/slots.js";
import { table } from "../parts/tables.js";
import { seamText } from "./log_reading.js";
import { ended } from "./sequences_history.js";
import { now, standing, title } from "./sequences_words.js";

const PAGES_FIRST = 2;
const PAGES_MORE = 10;

export function listPart(context, history) {
  let pages = PAGES_FIRST;
  let last = null;
  const running = slot({ class: "stack" });
  const over = overTable(context);
  const further = h("div", { class: "row" });
  const more = button("Look further back", {
    on: {
      click: async () => {
        more.disabled = true;
        try {
          await showEnded(last, pages + PAGES_MORE);
          pages += PAGES_MORE;
        } catch (error) {
          context.say(error.message, "bad");
        } finally {
          more.disabled = false;
        }
      },
    },
  });

  async function showEnded(moment, wanted = pages) {
    const found = await history.back(moment.epoch, wanted, moment.signal);
    over.update(ended(found.steps));
    const isMore = found.from > 1 && !found.seam;
    fill(further, h("p", { class: "muted", role: "status" }, lookedThrough(found, moment)), isMore ? more : null);
  }

  const element = h(
    "div",
    { class: "stack" },
    card("In progress", { id: "in-progress" }, running.element),
    card("Ended", { id: "ended" }, over.element, further),
  );
  return {
    element,
    async show(moment) {
      last = moment;
      const { sequences } = await context.api.at("/v1/sequences", moment);
      running.show({ sequences, isLive: moment.isLive, at: moment.at }, () =>
        runningList(context, sequences, moment),
      );
      // Entries are many; where the slider rests they are read.
      if (!moment.isSliding) await showEnded(moment);
    },
  };
}

function lookedThrough({ from, seam }, { epoch }) {
  if (from <= 1) return `Looked through all ${count(epoch)} entries.`;
  const looked = `Looked through epochs ${count(from)} to ${count(epoch)}`;
  return seam ? `${looked}. ${seamText(seam)}` : `${looked}; older entries are not read yet.`;
}

function runningList(context, sequences, moment) {
  if (sequences.length > 0) {
    return h("ul", { class: "sequence-list" }, sequences.map((item) => runningItem(context, item)));
  }
  const plan = context.can("operator") && moment.isLive;
  return empty(
    `No sequence is in progress at epoch ${count(moment.epoch)}`,
    "Joins, leaves, moves and replacements appear here from their first step to their last.",
    plan ? h("a", { class: "button", href: context.href({ view: "plan" }) }, "Plan a change") : null,
  );
}

function runningItem(context, view) {
  const [text, tone] = standing(view);
  const href = context.href({ params: { id: view.id } });
  const { progress } = view;
  const done = progress && progress.rows_total ? progress.rows_done / progress.rows_total : null;
  return h(
    "li",
    { class: "sequence-item" },
    h(
      "div",
      { class: "row" },
      h("a", { class: "sequence-title", href }, title(view)),
      badge(text, tone),
      h("span", { class: "muted" }, `sequence ${view.id}, ${view.due} is due`),
    ),
    done === null ? null : meter(done, `Rows moved by sequence ${view.id}`),
    h("p", {}, now(view)),
  );
}

function overTable(context) {
  return table({
    caption: "Sequences that have ended",
    key: (row) => row.id,
    rowsPage: 25,
    empty: "None has ended in these entries.",
    filter: (row) => `${row.id} ${row.kind} node ${row.node} ${row.outcome}`,
    filterLabel: "Filter by kind, node or outcome",
    onRow: (row) => context.href({ params: { id: row.id } }),
    columns: [
      {
        title: "Sequence",
        cell: (row) => h("a", { href: context.href({ params: { id: row.id } }) }, named(row)),
      },
      {
        title: "Outcome",
        cell: (row) => badge(row.outcome, row.outcome === "finished" ? "good" : "warn"),
        sort: (row) => row.outcome,
      },
      {
        title: "Node",
        isWide: true,
        cell: (row) => (row.node === null ? "–" : nodeLink(context, row.node)),
        sort: (row) => row.node,
      },
      { title: "Ended at", cell: (row) => clock(row.end.committed_at), sort: (row) => row.end.epoch },
      { title: "Epochs", isWide: true, cell: (row) => `${count(row.id)} – ${count(row.end.epoch)}` },
      {
        title: "Took",
        isNumber: true,
        isWide: true,
        cell: (row) => duration(tookS(row)),
        sort: tookS,
      },
    ],
  });
}

function named(row) {
  return row.node === null ? `Sequence ${row.id}` : title(row);
}

function tookS(row) {
  return row.began ? (row.end.committed_at - row.began.committed_at) / 1e6 : null;
}
