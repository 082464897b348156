// Light or dark: what the system says, until somebody says otherwise here.

const KEPT_AS = "ringlog.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const told = new Set();

/** Call before anything is drawn. */
export function startTheme() {
  const kept = localStorage.getItem(KEPT_AS);
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  dark.addEventListener("change", tell);
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

export function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(KEPT_AS, next);
  tell();
}

/** Whoever draws by hand has to draw again; gives what ends that. */
export function onTheme(listener) {
  told.add(listener);
  return () => told.delete(listener);
}

function tell() {
  for (const listener of told) listener();
}
