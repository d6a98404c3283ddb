// Compile time as a flame graph: schedules and kernels, passes, rules. A click looks closer.
import { button, el, fill } from "./dom.js";
import { count, duration } from "./format.js";
import { setKeys } from "./keys.js";
import { go } from "./router.js";
import { get } from "./store.js";
import { Surface, pointer } from "./surface.js";
import { Table } from "./table.js";
import { colour, kernelColour } from "./theme.js";
import { hideTip, showTip } from "./tooltip.js";

const ROW = 26;

class Flame {
  constructor(data) {
    this.path = [data.tree];
    this.boxes = [];
    this.hovered = null;
    this.surface = new Surface((context, width) => this.draw(context, width), "compile time");
    pointer(this.surface, {
      click: (x, y) => this.zoom(this.at(x, y)),
      double: (x, y) => this.open(this.at(x, y)),
      hover: (x, y, event) => this.hover(this.at(x, y), event),
      leave: () => this.hover(null),
    });
    this.crumbs = el("nav", { class: "crumbs", "aria-label": "where" });
    this.link = el("span", {});
    const head = el(
      "div",
      { class: "toolbar" },
      button("Up", "look from further away", () => this.up(), "Backspace"),
      this.crumbs,
      el("span", { class: "grow" }),
      this.link,
    );
    const stage = el("div", { class: "stage plain flame" }, this.surface.canvas);
    this.element = el("div", { class: "workspace column" }, head, stage, sums(data));
    this.say();
    setKeys("Compile time", [
      [["Backspace", "Escape", "u", "ArrowUp"], "look from further away", () => this.up()],
      [["ArrowDown", "j"], "look at the largest part", () => this.zoom(this.largest())],
      [["Enter", "o"], "open the kernel or schedule", () => this.open({ path: this.path })],
    ]);
  }

  get node() {
    return this.path[this.path.length - 1];
  }

  largest() {
    const parts = [...this.node[2]].sort((a, b) => b[1] - a[1]);
    return parts.length ? { path: [...this.path, parts[0]] } : null;
  }

  say() {
    const crumb = (node, i) =>
      el("button", { type: "button", onclick: () => this.zoom({ path: this.path.slice(0, i + 1) }) }, node[0]);
    fill(this.crumbs, this.path.map(crumb));
    const address = this.node[3];
    fill(
      this.link,
      el("span", { class: "dim" }, `${duration(this.node[1])} `),
      address ? el("a", { href: `#/${address}` }, "open it") : "",
    );
    this.surface.canvas.dataset.depth = this.path.length;
    this.surface.changed();
  }

  zoom(box) {
    if (!box) return;
    this.path = box.path;
    this.say();
  }

  up() {
    if (this.path.length > 1) this.zoom({ path: this.path.slice(0, -1) });
  }

  open(box) {
    const linked = box && [...box.path].reverse().find((node) => node[3]);
    if (linked) go(`#/${linked[3]}`);
  }

  at(x, y) {
    return this.boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + ROW) || null;
  }

  hover(box, event) {
    this.surface.canvas.style.cursor = box ? "pointer" : "default";
    const node = box ? box.path[box.path.length - 1] : null;
    if (node && event) {
      const share = (of) => `${((100 * node[1]) / Math.max(of[1], 1)).toFixed(1)} %`;
      showTip(event, node[0], [
        ["time", duration(node[1])],
        ["of all", share(this.path[0])],
        ["of above", box.path.length > 1 ? share(box.path[box.path.length - 2]) : ""],
      ]);
    } else hideTip();
    if (this.hovered === node) return;
    this.hovered = node;
    this.surface.changed();
  }

  draw(context, width) {
    this.boxes = [];
    context.textBaseline = "middle";
    context.textAlign = "left";
    this.path.forEach((node, i) => this.box(context, this.path.slice(0, i + 1), 12, i, width - 24));
    this.parts(context, this.path, 12, width - 24, this.path.length);
  }

  parts(context, path, x, width, depth) {
    const node = path[path.length - 1];
    if (!node[1]) return;
    let left = x;
    for (const part of [...node[2]].sort((a, b) => b[1] - a[1])) {
      const wide = (part[1] / node[1]) * width;
      if (wide < 0.6) break;
      const inner = [...path, part];
      this.box(context, inner, left, depth, wide);
      this.parts(context, inner, left, wide, depth + 1);
      left += wide;
    }
  }

  box(context, path, x, depth, width) {
    const node = path[path.length - 1];
    const y = 12 + depth * ROW;
    this.boxes.push({ x, y, width, path });
    const isAbove = depth < this.path.length - 1;
    context.fillStyle = node === this.hovered ? colour("--accent-soft") : tint(path);
    context.globalAlpha = isAbove ? 0.55 : 1;
    context.fillRect(x, y, Math.max(width - 1, 0.5), ROW - 2);
    context.globalAlpha = 1;
    if (width < 32) return;
    context.save();
    context.beginPath();
    context.rect(x, y, width - 4, ROW);
    context.clip();
    context.fillStyle = colour(node === this.hovered ? "--ink" : "--on-span");
    context.font = `11.5px ${colour("--mono")}`;
    context.fillText(`${node[0]}  ${duration(node[1])}`, x + 6, y + ROW / 2 - 1);
    context.restore();
  }

  close() {
    hideTip();
    this.surface.close();
  }
}

/** Kernels have their own colour, with all that is in them. */
function tint(path) {
  const owner = /^kernel\/(\d+)/.exec(path.find((node) => node[3].startsWith("kernel/"))?.[3] ?? "");
  if (owner) return kernelColour(Number(owner[1]), Math.max(0.4, 1.3 - path.length * 0.15));
  return colour(path.length <= 2 ? "--lane-strong" : "--lane-mid");
}

/** The same time by pass and by rule, of all kernels and schedules together. */
function sums(data) {
  const total = Math.max(1, data.total_ns);
  const longest = Math.max(1, ...data.rules.map((row) => row.ns));
  const passes = new Table(
    [
      { name: "pass", left: true, text: (row) => row.phase, value: (row) => row.phase },
      { name: "time", text: (row) => duration(row.ns), value: (row) => row.ns },
      {
        name: "share",
        text: (row) => `${((100 * row.ns) / total).toFixed(1)} %`,
        value: (row) => row.ns,
        mark: (row) => row.ns / total,
      },
      { name: "rewrites", text: (row) => count(row.rewrites), value: (row) => row.rewrites },
    ],
    data.phases,
    { name: "passes", link: () => null },
  );
  const rules = new Table(
    [
      { name: "rule", left: true, text: (row) => row.rule, value: (row) => row.rule },
      { name: "where", left: true, text: (row) => row.where, value: (row) => row.where },
      { name: "time", text: (row) => duration(row.ns), value: (row) => row.ns, mark: (row) => row.ns / longest },
      { name: "hits", text: (row) => count(row.hits), value: (row) => row.hits },
      { name: "attempts", text: (row) => count(row.attempts), value: (row) => row.attempts },
    ],
    data.rules,
    { name: "rules", link: () => null, sort: "time" },
  );
  const section = (title, table) =>
    el("section", {}, el("h2", {}, title), el("div", { class: "table" }, table.element));
  return el("div", { class: "sums" }, section("By pass", passes), section("By rule", rules));
}

export async function flameView(main) {
  const data = await get("compile");
  if (!data.tree[1]) {
    main.append(el("p", { class: "empty" }, "Nothing was compiled while this was recorded."));
    return {};
  }
  const view = new Flame(data);
  main.append(view.element);
  return view;
}
