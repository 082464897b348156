// What an entry says, in one line.

import { count, counted, listed } from "../parts/format.js";
import { stepOf } from "./sequences_history.js";

const KNOWN = {
  Initialize: (t) => `founds the cluster ${t.name}${t.image ? " from an image" : ""}`,
  TriggerSnapshot: () => "asks for a snapshot",
  ForceSnapshot: () => "replaces the metadata by an image",
  Register: (t, r) => `node ${r.node} at ${addresses(t)} in ${t.datacenter}, ${t.rack}`,
  Startup: (t) => `node ${t.node} starts at ${addresses(t)}, version ${t.version}`,
  Unregister: (t) => `node ${t.node} is forgotten`,
  AlterTopology: (t) => `${counted(Object.keys(t.locations).length, "node")} elsewhere`,
  CreateKeyspace: (t) => `keyspace ${t.name}, ${replication(t.replication)}`,
  AlterKeyspace: (t) => `keyspace ${t.name} becomes ${replication(t.replication)}`,
  DropKeyspace: (t) => `keyspace ${t.name} goes`,
  CreateTable: (t) => `table ${t.keyspace}.${t.name} with ${counted(t.columns.length, "column")}`,
  AlterTable: (t) => `table ${t.keyspace}.${t.name} gets other columns`,
  DropTable: (t) => `table ${t.keyspace}.${t.name} goes`,
  UnsafeJoin: (t) => `node ${t.node} takes ${counted(t.tokens.length, "token")} at once`,
  Assassinate: (t) => `node ${t.node} is removed at once`,
  PrepareJoin: (t) => `join of node ${t.node} with ${counted(t.tokens.length, "token")}`,
  PrepareLeave: (t) => `leave of node ${t.node}`,
  PrepareMove: (t) => `move of node ${t.node} to ${counted(t.tokens.length, "token")}`,
  PrepareReplace: (t) => `replace of node ${t.replaced} by node ${t.node}`,
  OpenSession: (t, r) => `session ${r.session ?? ""} for ${t.purpose} on ${nodes(t.nodes)}`,
  CloseSession: (t) => `session ${t.session} is over`,
  PrepareCmsReconfiguration: (t) => `CMS members: ${members(t)}`,
  AdvanceCmsReconfiguration: (t) => `CMS members, step ${t.step} of the change at epoch ${t.sequence}`,
  CancelCmsReconfiguration: (t) => `CMS members: the change at epoch ${t.sequence} is given up`,
  SetExtension: (t) => `${t.name} = ${cut(t.value)}`,
  ClearExtension: (t) => `${t.name} is cleared`,
};
const VALUE_CHARS_MAX = 60;

export function summary(entry) {
  const { transformation, result } = entry;
  const step = stepOf(entry);
  if (step && step.step !== "prepare") return stepText(step, transformation);
  return KNOWN[transformation.kind]?.(transformation, result ?? {}) ?? "";
}

/** The number of the sequence that an entry begins or carries on, or null. */
export function sequenceOf(entry) {
  return stepOf(entry)?.sequence ?? null;
}

function stepText({ sequence, step }, transformation) {
  const parts = [`${step} of sequence ${sequence}`];
  const applied = transformation.barrier?.applied ?? [];
  if (applied.length > 0) parts.push(`${nodes(applied)} had applied`);
  if (transformation.receipts?.length) parts.push(counted(transformation.receipts.length, "receipt"));
  return parts.join("; ");
}

function nodes(numbers) {
  const shown = numbers.slice(0, 4);
  const more = numbers.length - shown.length;
  const texts = shown.map((node) => `node ${node}`);
  if (more > 0) texts.push(`${count(more)} more`);
  return listed(texts);
}

function addresses({ addresses: found }) {
  return Object.values(found ?? {}).join(", ") || "no address";
}

function replication({ strategy, factor, factors }) {
  if (factors) {
    const each = Object.entries(factors).map(([datacenter, copies]) => `${copies} in ${datacenter}`);
    return `${strategy}, ${listed(each)}`;
  }
  return `${strategy}, ${counted(factor, "copy", "copies")}`;
}

function members({ add = [], remove = [] }) {
  const parts = [];
  if (add.length) parts.push(`${listed(add.map((item) => item.name))} added`);
  if (remove.length) parts.push(`${listed(remove)} removed`);
  return parts.join(", ");
}

function cut(text) {
  const value = String(text);
  return value.length > VALUE_CHARS_MAX ? `${value.slice(0, VALUE_CHARS_MAX)} …` : value;
}
