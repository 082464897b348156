// The CMS: its members, who sequences, how fast the log grows, and what is refused.

import { fill, h } from "../parts/dom.js";
import { badge, card, empty, facts } from "../parts/cards.js";
import { bytes, count, duration, moment as time, rate } from "../parts/format.js";
import { sparkline } from "../parts/sparkline.js";
import { table } from "../parts/tables.js";
import { byLabel, level, mean, samples } from "./cms_metrics.js";
import { Throughput } from "./cms_throughput.js";

export const view = {
  title: "CMS",
  refreshS: 2,
  mount: (root, context) => new CmsView(root, context),
};

// Outlives the view, so that coming back shows what happened meanwhile.
const throughput = new Throughput();

class CmsView {
  #context;

  constructor(root, context) {
    this.#context = context;
    this.line = sparkline({ label: "Commits per second of late", isStretched: true });
    this.speed = h("p", { class: "figure" });
    this.now = h("div");
    this.members = memberTable();
    this.refusals = countTable("Rejections by code", "Code", "Nothing was refused since this process started.");
    this.problems = countTable("Problems by code", "Code", "No problem was answered since this process started.");
    this.change = h("div", { class: "stack" });
    this.measured = h(
      "div",
      { class: "grid" },
      card("Throughput", h("div", { class: "stack" }, this.speed, h("div", { class: "line-large" }, this.line.element))),
      card("The process that answered", this.now),
    );
    this.refused = h(
      "div",
      { class: "grid" },
      card("Rejections", this.refusals.element),
      card("Problems", this.problems.element),
    );
    this.past = h("div", { hidden: true }, pastNote(context));
    const book = card("Members", h("div", { class: "stack" }, this.change, this.members.element));
    fill(root, h("div", { class: "stack" }, this.past, this.measured, book, this.refused));
  }

  async show(moment) {
    const { api } = this.#context;
    const [cms, last] = await Promise.all([api.component("cms", moment), newest(api, moment)]);
    this.members.update(cms.members.map((member) => ({ ...member, isSequencing: last !== null && isNamed(member, last.committed_by) })));
    fill(this.change, reconfiguration(cms.reconfiguration), sequencer(last));
    this.past.hidden = moment.isLive;
    this.measured.hidden = this.refused.hidden = !moment.isLive;
    if (!moment.isLive) return;
    const [health, text] = await Promise.all([
      api.get("/healthz", { signal: moment.signal }),
      api.text("/metrics", { signal: moment.signal }),
    ]);
    this.#live(health, samples(text), cms.members);
  }

  #live(health, found, members) {
    throughput.observe(health.epoch, performance.now());
    const over = throughput.now === null ? "measuring …" : ` over the last ${duration(Math.round(throughput.spanS))}`;
    const speed = throughput.now === null ? null : h("strong", {}, rate(throughput.now, "commits"));
    fill(this.speed, speed, h("span", { class: "muted" }, over));
    this.line.update(throughput.values, `Commits per second of late: now ${rate(throughput.now, "commits")}`);
    fill(this.now, process(health, found, members));
    this.refusals.update(byLabel(found, "ringlog_rejections_total", "code"));
    this.problems.update(byLabel(found, "ringlog_problems_total", "code"));
  }
}

/** The entry at the epoch that is shown says who put it there. */
async function newest(api, moment) {
  if (moment.epoch < 1) return null;
  return api.get(`/v1/log/${moment.epoch}`, { signal: moment.signal });
}

/** Names in the address book have no dashes, those of processes may. */
function isNamed(member, process) {
  return member.name === process.replaceAll("-", "_");
}

function sequencer(entry) {
  if (!entry) return null;
  return h("p", { class: "muted" }, `Epoch ${count(entry.epoch)} was decided by ${entry.committed_by}, ${time(entry.committed_at)}.`);
}

function process(health, found, members) {
  const latency = mean(found, "ringlog_commit_seconds", { outcome: "committed" });
  const status = badge(health.status, health.status === "ok" ? "good" : "bad", health.detail);
  return facts([
    ["Process", health.name],
    ["Member", members.find((member) => isNamed(member, health.name))?.name ?? "none: it is not in the address book"],
    ["Status", [status, health.detail ? ` ${health.detail}` : null]],
    ["Role", health.sequencing ? badge("sequences", "accent", "It decides the order of entries") : badge("forwards", "quiet", "Another process decides the order")],
    ["Tip", count(health.epoch)],
    ["Commits take", latency === null ? "none yet" : `${duration(latency)} on average`],
    ["Entries a batch", mean(found, "ringlog_batch_entries") === null ? null : mean(found, "ringlog_batch_entries").toFixed(1)],
    ["Waiting", count(level(found, "ringlog_queue_depth"))],
    ["Followers", count(level(found, "ringlog_followers"))],
    ["Snapshot", snapshot(found)],
  ]);
}

function snapshot(found) {
  const epoch = level(found, "ringlog_snapshot_epoch");
  if (epoch === null) return "none yet";
  const age = duration(level(found, "ringlog_snapshot_age_seconds"));
  return `epoch ${count(epoch)}, ${age} old, ${bytes(level(found, "ringlog_snapshot_size_bytes"))}`;
}

function memberTable() {
  return table({
    caption: "Members of the CMS",
    columns: [
      { title: "Name", sort: (member) => member.name, cell: (member) => member.name },
      { title: "Address", cell: (member) => h("span", { class: "mono" }, member.url) },
      { title: "State", sort: (member) => member.state, cell: (member) => badge(member.state, member.state === "active" ? "good" : "info") },
      { title: "Part", cell: (member) => (member.isSequencing ? badge("sequences", "accent", "It decided the newest entry") : "") },
    ],
    key: (member) => member.name,
    empty: empty(
      "The address book is empty",
      "Nodes then use the addresses they were started with; PrepareCmsReconfiguration adds members.",
    ),
  });
}

function countTable(caption, title, nothing) {
  return table({
    caption,
    columns: [
      { title, sort: ([name]) => name, cell: ([name]) => h("code", {}, name) },
      { title: "Times", isNumber: true, sort: ([, number]) => number, cell: ([, number]) => count(number) },
    ],
    key: ([name]) => name,
    rowsPage: 12,
    empty: h("p", { class: "muted" }, nothing),
  });
}

function reconfiguration(running) {
  if (!running) return null;
  const names = (list) => (list ?? []).map((item) => item.name ?? item).join(", ") || "nobody";
  return h(
    "div",
    { class: "notice" },
    h("p", {}, `A reconfiguration is under way: it adds ${names(running.add)} and removes ${names(running.remove)}.`),
  );
}

function pastNote(context) {
  const live = h("a", { href: context.href({ at: null }) }, "back to live");
  return h("p", { class: "muted" }, "Throughput and refusals are of this moment only; go ", live, " to see them.");
}
