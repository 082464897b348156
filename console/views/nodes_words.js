// The words for nodes, and how much they hold.

export const STATES = {
  registered: "quiet",
  bootstrapping: "info",
  joined: "good",
  boot_replacing: "info",
  moving: "info",
  leaving: "warn",
  left: "quiet",
};

export const LIVENESS = {
  up: { tone: "good", text: "up" },
  late: { tone: "warn", text: "late" },
  down: { tone: "bad", text: "down" },
  unknown: { tone: "quiet", text: "unknown" },
};

/** Rows of all tables together, or null where a node tells of none. */
export function heldRows(node) {
  return sum(node, "rows");
}

export function heldBytes(node) {
  return sum(node, "bytes");
}

/** What a node reports of each of its tables: [[name, {rows, bytes}], …]. */
export function heldTables(node) {
  return Object.entries(node.data ?? {});
}

function sum(node, field) {
  if (!node.data) return null;
  const values = heldTables(node).map(([, held]) => held[field]);
  return values.reduce((total, value) => total + (Number(value) || 0), 0);
}
