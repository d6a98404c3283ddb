// The profiler: what ran when, on each queue of each device, and what the host did meanwhile.
import { Axis } from "./axis.js";
import { button, el, fill, splitter } from "./dom.js";
import { bytes, count, duration, place, plural } from "./format.js";
import { setKeys } from "./keys.js";
import { LaneChart } from "./lanes.js";
import { LongList } from "./list.js";
import { go, link, numberAfter } from "./router.js";
import { stackBlock } from "./stack.js";
import { get } from "./store.js";
import { Surface, pointer } from "./surface.js";
import { Table } from "./table.js";
import { hideTip, showTip } from "./tooltip.js";

const LEFT = 118;

class Timeline {
  constructor(data, overview, stacks) {
    Object.assign(this, { data, stacks });
    this.kernels = new Map(overview.kernels.map((row) => [Number(row.id.slice(1)), row]));
    this.schedules = new Map(overview.schedules.map((row) => [Number(row.id.slice(1)), row]));
    this.surface = new Surface((context, width, height) => this.chart.draw(context, width, height), "timeline");
    this.axis = new Axis(data.end, LEFT, this.surface);
    this.chart = new LaneChart(data, this.axis, (kernel) => this.kernels.get(kernel)?.called ?? `k${kernel}`);
    this.axis.listen();
    pointer(this.surface, {
      drag: (dx) => this.axis.pan(dx),
      click: (x, y) => this.choose(this.chart.at(x, y)),
      double: (x, y) => this.focusOn(this.chart.at(x, y)),
      hover: (x, y, event) => this.hover(this.chart.at(x, y), event),
      leave: () => hideTip(),
    });
    this.span = el("span", { class: "dim" });
    this.axis.onchange = () => this.said();
    this.runs = new LongList({ name: "runs", row: (i) => this.runRow(i), choose: (i) => this.showRun(i) });
    this.body = el("div", { class: "tab-body" });
    this.panel = el(
      "aside",
      { class: "panel right" },
      el("h4", { class: "panel-title" }, `${plural(data.runs.length, "run")} of schedules`),
      this.runs.element,
      this.body,
    );
    const toolbar = el(
      "div",
      { class: "toolbar" },
      button("All", "all of the recording", () => this.axis.set(0, data.end), "f"),
      button("−", "zoom out", () => this.axis.zoom(1 / 1.6), "-"),
      button("+", "zoom in", () => this.axis.zoom(1.6), "+"),
      button("Next run", "zoom to the next run", () => this.nextRun(1), "n"),
      el("span", { class: "grow" }),
      data.left_out > 0 && el("span", { class: "warning" }, `${count(data.left_out)} launches more are not shown`),
      this.span,
    );
    const stage = el(
      "div",
      { class: "stage plain lanes", style: { height: `${this.chart.wanted}px` } },
      this.surface.canvas,
    );
    this.seen = el("div", { class: "sums one" });
    this.element = el(
      "div",
      { class: "workspace" },
      el("section", { class: "middle" }, toolbar, stage, this.seen),
      splitter(this.panel, -1, "right"),
      this.panel,
    );
    this.runs.setLength(data.runs.length);
    this.run = -1;
    this.choose(null);
    this.said();
    setKeys("Timeline", [
      ...this.axis.keys(),
      [["n"], "zoom to the next run", () => this.nextRun(1)],
      [["p"], "zoom to the run before", () => this.nextRun(-1)],
      [["j"], "the launch after the one that is selected", () => this.step(1)],
      [["k"], "the launch before", () => this.step(-1)],
      [["Enter", "o"], "open the kernel that is selected", () => this.open()],
      [["Escape"], "select nothing", () => this.choose(null)],
    ]);
  }

  said() {
    fill(this.span, `${duration(this.axis.to - this.axis.from)} of ${duration(this.axis.end)}`);
    this.surface.canvas.dataset.span = Math.round(this.axis.to - this.axis.from);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.sum(), 80);
  }

  /** The kernels in view, by their time. */
  sum() {
    const found = new Map();
    let total = 1;
    const { start, ns, kernel } = this.data.launches;
    for (let i = 0; i < start.length; i++) {
      if (start[i] + ns[i] < this.axis.from || start[i] > this.axis.to) continue;
      const row = found.get(kernel[i]) || { number: kernel[i], launches: 0, ns: 0 };
      row.launches++;
      row.ns += ns[i];
      total += ns[i];
      found.set(kernel[i], row);
    }
    const name = (row) => `k${row.number} ${this.kernels.get(row.number)?.called ?? ""}`;
    const table = new Table(
      [
        { name: "kernel", left: true, text: name, value: (row) => row.number },
        { name: "launches", text: (row) => count(row.launches), value: (row) => row.launches },
        { name: "time", text: (row) => duration(row.ns), value: (row) => row.ns },
        {
          name: "share",
          text: (row) => `${((100 * row.ns) / total).toFixed(1)} %`,
          value: (row) => row.ns,
          mark: (row) => row.ns / total,
        },
        { name: "mean", text: (row) => duration(row.ns / row.launches), value: (row) => row.ns / row.launches },
      ],
      [...found.values()],
      { name: "kernels in view", sort: "time", link: (row) => link("kernel", row.number) },
    );
    const title = `${plural(found.size, "kernel")} in view: ${duration(total - 1)}`;
    fill(this.seen, el("h2", {}, title), el("div", { class: "table" }, table.element));
  }

  runRow(i) {
    const [schedule, stack] = this.data.runs[i];
    const [first, last] = this.chart.runs[i];
    return [
      el("span", { class: "number" }, count(i)),
      el(
        "span",
        { class: "rule-name" },
        `s${schedule} · ${plural(last - first, "kernel")} · ${place(this.stacks[stack])}`,
      ),
      el("span", { class: "dim" }, duration(this.chart.timeOf(first, last))),
    ];
  }

  showRun(i) {
    const [first, last] = this.chart.runs[i] ?? [0, 0];
    if (last === first) return;
    this.run = i;
    this.runs.choose(i);
    const { start, ns } = this.data.launches;
    const span = start[last - 1] + ns[last - 1] - start[first];
    this.axis.set(start[first] - span * 0.03, start[last - 1] + ns[last - 1] + span * 0.03);
  }

  nextRun(by) {
    this.showRun(Math.max(0, Math.min(this.data.runs.length - 1, this.run + by)));
  }

  step(by) {
    const at = this.chart.chosen;
    const inView = this.data.launches.start.findIndex((start) => start >= this.axis.from);
    const next = at?.kind === "launch" ? at.index + by : Math.max(0, inView);
    if (next < 0 || next >= this.data.launches.start.length) return;
    this.choose({ kind: "launch", index: next });
    const [start, end] = this.chart.spanOf({ kind: "launch", index: next });
    const half = (this.axis.to - this.axis.from) / 2;
    if (start < this.axis.from || end > this.axis.to) this.axis.set(start - half, start + half);
  }

  focusOn(item) {
    if (!item) return;
    const [start, end] = this.chart.spanOf(item);
    this.axis.set(start - (end - start) * 1.5, end + (end - start) * 1.5);
  }

  hover(item, event) {
    this.surface.canvas.style.cursor = item ? "pointer" : "grab";
    if (!item) return hideTip();
    const [start, end] = this.chart.spanOf(item);
    if (item.kind === "host") {
      const [, , what, number] = this.data.host[item.index];
      const name =
        what === "kernel" ? `compile k${number} ${this.kernels.get(number)?.called ?? ""}` : `schedule s${number}`;
      return showTip(event, name, [
        ["took", duration(end - start)],
        ["at", duration(start)],
      ]);
    }
    if (item.kind === "copy") {
      const { name, size, line } = this.copyFacts(item);
      return showTip(event, name, [
        ["took", duration(end - start)],
        ["at", duration(start)],
        ["moves", size],
        ["line", place(line)],
      ]);
    }
    const number = this.data.launches.kernel[item.index];
    const kernel = this.kernels.get(number);
    return showTip(event, this.chart.nameOfLaunch(item.index), [
      ["kernel", `k${number} ${kernel?.name ?? ""}`],
      ["took", duration(end - start)],
      ["at", duration(start)],
      ["moves", kernel ? bytes(kernel.bytes) : ""],
      ["line", place(this.stacks[this.data.runs[this.data.launches.run[item.index]][1]])],
    ]);
  }

  async choose(item) {
    this.chart.choose(item);
    this.surface.changed();
    if (!item)
      fill(this.body, el("p", { class: "empty" }, "Click a launch: its kernel, what it waits for, your line."));
    else if (item.kind === "host") fill(this.body, this.hostDetails(item));
    else if (item.kind === "copy") fill(this.body, this.copyDetails(item));
    else {
      const needs = await this.needsOf(item);
      if (this.chart.chosen !== item) return;
      this.chart.needs = needs.map((call) => this.firstOf(item) + call);
      this.surface.changed();
      fill(this.body, this.launchDetails(item, needs));
    }
  }

  hostDetails(item) {
    const [start, ns, what, number] = this.data.host[item.index];
    const row = (what === "kernel" ? this.kernels : this.schedules).get(number);
    return el(
      "div",
      { class: "details" },
      el("h3", {}, what === "kernel" ? `compile k${number} ${row?.name}` : `schedule s${number}`),
      el("p", {}, `${duration(ns)}, from ${duration(start)}. `, el("a", { href: link(what, number) }, "open it")),
      el("h4", {}, "your line"),
      stackBlock(this.stacks[row?.stack]),
    );
  }

  copyFacts(item) {
    const [lane, , ns, size, stack] = this.data.copies[item.index];
    const { device, queue } = this.data.lanes[lane];
    const speed = `${(size / Math.max(ns, 1)).toFixed(2)} GB/s`;
    return { name: `${device}: copy, ${queue}`, size: bytes(size), speed, line: this.stacks[stack] };
  }

  copyDetails(item) {
    const { name, size, speed, line } = this.copyFacts(item);
    const [start, end] = this.chart.spanOf(item);
    return el(
      "div",
      { class: "details" },
      el("h3", {}, name),
      el("p", {}, `${size} in ${duration(end - start)}, from ${duration(start)}: ${speed}`),
      el("h4", {}, "your line"),
      stackBlock(line),
    );
  }

  /** The launch of the first call of the same run. */
  firstOf(item) {
    return item.index - this.data.launches.call[item.index];
  }

  /** The calls that a launch waits for. */
  async needsOf(item) {
    const { launches, runs } = this.data;
    const [schedule] = runs[launches.run[item.index]];
    const found = await get(`schedule/${schedule}`).catch(() => ({ needs: [] }));
    const pairs = found.needs[launches.call[item.index]] || [];
    return [...new Set(pairs.map(([call]) => call))].sort((a, b) => a - b);
  }

  launchDetails(item, needs) {
    const { launches, runs } = this.data;
    const [schedule, stack] = runs[launches.run[item.index]];
    const number = launches.kernel[item.index];
    const kernel = this.kernels.get(number);
    const [start, end] = this.chart.spanOf(item);
    const speed = (amount) => (amount / Math.max(end - start, 1)).toFixed(2);
    const needed = (call) => {
      const index = this.firstOf(item) + call;
      const choose = () => this.choose({ kind: "launch", index });
      const text = `call ${call}: ${this.chart.nameOfLaunch(index)}`;
      return el("button", { type: "button", class: "edge", onclick: choose }, el("span", {}, text));
    };
    return el(
      "div",
      { class: "details" },
      el("h3", {}, this.chart.nameOfLaunch(item.index)),
      el("p", {}, el("a", { href: link("kernel", number) }, `k${number} ${kernel?.name ?? ""}`)),
      el(
        "p",
        {},
        `${duration(end - start)}, from ${duration(start)}. Call ${launches.call[item.index]} of `,
        el("a", { href: link("schedule", schedule) }, `s${schedule}`),
        ".",
      ),
      kernel && el("p", { class: "dim" }, `${speed(kernel.bytes)} GB/s, ${speed(kernel.ops)} GFLOP/s`),
      kernel && el("p", { class: "dim" }, `best of ${plural(kernel.runs, "run")}: ${duration(kernel.best_ns)}`),
      el("h4", {}, needs.length ? "waits for" : "waits for nothing in its run"),
      needs.map(needed),
      el("h4", {}, "your line"),
      stackBlock(this.stacks[stack]),
    );
  }

  open() {
    const item = this.chart.chosen;
    if (!item || item.kind === "copy") return;
    if (item.kind === "host") go(link(this.data.host[item.index][2], this.data.host[item.index][3]));
    else go(link("kernel", this.data.launches.kernel[item.index]));
  }

  /** #/timeline/kernel/3: the first launch of a kernel. */
  update(path) {
    const kernel = numberAfter(path, "kernel");
    const index = kernel === null ? -1 : this.data.launches.kernel.indexOf(kernel);
    if (index >= 0) {
      this.showRun(this.data.launches.run[index]);
      this.choose({ kind: "launch", index });
    }
  }

  close() {
    clearTimeout(this.later);
    hideTip();
    this.runs.close();
    this.surface.close();
  }
}

export async function timelineView(main, path) {
  const [data, overview, stacks] = await Promise.all([get("timeline"), get("overview"), get("stacks")]);
  const view = new Timeline(data, overview, stacks);
  main.append(view.element);
  view.update(path);
  return view;
}
