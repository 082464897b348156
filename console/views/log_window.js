// A part of the log, newest first: one page of it, or what a search found in a bounded stretch.

import { read } from "./log_reading.js";
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
 * @property {import("./log_reading.js").Seam|null} seam  where what is kept begins, if that was met
 * @property {Set<number>} sequences  of the node that the filter names, as far as they were met
 */

export function filterOf({ kind = "", actor = "", node = "", keyspace = "" }) {
  return { kind: kind.trim(), actor: actor.trim(), node: node.trim(), keyspace: keyspace.trim() };
}

export function isFiltering(filter) {
  return Object.values(filter).some((value) => value !== "");
}

/**
 * The page that ends at `top`; where nothing of that is kept, the oldest one up to `newest` that is.
 * @returns {Promise<Page>}
 */
export async function readPage(api, { top, newest }, signal, rows = ROWS) {
  const { entries, seam } = await read(api, Math.max(0, top - rows), top, signal);
  const last = seam ? Math.min(newest, seam.epoch + rows) : top;
  if (seam && top <= seam.epoch && last > seam.epoch) {
    return { ...(await readPage(api, { top: last, newest }, signal, rows)), seam };
  }
  const from = Math.max(1, top - rows + 1, (seam?.epoch ?? 0) + 1);
  return { entries: entries.reverse(), top, from: Math.min(from, top), seam, sequences: new Set() };
}

/** What matches before and at `top`, until the page is full, enough was searched or no more is kept. */
export async function search(api, filter, top, signal) {
  const seen = [];
  let from = top + 1;
  let found = [];
  let seam = null;
  const sequences = new Set();
  while (from > 1 && !seam && top - from + 1 < SEARCHED_MAX && found.length < ROWS) {
    const after = Math.max(0, from - 1 - CHUNK);
    const part = await read(api, after, from - 1, signal);
    seen.push(...part.entries.reverse());
    seam = part.seam;
    from = Math.min(from, Math.max(after, seam?.epoch ?? 0) + 1);
    // A Prepare that is met later, further back, tells of steps that were met before.
    found = matching(seen, filter, sequences);
  }
  const entries = found.slice(0, ROWS);
  // A full page ends the search where its last match is.
  return { entries, top, from: found.length > ROWS ? entries.at(-1).epoch : Math.min(from, top), seam, sequences };
}

/** The page with entries on top that came since, oldest first. */
export function extended(page, news, filter, top) {
  const added = matching(news, filter, page.sequences).reverse();
  const entries = [...added, ...page.entries].slice(0, ROWS);
  const isCut = added.length + page.entries.length > ROWS;
  return { ...page, entries, top, from: isCut ? entries.at(-1).epoch : page.from };
}

/**
 * Steps of a sequence name it alone, so the node of its Prepare counts for them: `sequences` has
 * those that are known, and gets those that are met here.
 */
function matching(entries, filter, sequences) {
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
