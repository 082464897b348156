// The ring, drawn. However many ranges there are, no more parts are drawn than can be seen.

import { h } from "../parts/dom.js";
import { onTheme } from "../frame/theme.js";

const PARTS_MAX = 1440; // a quarter of a degree each
const GAPS_MAX = 240; // with more ranges the gaps between them would be all there is
const TURN = 2 * Math.PI;
const TOP = -Math.PI / 2;
const DIMMED = 0.22;
const SIZE_MIN = 100;

/**
 * @typedef {object} Drawing
 * @property {import("./ring_model.js").RingModel} model
 * @property {(node: object) => string} colourOf  the name of a custom property
 * @property {object[]} moving
 * @property {Set<number>|null} marked  nodes whose ranges stand out
 * @property {{from: number, to: number}|null} range  that stands out
 */

export class RingCanvas {
  /** @type {Drawing|null} */
  #drawing = null;
  #frame = null;
  #size = 0;
  #watch;

  /** @param {object} wiring  onHover(place|null, event), onPick(place, event): places from 0 to 1 */
  constructor({ onHover, onPick }) {
    this.canvas = h("canvas", { class: "ring-canvas", role: "img" });
    this.canvas.addEventListener("pointermove", (event) => onHover(this.#place(event), event));
    this.canvas.addEventListener("pointerleave", (event) => onHover(null, event));
    this.canvas.addEventListener("click", (event) => {
      const place = this.#place(event);
      if (place !== null) onPick(place, event);
    });
    this.#watch = new ResizeObserver(() => this.#soon());
    this.#watch.observe(this.canvas);
    this.forget = onTheme(() => this.#soon());
  }

  /** @param {Drawing} drawing */
  draw(drawing, label) {
    this.#drawing = drawing;
    this.canvas.setAttribute("aria-label", label);
    this.#soon();
  }

  close() {
    this.#watch.disconnect();
    this.forget();
    cancelAnimationFrame(this.#frame);
  }

  #soon() {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      if (this.#drawing) this.#paint(this.#drawing);
    });
  }

  #paint(drawing) {
    // Hidden, it has no size; the observer tells when it has one again.
    if (this.canvas.clientWidth < SIZE_MIN) return;
    const pen = this.#pen();
    const radii = this.#radii();
    const colours = new Colours(this.canvas);
    const { model } = drawing;
    if (model.tokens.length === 0) {
      arc(pen, radii.owners, 0, 1, { width: radii.thick, colour: colours.of("--line") });
      return;
    }
    this.#owners(pen, radii, drawing, colours);
    for (const range of drawing.moving) {
      const { width, colour } = MARKS[range.phase];
      arc(pen, radii.moving, ...visible(range), { width, colour: colours.of(colour) });
    }
    if (drawing.range) {
      const outside = radii.owners + radii.thick / 2 + 4;
      arc(pen, outside, ...visible(drawing.range), { width: 3, colour: colours.of("--text") });
    }
  }

  /** All parts of one colour are one path: few strokes, however many ranges. */
  #owners(pen, radii, { model, colourOf, marked }, colours) {
    const paths = new Map();
    for (const part of parts(model)) {
      const name = colourOf(part.owner);
      const isDimmed = marked !== null && !marked.has(part.owner?.id);
      const key = `${name} ${isDimmed}`;
      if (!paths.has(key)) paths.set(key, { path: new Path2D(), name, isDimmed });
      const { path } = paths.get(key);
      path.moveTo(...point(radii.owners, part.from));
      path.arc(0, 0, radii.owners, angle(part.from), angle(part.to));
    }
    pen.lineWidth = radii.thick;
    for (const { path, name, isDimmed } of paths.values()) {
      pen.globalAlpha = isDimmed ? DIMMED : 1;
      pen.strokeStyle = colours.of(name);
      pen.stroke(path);
    }
    pen.globalAlpha = 1;
    if (model.ends.length <= GAPS_MAX) gaps(pen, radii, model, colours.of("--surface"));
  }

  /** A clean sheet, its origin in the middle. */
  #pen() {
    const size = this.canvas.clientWidth;
    const scale = devicePixelRatio || 1;
    this.#size = size;
    this.canvas.width = Math.round(size * scale);
    this.canvas.height = Math.round(size * scale);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, (size * scale) / 2, (size * scale) / 2);
    return pen;
  }

  #radii() {
    const half = this.#size / 2;
    const thick = Math.max(18, half * 0.14);
    const owners = half - thick / 2 - 8;
    return { thick, owners, moving: owners - thick / 2 - 10 };
  }

  /** Where on the ring the pointer is, or null beside it. */
  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    const { thick, owners, moving: inner } = this.#radii();
    const distance = Math.hypot(x, y);
    if (distance > owners + thick / 2 + 8 || distance < inner - 10) return null;
    return (((Math.atan2(y, x) - TOP) / TURN) % 1 + 1) % 1;
  }
}

/** Neighbours of one owner become one, and what is too small to see goes to the largest nearby. */
function* parts(model) {
  const { ends } = model;
  const owners = model.owners.length;
  if (ends.length <= PARTS_MAX) {
    for (let index = 0; index < ends.length; index += 1) {
      const from = index === 0 ? 0 : ends[index - 1];
      yield { from, to: ends[index], owner: model.nodes.get(model.owners[index % owners]) };
    }
    return;
  }
  let index = 0;
  for (let part = 0; part < PARTS_MAX; part += 1) {
    const to = (part + 1) / PARTS_MAX;
    let widest = index;
    let width = 0;
    let from = part / PARTS_MAX;
    for (; index < ends.length; index += 1) {
      const end = Math.min(ends[index], to);
      if (end - from > width) [widest, width] = [index, end - from];
      from = end;
      if (ends[index] > to) break;
    }
    yield { from: part / PARTS_MAX, to, owner: model.nodes.get(model.owners[widest % owners]) };
  }
}

function gaps(pen, radii, { ends }, colour) {
  pen.lineWidth = ends.length < 60 ? 1.5 : 0.75;
  pen.strokeStyle = colour;
  pen.beginPath();
  for (const end of ends) {
    if (end === 1) continue;
    pen.moveTo(...point(radii.owners - radii.thick / 2, end));
    pen.lineTo(...point(radii.owners + radii.thick / 2, end));
  }
  pen.stroke();
}

/** How ranges being moved are marked; wider is further on. */
export const MARKS = {
  prepared: { width: 2, colour: "--muted" },
  written: { width: 6, colour: "--warn" },
  read: { width: 10, colour: "--accent" },
  finished: { width: 10, colour: "--good" },
  cancelled: { width: 6, colour: "--bad" },
};

/** However small a range is, a bit of it is seen. */
function visible({ from, to }) {
  const least = 0.0015;
  return to - from >= least ? [from, to] : [(from + to - least) / 2, (from + to + least) / 2];
}

function arc(pen, radius, from, to, { width, colour }) {
  pen.beginPath();
  pen.arc(0, 0, radius, angle(from), angle(to));
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke();
}

function angle(place) {
  return TOP + place * TURN;
}

function point(radius, place) {
  return [radius * Math.cos(angle(place)), radius * Math.sin(angle(place))];
}

/** Colours as the theme has them; asked for once per painting. */
class Colours {
  #known = new Map();
  #probe;

  constructor(canvas) {
    this.#probe = canvas;
  }

  of(name) {
    if (!this.#known.has(name)) {
      this.#probe.style.color = `var(${name})`;
      this.#known.set(name, getComputedStyle(this.#probe).color);
    }
    return this.#known.get(name);
  }
}
