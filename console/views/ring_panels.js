// What is known of one node or one range of the ring.

import { h } from "../parts/dom.js";
import { badge, card, facts, nodeLink } from "../parts/cards.js";
import { count, counted, share } from "../parts/format.js";
import { MINIMUM, PHASES, position, rangeAt, rangeNamed } from "./ring_model.js";
import { sequenceLink, writersOf } from "./ring_tables.js";

const TOKENS_MAX = 64;

/** What is known of what the address names, as a value, or null. */
export async function chosenOf(context, chosen) {
  const { at, params } = chosen.moment;
  const found = params.node ? nodeOf(chosen, Number(params.node)) : params.token ? await rangeOf(context, chosen, params.token) : null;
  return found && { ...found, at, params };
}

/** The card for that. */
export function chosenPanel(context, chosen) {
  if (chosen === null) return null;
  return chosen.id === undefined ? rangePanel(context, chosen) : nodePanel(context, chosen);
}

function nodeOf({ model, moving, moment }, id) {
  const node = model.nodes.get(id);
  if (!node) return { id, epoch: moment.epoch };
  const { state, address, rack, primary } = node;
  const tokens = model.tokens.filter((_, index) => model.owners[index] === id);
  const own = moving.filter((range) => range.gaining.includes(id) || range.losing.includes(id));
  return { id, node: { state, address, rack, primary }, tokens, moving: own.length };
}

function nodePanel(context, { id, epoch, node, tokens, moving }) {
  if (!node) {
    return card(`Node ${id}`, { actions: [closeLink(context)] }, h("p", {}, `There is no node ${id} at epoch ${epoch}.`));
  }
  return card(
    `Node ${id}`,
    { actions: [nodeLink(context, id, "All of this node"), closeLink(context)] },
    facts([
      ["State", badge(node.state, node.state === "joined" ? "good" : "warn")],
      ["Address", node.address],
      ["Datacenter / rack", node.rack],
      ["Primary of", share(node.primary)],
      ["Moving", moving ? `${counted(moving, "range")} to or from it` : null],
      ["Tokens", tokenList(context, tokens)],
    ]),
  );
}

function tokenList(context, tokens) {
  if (tokens.length === 0) return "none";
  const { params } = context.route();
  const more = tokens.length - TOKENS_MAX;
  return h(
    "details",
    {},
    h("summary", {}, count(tokens.length)),
    h(
      "ul",
      { class: "tokens mono" },
      tokens.slice(0, TOKENS_MAX).map((token) => {
        const href = context.href({ params: { ...params, node: null, token } });
        return h("li", {}, h("a", { href }, token));
      }),
      more > 0 ? h("li", {}, `and ${count(more)} more`) : null,
    ),
  );
}

async function rangeOf(context, { model, moving, keyspace, moment }, token) {
  const place = token === MINIMUM ? 1 : position(token);
  if (!Number.isFinite(place) || model.tokens.length === 0) return { range: null };
  const whole = rangeNamed(model, token) ?? rangeAt(model, place);
  // A move may have split the range: then the part that is meant is shown.
  const part = moving.find((range) => range.right === token) ?? null;
  const { left, right, from, to } = part ?? whole;
  const owners = keyspace ? await ownersOf(context, moment, keyspace.name, token) : null;
  return {
    range: { left, right, part: to - from },
    primary: whole.owner?.id ?? null,
    keyspace: keyspace?.name ?? null,
    owners: owners && { readers: owners.readers, writers: owners.writers },
    moved: part && { sequence: part.sequence, kind: part.kind, phase: part.phase },
  };
}

function rangePanel(context, { range, primary, keyspace, owners, moved }) {
  if (!range) {
    return card("Range", { actions: [closeLink(context)] }, h("p", {}, "There is no such range at this epoch."));
  }
  return card(
    "Range",
    { actions: [closeLink(context)] },
    facts([
      ["From, not with", h("span", { class: "mono" }, range.left)],
      ["To, and with", h("span", { class: "mono" }, range.right)],
      ["Part of the ring", share(range.part)],
      ["Primary", primary === null ? "nobody" : nodeLink(context, primary)],
      ["Keyspace", keyspace ?? "none yet"],
      ["Readers", owners && nodeList(context, owners.readers)],
      ["Writers", owners && writersOf(owners)],
      ["Moved by", moved && sequenceLink(context, moved)],
      ["Which is", moved && PHASES[moved.phase]],
    ]),
  );
}

/** At the epoch that the rest of the view shows, also when it is live. */
function ownersOf(context, moment, keyspace, token) {
  const settled = { ...moment, at: moment.at ?? moment.epoch };
  return context.api.at("/v1/owners", settled, { keyspace, token });
}

function nodeList(context, nodes) {
  if (nodes.length === 0) return "nobody";
  return nodes.map((node, index) => [index ? ", " : "", nodeLink(context, node, String(node))]);
}

function closeLink(context) {
  const { node, token, ...params } = context.route().params;
  return h("a", { class: "button button-quiet", href: context.href({ params }) }, "Close");
}
