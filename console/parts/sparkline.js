// A small line of recent values.

import { svg } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 20;
const PADDING = 2;

/**
 * `update` takes numbers, oldest first; null leaves a gap. A stretched one is as wide as its place.
 * Its height stands for the largest value, or for `least` where all are smaller.
 */
export function sparkline({ label = "", isStretched = false, least = 1 } = {}) {
  const line = svg("path", { class: "sparkline-line", "vector-effect": "non-scaling-stroke" });
  const area = svg("path", { class: "sparkline-area" });
  const last = svg("circle", { class: "sparkline-last", r: 2 });
  const element = svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label, preserveAspectRatio: isStretched ? "none" : null },
    area,
    line,
    isStretched ? null : last,
  );
  return { element, update: (values, text = label) => draw({ element, line, area, last, least }, values, text) };
}

function draw({ element, line, area, last, least }, values, text) {
  element.setAttribute("aria-label", text);
  const known = values.filter((value) => value !== null && value !== undefined);
  last.setAttribute("visibility", known.length ? "visible" : "hidden");
  if (known.length === 0) {
    line.setAttribute("d", "");
    area.setAttribute("d", "");
    return;
  }
  const top = Math.max(least, ...known);
  const step = (WIDTH - 2 * PADDING) / Math.max(1, values.length - 1);
  const y = (value) => HEIGHT - PADDING - (value / top) * (HEIGHT - 2 * PADDING);
  const points = values
    .map((value, index) => [PADDING + index * step, value])
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([x, value]) => [x.toFixed(1), y(value).toFixed(1)]);
  const path = points.map(([x, high], index) => `${index ? "L" : "M"}${x} ${high}`).join("");
  line.setAttribute("d", path);
  area.setAttribute("d", `${path}L${points.at(-1)[0]} ${HEIGHT}L${points[0][0]} ${HEIGHT}Z`);
  last.setAttribute("cx", points.at(-1)[0]);
  last.setAttribute("cy", points.at(-1)[1]);
}
