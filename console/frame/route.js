// What is seen, as the part of the address behind "#": #/ring?at=123&keyspace=shop

/**
 * @typedef {object} Route
 * @property {string} view
 * @property {number|null} at  the epoch, or null for live
 * @property {Record<string, string>} params  whatever else the view put into the address
 */

const EPOCH = /^\d{1,15}$/;

/** @returns {Route} */
export function parsed(hash, fallback) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const { at, ...params } = Object.fromEntries(new URLSearchParams(query));
  return { view: path || fallback, at: EPOCH.test(at ?? "") ? Number(at) : null, params };
}

/** The address of a route; parameters that are null or empty are left out. */
export function address({ view, at = null, params = {} }) {
  const query = new URLSearchParams();
  if (at !== null) query.set("at", String(at));
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

export function same(one, other) {
  return address(one) === address(other);
}
