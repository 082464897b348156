// Entries of the log in order, as far as they are kept here.

import { count } from "../parts/format.js";

/**
 * @typedef {object} Seam
 * @property {number} epoch  entries up to it are no longer kept here
 * @property {string} archive  where they are
 */

/**
 * Entries behind `after`, up to `upTo`; `seam` is there where some of them are not kept any more.
 * @returns {Promise<{entries: object[], seam: Seam|null}>}
 */
export async function read(api, after, upTo, signal) {
  const entries = [];
  let seam = null;
  // An answer may stop early, where entries are large.
  while (after < upTo) {
    const query = { after, limit: upTo - after };
    try {
      const page = (await api.get("/v1/log", { query, signal })).entries;
      if (page.length === 0) break;
      entries.push(...page);
      after = page.at(-1).epoch;
    } catch (error) {
      seam = seamIn(error, after);
      if (!seam) throw error;
      after = seam.epoch;
    }
  }
  return { entries, seam };
}

/** One sentence. */
export function seamText({ epoch, archive }) {
  return `Entries up to epoch ${count(epoch)} are no longer kept here; they are in the archive ${archive}.`;
}

/** Where the log begins, if the problem is that it does so further on. */
function seamIn({ code, members }, after) {
  const epoch = members?.epoch;
  return code === "trimmed" && epoch > after ? { epoch, archive: members.archive } : null;
}
