// The graph view: a scene on a canvas. Zoom, pan, hover, select, search, follow edges. Only what is seen is drawn.
import { arrange } from "./arrange.js";
import { WORDS, paintEdges, paintNodes } from "./paint.js";
import { label } from "./scene.js";
import { Surface, pointer } from "./surface.js";
import { hideTip, showTip } from "./tooltip.js";

const LETTER = 7.25; // width of a letter in a label
const ROOM = 24; // around the graph when it fits the view
const READABLE = 0.6; // a scale at which words are easily read
const LEAST = 0.01;
const MOST = 4;

export class GraphView {
  /** `on`: select(node), open(node) for a double click, placed() when a scene can be seen. */
  constructor(on = {}) {
    this.on = on;
    this.scene = { nodes: [], index: new Map(), pairs: [] };
    this.placed = null;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.selected = null;
    this.hovered = null;
    this.found = new Set();
    this.surface = new Surface((context, width, height) => this.draw(context, width, height), "graph");
    this.surface.onresize = () => this.waitsForSize && this.home();
    this.canvas = this.surface.canvas;
    pointer(this.surface, {
      drag: (dx, dy) => this.move(dx, dy),
      click: (x, y) => this.select(this.at(x, y)?.id ?? null),
      double: (x, y) => this.at(x, y) && this.on.open?.(this.at(x, y)),
      hover: (x, y, event) => this.hover(this.at(x, y), event),
      leave: () => this.hover(null),
    });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** Shows a scene. `focus`: ids that should be seen; without them all of it is. */
  async show(scene, { focus = null, keep = false } = {}) {
    const ticket = (this.ticket = (this.ticket || 0) + 1);
    const widths = new Float64Array(scene.nodes.length);
    scene.nodes.forEach((item, i) => {
      item.label = label(item);
      widths[i] = Math.max(64, Math.max(item.label.length * LETTER, item.type.length * 6.1) + 22);
    });
    const placed = await arrange(scene.nodes.length, widths, Int32Array.from(scene.pairs));
    if (ticket !== this.ticket) return; // another scene came in between
    const anchor = keep ? this.anchor(scene, placed) : null;
    this.scene = scene;
    this.placed = { ...placed, widths, rows: rowsOf(placed, widths) };
    this.hovered = null;
    if (this.selected !== null && !scene.index.has(this.selected)) this.selected = null;
    if (anchor) [this.x, this.y] = anchor;
    else this.home(focus);
    this.canvas.dataset.nodes = scene.nodes.length;
    this.surface.changed();
    this.on.placed?.();
  }

  /** Where the view must be so that what is selected stays where it is on the screen. */
  anchor(scene, placed) {
    const before = this.scene.index.get(this.selected);
    const after = scene.index.get(this.selected);
    if (before === undefined || after === undefined || !this.placed) return null;
    const [dx, dy] = [this.placed.x[before] - placed.x[after], this.placed.y[before] - placed.y[after]];
    return [this.x + dx * this.scale, this.y + dy * this.scale];
  }

  // ---- the view

  home(focus = this.focus) {
    this.focus = focus;
    this.waitsForSize = !this.surface.width;
    if (!this.placed || !this.surface.width || !this.scene.nodes.length) return;
    const { width, height } = this.surface;
    const fit = ([left, top, right, bottom]) =>
      Math.min((width - 2 * ROOM) / (right - left), (height - 2 * ROOM) / (bottom - top));
    let box = this.bounds(this.scene.nodes.keys());
    let scale = fit(box);
    const wanted = (focus || []).map((id) => this.scene.index.get(id)).filter((i) => i !== undefined);
    if (wanted.length && scale < READABLE) {
      box = this.bounds(wanted);
      scale = Math.max(WORDS, Math.min(fit(box), 0.85));
    }
    this.scale = Math.min(scale, 1.25);
    const [left, top, right, bottom] = box;
    this.x = width / 2 - ((left + right) / 2) * this.scale;
    this.y = height / 2 - ((top + bottom) / 2) * this.scale;
    this.surface.changed();
  }

  bounds(indices) {
    let box = null;
    for (const i of indices) {
      const { x, y, widths, nodeHeight } = this.placed;
      const one = [x[i] - widths[i] / 2, y[i], x[i] + widths[i] / 2, y[i] + nodeHeight];
      box = box
        ? [Math.min(box[0], one[0]), Math.min(box[1], one[1]), Math.max(box[2], one[2]), Math.max(box[3], one[3])]
        : one;
    }
    return box;
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.surface.changed();
  }

  wheel(event) {
    event.preventDefault();
    const step = event.deltaMode === 1 ? 30 : 1;
    this.zoom(Math.exp(-Math.max(-80, Math.min(80, event.deltaY * step)) * 0.004), ...this.surface.place(event));
  }

  zoom(factor, x = this.surface.width / 2, y = this.surface.height / 2) {
    const scale = Math.max(LEAST, Math.min(MOST, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.surface.changed();
  }

  /** Brings a node to the middle, large enough to be read. */
  reveal(id) {
    const i = this.scene.index.get(id);
    if (i === undefined || !this.placed) return;
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.surface.width / 2 - this.placed.x[i] * this.scale;
    this.y = this.surface.height / 2 - (this.placed.y[i] + this.placed.nodeHeight / 2) * this.scale;
    this.surface.changed();
  }

  // ---- nodes

  node(id) {
    return this.scene.nodes[this.scene.index.get(id)];
  }

  at(sx, sy) {
    if (!this.placed) return null;
    const [x, y] = [(sx - this.x) / this.scale, (sy - this.y) / this.scale];
    const { rows, nodeHeight } = this.placed;
    const row = rows.find((one) => y >= one.top && y <= one.top + nodeHeight);
    if (!row) return null;
    const i = row.items.find((item) => Math.abs(this.placed.x[item] - x) <= this.placed.widths[item] / 2);
    return i === undefined ? null : this.scene.nodes[i];
  }

  select(id, reveal = false) {
    this.selected = id;
    if (reveal && id !== null) this.reveal(id);
    this.surface.changed();
    this.on.select?.(id === null ? null : this.node(id));
  }

  /** To a source (-1) or a user (1) of what is selected; again: to the next one of the same. */
  follow(direction) {
    const item = this.selected === null ? null : this.node(this.selected);
    if (!item) return this.scene.nodes.length && this.select(this.scene.nodes[0].id, true);
    const near = direction < 0 ? item.sources.filter((id) => this.scene.index.has(id)) : item.users;
    if (near.length) this.select(near[0], true);
  }

  /** To the node beside it in its layer. */
  beside(direction) {
    const i = this.scene.index.get(this.selected);
    const row = i === undefined ? null : this.placed.rows.find((one) => one.items.includes(i));
    const next = row?.items[row.items.indexOf(i) + direction];
    if (next !== undefined) this.select(this.scene.nodes[next].id, true);
  }

  hover(item, event) {
    this.canvas.style.cursor = item ? "pointer" : "grab";
    if (item && event) {
      showTip(event, item.title || (item.callee ? `call ${item.callee}` : `${item.op} ${item.detail}`), [
        ["name", item.name],
        ["type", item.kernel === undefined ? item.type : ""],
        ["values", item.range],
        ["argument", item.argument],
        [
          item.kernel === undefined ? "" : `k${item.kernel}`,
          item.callee ? "double click opens the kernel, c shows it here" : "",
        ],
      ]);
    } else hideTip();
    if ((item?.id ?? null) === this.hovered) return;
    this.hovered = item?.id ?? null;
    this.surface.changed();
  }

  /** Marks nodes that have all these words; gives their ids. */
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (item) => {
      const all = `${item.name} ${item.op} ${item.detail} ${item.type} ${item.callee || ""} ${item.title || ""}`.toLowerCase();
      return words.every((word) => all.includes(word));
    };
    this.found = new Set(words.length ? this.scene.nodes.filter(has).map((item) => item.id) : []);
    this.surface.changed();
    return [...this.found];
  }

  draw(context, width, height) {
    if (!this.placed) return;
    const view = {
      left: -this.x / this.scale,
      top: -this.y / this.scale,
      right: (width - this.x) / this.scale,
      bottom: (height - this.y) / this.scale,
    };
    context.save();
    context.translate(this.x, this.y);
    context.scale(this.scale, this.scale);
    paintEdges(context, this, view);
    paintNodes(context, this, view);
    context.restore();
  }

  close() {
    hideTip();
    this.surface.close();
  }
}

/** Layers with their nodes from left to right: for drawing and for finding. */
function rowsOf(placed, widths) {
  const rows = new Map();
  placed.y.forEach((top, i) => {
    if (!rows.has(top)) rows.set(top, { top, items: [] });
    rows.get(top).items.push(i);
  });
  const list = [...rows.values()].sort((a, b) => a.top - b.top);
  for (const row of list) {
    row.items.sort((a, b) => placed.x[a] - placed.x[b]);
    row.widest = row.items.reduce((most, i) => Math.max(most, widths[i]), 0);
  }
  return list;
}
