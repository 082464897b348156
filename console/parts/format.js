// Figures as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percents = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const smallPercents = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 3, maximumFractionDigits: 3 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NONE = "–";

export function count(value) {
  return isFigure(value) ? whole.format(value) : NONE;
}

/** "1 node", "2 nodes". */
export function counted(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

export function share(fraction) {
  if (!isFigure(fraction)) return NONE;
  return fraction > 0 && fraction < 0.01 ? smallPercents.format(fraction) : percents.format(fraction);
}

export function rate(perSecond, unit) {
  return isFigure(perSecond) ? `${short.format(perSecond)} ${unit}/s` : NONE;
}

export function bytes(value) {
  if (!isFigure(value)) return NONE;
  let scaled = value;
  let unit = 0;
  while (scaled >= 1024 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(scaled) : short.format(scaled)} ${UNITS[unit]}`;
}

/** "850 ms", "12 s", "3 min 20 s", "2 h 5 min", "4 d 2 h". */
export function duration(seconds) {
  if (!isFigure(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${short.format(seconds)} s`;
  for (const [size, name, smaller, smallerName] of SPANS) {
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / smaller);
      return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${smallerName}` : ""}`;
    }
  }
  return NONE;
}

const SPANS = [
  [86_400, "d", 3_600, "h"],
  [3_600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

/** A moment in microseconds, as an entry has it, in the time of whoever looks. */
export function moment(microseconds) {
  if (!isFigure(microseconds)) return NONE;
  const at = new Date(microseconds / 1000);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Enough of a token to tell it from its neighbours. */
export function shortToken(token) {
  const digits = token.replace("-", "");
  const sign = token.startsWith("-") ? "−" : "";
  return digits.length > 7 ? `${sign}${digits.slice(0, 4)}…${digits.slice(-2)}` : `${sign}${digits}`;
}

/** (left, right] of a range, as short as tokens are. */
export function shortRange({ left, right }) {
  return `(${shortToken(left)}, ${shortToken(right)}]`;
}

/** A list as one reads it: "1, 2 and 3". */
export function listed(items) {
  const texts = items.map(String);
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

function isFigure(value) {
  return typeof value === "number" && Number.isFinite(value);
}
