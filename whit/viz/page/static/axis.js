// Time from left to right: what part of it is seen, zoom and pan, and the marks along the top.
import { duration } from "./format.js";
import { colour } from "./theme.js";

export const AXIS = 26; // height of the marks
const LEAST = 40; // nanoseconds across

export class Axis {
  /** From 0 to `end` nanoseconds, or events where `spell` says what to write. `left` is room for names. */
  constructor(end, left, surface, spell = null) {
    Object.assign(this, { end: Math.max(end, 1), left, surface, spell });
    this.from = 0;
    this.to = this.end;
  }

  get width() {
    return Math.max(1, this.surface.width - this.left - 8);
  }

  x(time) {
    return this.left + ((time - this.from) / (this.to - this.from)) * this.width;
  }

  time(x) {
    return this.from + ((x - this.left) / this.width) * (this.to - this.from);
  }

  /** Shows this part, and no more than there is. */
  set(from, to) {
    const span = Math.min(Math.max(to - from, this.spell ? 4 : LEAST), this.end * 1.02);
    this.from = Math.max(-this.end * 0.01, Math.min(from, this.end * 1.01 - span));
    this.to = this.from + span;
    this.surface.changed();
    this.onchange?.();
  }

  zoom(factor, x = this.left + this.width / 2) {
    const middle = this.time(Math.max(x, this.left));
    this.set(middle - (middle - this.from) / factor, middle + (this.to - middle) / factor);
  }

  pan(dx) {
    const shift = (-dx / this.width) * (this.to - this.from);
    this.set(this.from + shift, this.to + shift);
  }

  /** Wheel: zooms; with shift, or sideways, moves. */
  listen() {
    this.onwheel = (event) => {
      event.preventDefault();
      const step = event.deltaMode === 1 ? 30 : 1;
      const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (isSideways) this.pan(-(event.deltaX || event.deltaY) * step);
      else this.zoom(Math.exp(-Math.max(-80, Math.min(80, event.deltaY * step)) * 0.005), this.surface.place(event)[0]);
    };
    this.surface.canvas.addEventListener("wheel", this.onwheel, { passive: false });
  }

  ignore() {
    this.surface.canvas.removeEventListener("wheel", this.onwheel);
  }

  keys() {
    return [
      [["+", "=", "w"], "zoom in", () => this.zoom(1.6)],
      [["-", "s"], "zoom out", () => this.zoom(1 / 1.6)],
      [["ArrowLeft", "a"], "earlier", () => this.pan(this.width * 0.2)],
      [["ArrowRight", "d"], "later", () => this.pan(-this.width * 0.2)],
      [["f"], "all of it", () => this.set(0, this.end)],
    ];
  }

  draw(context, height) {
    const step = roundStep(((this.to - this.from) / this.width) * 110);
    // Far in, marks count from a round moment, which stands at the left.
    const big = roundStep((this.to - this.from) * 5);
    const base = this.from > big && !this.spell ? Math.floor(this.from / big) * big : 0;
    context.font = `11px ${colour("--sans")}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.lineWidth = 1;
    context.fillStyle = colour("--dim");
    if (base) context.fillText(`${mark(base, big)} +`, 12, AXIS / 2);
    const first = Math.ceil((Math.max(this.from, 0) - base) / step) * step + base;
    for (let time = first; time <= Math.min(this.to, this.end); time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      context.strokeStyle = colour("--line");
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = colour("--dim");
      const text = this.spell ? this.spell(time) : mark(time - base, step);
      if (x + 6 + context.measureText(text).width < this.left + this.width + 8) context.fillText(text, x + 4, AXIS / 2);
    }
  }
}

/** 1, 2 or 5 times a power of ten. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}

/** A time with as many digits as the marks need to differ. */
function mark(time, step) {
  const [unit, scale] = time < 1e3 ? ["ns", 1] : time < 1e6 ? ["µs", 1e3] : time < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / step) - 1e-9)));
  return time === 0 ? "0" : step >= scale ? duration(time) : `${(time / scale).toFixed(digits)} ${unit}`;
}
