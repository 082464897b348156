// The barrier before the due step: who votes, who has, and who is behind.

import { badge, card, nodeLink } from "../parts/cards.js";
import { h } from "../parts/dom.js";
import { count, counted } from "../parts/format.js";
import { nodeName } from "./sequences_words.js";

const GROUPS_SHOWN_MAX = 40;

export function barrierCard(context, view) {
  const { barrier } = view;
  if (!barrier || barrier.groups.length === 0) {
    return card("Barrier", { id: "barrier" }, h("p", {}, "No table is affected, so nobody is waited for."));
  }
  const lagging = view.laggards ?? [];
  return card(
    "Barrier",
    { id: "barrier", actions: [badge(barrier.passed ? "passed" : "not passed", barrier.passed ? "good" : "warn")] },
    h("p", { class: "muted" }, `Before ${view.due}, these have to have applied epoch ${count(barrier.epoch)} (${barrier.level}).`),
    h("ul", { class: "groups" }, barrier.groups.slice(0, GROUPS_SHOWN_MAX).map((group) => groupItem(context, group))),
    moreGroups(barrier.groups.length),
    lagging.length > 0 ? laggardList(context, lagging) : null,
  );
}

/** At a past epoch nobody knows how far nodes were; only who had to vote. */
export function votersCard(context, view) {
  if (view.voters.length === 0) {
    return card("Barrier", { id: "barrier" }, h("p", {}, "No table is affected, so nobody is waited for."));
  }
  return card(
    "Barrier",
    { id: "barrier" },
    h("p", { class: "muted" }, `Before ${view.due}, a majority of each group votes. How far nodes were is known of this moment only.`),
    h(
      "ul",
      { class: "groups" },
      view.voters.slice(0, GROUPS_SHOWN_MAX).map((group) =>
        h("li", { class: "group" }, h("span", { class: "voters" }, group.map((node) => h("span", { class: "voter" }, nodeLink(context, node))))),
      ),
    ),
    moreGroups(view.voters.length),
  );
}

function moreGroups(total) {
  const more = total - GROUPS_SHOWN_MAX;
  return more > 0 ? h("p", { class: "muted" }, `and ${counted(more, "more group", "more groups")}`) : null;
}

function groupItem(context, group) {
  const applied = new Set(group.applied);
  const missing = new Map(group.missing.map((voter) => [voter.node, voter]));
  const isEnough = group.all_of ? group.missing.length === 0 : applied.size >= group.needed;
  const wanted = group.all_of ? "all" : `${count(group.needed)} of ${count(group.group.length)}`;
  return h(
    "li",
    { class: "group" },
    h(
      "span",
      { class: "voters" },
      group.group.map((node) => voter(context, node, missing.get(node))),
    ),
    h("span", { class: `group-count ${isEnough ? "is-enough" : ""}` }, `${count(applied.size)} applied, ${wanted} needed`),
  );
}

function voter(context, node, missing) {
  const text = missing ? behindText(missing) : "has applied it";
  return h(
    "span",
    { class: `voter ${missing ? "is-missing" : "is-applied"}`, title: `${nodeName(node)} ${text}`, data: { node } },
    nodeLink(context, node),
    h("span", { class: "voter-mark" }, missing ? text : "✓"),
  );
}

function laggardList(context, lagging) {
  return h(
    "div",
    {},
    h("h3", {}, "Behind"),
    h(
      "ul",
      { class: "plain" },
      lagging.map((item) =>
        h(
          "li",
          {},
          nodeLink(context, item.node),
          ` is ${item.liveness}, ${behindText(item)}`,
          item.address ? h("span", { class: "muted" }, ` at ${item.address}`) : null,
          " ",
          item.blocking ? badge("holds it up", "bad") : badge("enough others voted", "quiet"),
        ),
      ),
    ),
  );
}

function behindText(item) {
  if (item.behind === null) return "has not reported";
  return item.behind > 0 ? `${counted(item.behind, "epoch")} behind` : "not drained yet";
}
