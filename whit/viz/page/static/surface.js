// A canvas that fills its place, sharp on every screen, and is drawn at most once a frame.
import { el } from "./dom.js";
import { onTheme } from "./theme.js";

/** Calls `draw(context, width, height)` when something was changed (`surface.changed()`), resized or recoloured. */
export class Surface {
  constructor(draw, name) {
    this.canvas = el("canvas", { tabindex: "0", "aria-label": name });
    this.context = this.canvas.getContext("2d");
    this.draw = draw;
    this.width = 0;
    this.height = 0;
    this.canvas.painted = { frames: 0, ms: 0 }; // for bench/page.py
    this.asked = false;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.forget = onTheme(() => this.changed());
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const box = this.canvas.getBoundingClientRect();
    if (!box.width || !box.height) return;
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.onresize?.();
    this.paint();
  }

  changed() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.asked = false;
    if (!this.width) return;
    const start = performance.now();
    const ratio = window.devicePixelRatio || 1;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.draw(this.context, this.width, this.height);
    this.canvas.painted.frames++;
    this.canvas.painted.ms += performance.now() - start;
  }

  /** Where a pointer is on the canvas. */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  close() {
    this.observer.disconnect();
    this.forget();
  }
}

/** Dragging and clicking on a surface: `drag(dx, dy)` while it is dragged, `click(x, y, event)` where it was not. */
export function pointer(surface, { drag, click, hover, leave, double }) {
  const { canvas } = surface;
  let last = null;
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    last = [event.clientX, event.clientY];
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (last) {
      const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
      moved += Math.abs(dx) + Math.abs(dy);
      last = [event.clientX, event.clientY];
      if (moved > 3) drag?.(dx, dy);
    } else {
      hover?.(...surface.place(event), event);
    }
  });
  const end = (event) => {
    if (last && moved <= 3 && event.type === "pointerup") click?.(...surface.place(event), event);
    last = null;
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => leave?.());
  if (double) canvas.addEventListener("dblclick", (event) => double(...surface.place(event), event));
}
