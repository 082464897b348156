// The ring as figures: who owns which part of it, and what is being moved. Nothing is drawn here.

const SPAN = 2 ** 64;
const LOWEST = -(2 ** 63);
export const MINIMUM = "-9223372036854775808";

/**
 * @typedef {object} RingModel
 * @property {Map<number, RingNode>} nodes  all of the directory
 * @property {string[]} tokens  ascending
 * @property {number[]} owners  by token
 * @property {Float64Array} ends  where each range ends, from 0 to 1; the last one ends at 1
 * @property {string[]} datacenters
 * @property {string[]} racks  as "datacenter / rack"
 */

/**
 * @typedef {object} RingNode
 * @property {number} id
 * @property {string} state
 * @property {string} datacenter
 * @property {string} rack  as "datacenter / rack"
 * @property {string} address
 * @property {number} tokens
 * @property {number} primary  the share of the ring that it is the first owner of
 */

/** Where a token stands on the ring, from 0 to 1. */
export function position(token) {
  return (Number(token) - LOWEST) / SPAN;
}

/** @returns {RingModel} */
export function ringModel(ring, directory) {
  const nodes = new Map(directory.nodes.map((node) => [node.id, ringNode(node)]));
  const tokens = ring.tokens.map((item) => item.token);
  const owners = ring.tokens.map((item) => item.node);
  const ends = new Float64Array(tokens.length ? tokens.length + 1 : 0);
  let start = 0;
  tokens.forEach((token, index) => {
    const end = position(token);
    ends[index] = end;
    counted(nodes.get(owners[index]), end - start, 1);
    start = end;
  });
  if (tokens.length) {
    // Behind the last token the first owner goes on; the ring is cut at the minimum.
    ends[tokens.length] = 1;
    counted(nodes.get(owners[0]), 1 - start, 0);
  }
  const values = [...nodes.values()];
  const datacenters = distinct(values.map((node) => node.datacenter));
  return { nodes, tokens, owners, ends, datacenters, racks: distinct(values.map((node) => node.rack)) };
}

/** The range at a place of the ring. */
export function rangeAt(model, place) {
  return rangeOf(model, indexAt(model, place));
}

/** The range by its right token, as the address names it; the minimum names the last one. */
export function rangeNamed(model, right) {
  if (right === MINIMUM) return model.tokens.length ? rangeOf(model, model.tokens.length) : null;
  const index = model.tokens.indexOf(right);
  return index < 0 ? null : rangeOf(model, index);
}

/** The node that owns a range first. */
export function ownerAt(model, index) {
  return model.nodes.get(model.owners[index % model.owners.length]);
}

function rangeOf(model, index) {
  const count = model.tokens.length;
  return {
    index,
    left: index === 0 ? MINIMUM : model.tokens[index - 1],
    right: index === count ? MINIMUM : model.tokens[index],
    from: index === 0 ? 0 : model.ends[index - 1],
    to: model.ends[index],
    owner: ownerAt(model, index),
  };
}

function indexAt({ ends }, place) {
  let low = 0;
  let high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** "simple:3" or "network:dc1=3,dc2=3": by what placements are named. */
export function placementKey(replication) {
  if (replication.strategy === "simple") return `simple:${replication.factor}`;
  const named = Object.entries(replication.factors)
    .filter(([, copies]) => copies)
    .sort(([one], [other]) => (one < other ? -1 : 1));
  return `network:${named.map(([name, copies]) => `${name}=${copies}`).join(",")}`;
}

/**
 * The ranges that sequences move in one placement, with who reads and writes them now.
 * @param {string|null} placement  null for all of them
 */
export function movingRanges(sequences, placement) {
  return sequences.flatMap((sequence) =>
    sequence.plans
      .filter((plan) => placement === null || plan.placement === placement)
      .flatMap((plan) => plan.changes.map((change) => movingRange(sequence, plan, change))),
  );
}

function movingRange(sequence, plan, change) {
  const steps = sequence.taken.map((item) => item.step);
  const { readers, writers } = sides(steps, change);
  const first = Math.max(0, position(change.left));
  const last = change.right === MINIMUM ? 1 : position(change.right);
  return {
    sequence: sequence.id,
    kind: sequence.kind,
    node: sequence.node,
    step: steps.at(-1),
    placement: plan.placement,
    left: change.left,
    right: change.right,
    from: first,
    to: last,
    readers,
    writers,
    gaining: change.after.filter((node) => !change.before.includes(node)),
    losing: change.before.filter((node) => !change.after.includes(node)),
    phase: phase(steps),
  };
}

/** Who reads and who writes after these steps; writes go ahead of reads. */
function sides(steps, { before, after }) {
  const both = [...before, ...after.filter((node) => !before.includes(node))];
  if (steps.includes("cancel")) return { readers: before, writers: steps.includes("start") ? both : before };
  if (steps.includes("finish")) return { readers: after, writers: after };
  if (steps.includes("mid")) return { readers: after, writers: both };
  if (steps.includes("start")) return { readers: before, writers: both };
  return { readers: before, writers: before };
}

function phase(steps) {
  if (steps.includes("cancel")) return "cancelled";
  if (steps.includes("finish")) return "finished";
  if (steps.includes("mid")) return "read";
  return steps.includes("start") ? "written" : "prepared";
}

export const PHASES = {
  prepared: "reserved; nothing moves yet",
  written: "written by old and new owners, read from the old",
  read: "read from the new owners, written by both",
  finished: "owned by the new; to be unlocked",
  cancelled: "going back to the old owners",
};

/** The part of the ring that each node reads and writes, by the ranges of one placement. */
export function shares(placement) {
  const found = new Map();
  const sum = (groups, side) => {
    for (const { left, right, owners } of groups) {
      const width = (right === MINIMUM ? 1 : position(right)) - position(left);
      for (const owner of owners) {
        const known = found.get(owner) ?? { reads: 0, writes: 0 };
        known[side] += width;
        found.set(owner, known);
      }
    }
  };
  sum(placement.reads, "reads");
  sum(placement.writes, "writes");
  return found;
}

function ringNode(node) {
  const rack = `${node.datacenter} / ${node.rack}`;
  const address = Object.values(node.addresses)[0] ?? "";
  return { ...node, rack, address, tokens: 0, primary: 0 };
}

function counted(node, width, tokens) {
  if (!node) return;
  node.primary += width;
  node.tokens += tokens;
}

function distinct(values) {
  return [...new Set(values)].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}
