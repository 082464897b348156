// A part of the log, newest first: one page of it, or what a search found in a bounded stretch.

import { sequenceOf } from "./log_words.js";

export const ROWS = 100;
export const ROWS_SLIDING = 30; // what is passed by is not read to its end
export const SEARCHED_MAX = 5_000;
const CHUNK = 1_000;

/**
 * @typedef {object} Filter
 * @property {string} kind  a part of the kind, in any case
 * @property {string} actor  a part of it
 * @property {string} node  a number
 * @property {string} keyspace
 *
 * @typedef {object} Page
 * @property {object[]} entries  newest first
 * @property {number} top  the newest epoch that was looked at
 * @property {number} from  the oldest
 */

export function filterOf({ kind = "", actor = "", node = "", keyspace = "" }) {
  return { kind: kind.trim(), actor: actor.trim(), node: node.trim(), keyspace: keyspace.trim() };
}

export function isFiltering(filter) {
  return Object.values(filter).some((value) => value !== "");
}

/** The page that ends at `top`. @returns {Promise<Page>} */
export async function readPage(api, top, signal, rows = ROWS) {
  const entries = await read(api, Math.max(0, top - rows), top, signal);
  return { entries: entries.reverse(), top, from: Math.max(1, top - rows + 1) };
}

/** What matches before and at `top`, until the page is full or enough was searched. */
export async function search(api, filter, top, signal) {
  const seen = [];
  let from = top + 1;
  let found = [];
  while (from > 1 && top - from + 1 < SEARCHED_MAX && found.length < ROWS) {
    const after = Math.max(0, from - 1 - CHUNK);
    seen.push(...(await read(api, after, from - 1, signal)).reverse());
    from = after + 1;
    found = matching(seen, filter);
  }
  const entries = found.slice(0, ROWS);
  // A full page ends the search where its last match is.
  return { entries, top, from: found.length > ROWS ? entries.at(-1).epoch : from };
}

/** Steps of a sequence name it alone, so the node of its Prepare counts for them. */
export function matching(entries, filter) {
  const sequences = new Set();
  if (filter.node) {
    for (const entry of entries) {
      if (entry.kind.startsWith("Prepare") && concerns(entry, filter.node)) sequences.add(entry.epoch);
    }
  }
  return entries.filter((entry) => matches(entry, filter, sequences));
}

function matches(entry, { kind, actor, node, keyspace }, sequences) {
  if (kind && !entry.kind.toLowerCase().includes(kind.toLowerCase())) return false;
  if (actor && !(entry.actor ?? "").toLowerCase().includes(actor.toLowerCase())) return false;
  if (node && !concerns(entry, node) && !sequences.has(sequenceOf(entry))) return false;
  return !keyspace || keyspaceOf(entry) === keyspace;
}

function concerns({ transformation, result }, node) {
  const named = [
    transformation.node,
    transformation.replaced,
    result?.node,
    ...(transformation.nodes ?? []),
    ...(transformation.dead ?? []),
    ...Object.keys(transformation.locations ?? {}),
  ];
  return named.some((item) => item !== undefined && item !== null && String(item) === node);
}

function keyspaceOf({ kind, transformation }) {
  return kind.endsWith("Keyspace") ? transformation.name : transformation.keyspace;
}

async function read(api, after, upTo, signal) {
  const entries = [];
  // An answer may stop early, where entries are large.
  while (after < upTo) {
    const query = { after, limit: upTo - after };
    const page = (await api.get("/v1/log", { query, signal })).entries;
    if (page.length === 0) break;
    entries.push(...page);
    after = page.at(-1).epoch;
  }
  return entries;
}
