// The figures of one CMS process, from the text that Prometheus reads.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** @returns {{name: string, labels: Record<string, string>, value: number}[]} */
export function samples(text) {
  return text
    .split("\n")
    .filter((line) => line && !line.startsWith("#"))
    .map((line) => LINE.exec(line))
    .filter(Boolean)
    .map(([, name, labels, value]) => ({ name, labels: labelled(labels ?? ""), value: Number(value) }));
}

/** The value of the one sample of that name, or null. */
export function level(found, name) {
  return found.find((sample) => sample.name === name)?.value ?? null;
}

/** [[label, value], …], the largest first. */
export function byLabel(found, name, label) {
  return found
    .filter((sample) => sample.name === name)
    .map((sample) => [sample.labels[label], sample.value])
    .sort(([, one], [, other]) => other - one);
}

/** The mean of a histogram, or null where nothing was observed. */
export function mean(found, name, labels = {}) {
  const total = (end) =>
    found
      .filter((sample) => sample.name === `${name}${end}`)
      .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
      .reduce((sum, sample) => sum + sample.value, 0);
  const number = total("_count");
  return number ? total("_sum") / number : null;
}

function labelled(text) {
  return Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value]) => [name, value.replace(/\\(.)/g, "$1")]));
}
