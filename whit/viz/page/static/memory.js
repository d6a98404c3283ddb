// Memory over time: every buffer from when it came to when it went, one above the other; the peak, and who holds it.
import { Axis } from "./axis.js";
import { button, el, fill, splitter } from "./dom.js";
import { bytes, count, duration, place, plural } from "./format.js";
import { setKeys } from "./keys.js";
import { heap } from "./heap.js";
import { go, link } from "./router.js";
import { stackBlock } from "./stack.js";
import { get } from "./store.js";
import { Surface, pointer } from "./surface.js";
import { hideTip, showTip } from "./tooltip.js";

const LEFT = 84;

class Memory {
  constructor(data, device, stacks) {
    Object.assign(this, { device, stacks });
    this.surface = new Surface((context, width, height) => this.picture.draw(context, width, height), "memory");
    this.axis = new Axis(data.end, LEFT, this.surface);
    this.picture = heap(device, this.axis);
    this.axis.listen();
    pointer(this.surface, {
      drag: (dx) => this.axis.pan(dx),
      click: (x, y) => this.choose(this.picture.at(x, y, this.surface.height)),
      hover: (x, y, event) => this.hover(this.picture.at(x, y, this.surface.height), x, event),
      leave: () => hideTip(),
    });
    const other = (name) => el("a", { href: link("memory", name), class: name === device.device ? "chosen" : "" }, name);
    const toolbar = el(
      "div",
      { class: "toolbar" },
      data.devices.length > 1 && data.devices.map((one) => other(one.device)),
      button("All", "all of the recording", () => this.axis.set(0, data.end), "f"),
      button("Peak", "zoom to the peak", () => this.toPeak(), "p"),
      button("−", "zoom out", () => this.axis.zoom(1 / 1.6), "-"),
      button("+", "zoom in", () => this.axis.zoom(1.6), "+"),
      el("span", { class: "grow" }),
      device.left_out > 0 && el("span", { class: "dim" }, `${count(device.left_out)} smaller or shorter buffers are only part of the sum`),
    );
    this.body = el("div", { class: "tab-body" });
    this.panel = el("aside", { class: "panel right" }, this.body);
    this.element = el(
      "div",
      { class: "workspace" },
      el("section", { class: "middle" }, toolbar, el("div", { class: "stage plain" }, this.surface.canvas)),
      splitter(this.panel, -1, "right"),
      this.panel,
    );
    this.choose(null);
    setKeys("Memory", [
      ...this.axis.keys(),
      [["p"], "zoom to the peak", () => this.toPeak()],
      [["Escape"], "select nothing: the holders of the peak", () => this.choose(null)],
    ]);
  }

  toPeak() {
    const span = Math.max((this.axis.to - this.axis.from) / 4, 1000);
    this.axis.set(this.device.peak_ns - span / 2, this.device.peak_ns + span / 2);
  }

  hover(buffer, x, event) {
    this.surface.canvas.style.cursor = buffer ? "pointer" : "grab";
    const time = this.axis.time(x);
    if (x < LEFT) return hideTip();
    if (!buffer) return showTip(event, `${bytes(this.picture.amountAt(time))} in use`, [["at", duration(Math.max(time, 0))]]);
    const [start, end, size, type, role, stack] = buffer;
    return showTip(event, `${bytes(size)} ${type}`, [
      ["what", role],
      ["line", place(this.stacks[stack])],
      ["from", duration(start)],
      ["to", end < 0 ? "the end" : duration(end)],
    ]);
  }

  choose(buffer) {
    this.picture.chosen = buffer;
    this.surface.changed();
    fill(this.body, buffer ? this.bufferDetails(buffer) : this.peakDetails());
  }

  bufferDetails([start, end, size, type, role, stack, atPeak]) {
    const fact = (name, text) => text && [el("dt", {}, name), el("dd", {}, text)];
    return el(
      "div",
      { class: "details" },
      el("h3", {}, `${bytes(size)} ${type}`),
      el(
        "dl",
        { class: "facts" },
        fact("what", role),
        fact("from", duration(start)),
        fact("to", end < 0 ? "the end of the recording" : `${duration(end)}, after ${duration(end - start)}`),
        fact("at the peak", atPeak ? "yes" : "no"),
      ),
      el("h4", {}, "your line"),
      stackBlock(this.stacks[stack]),
      button("Holders of the peak", "select nothing", () => this.choose(null), "Esc"),
    );
  }

  peakDetails() {
    const { device } = this;
    const most = Math.max(1, device.peak_bytes);
    const row = (holder) =>
      el(
        "tr",
        {},
        el("td", {}, bytes(holder.bytes), el("i", { class: "bar", style: { width: `${(100 * holder.bytes) / most}%` } })),
        el("td", {}, count(holder.buffers)),
        el("td", { class: "left", title: `${holder.type} ${holder.what}` }, holder.type, el("div", { class: "dim" }, holder.what)),
        el("td", { class: "left" }, holder.line),
      );
    return el(
      "div",
      { class: "details" },
      el("h3", { class: "peak" }, `Peak: ${bytes(device.peak_bytes)}`),
      el("p", {}, `on ${device.device}, at ${duration(device.peak_ns)}, in ${plural(device.buffers_at_peak, "buffer")}; ${bytes(device.end_bytes)} at the end.`),
      device.before_bytes > 0 && el("p", { class: "dim" }, `${bytes(device.before_bytes)} of it from before the recording.`),
      el("h4", {}, "who holds it"),
      el(
        "table",
        { class: "holders" },
        el("thead", {}, el("tr", {}, ["bytes", "buffers"].map((name) => el("th", {}, name)), ["each", "line"].map((name) => el("th", { class: "left" }, name)))),
        el("tbody", {}, device.holders.map(row)),
      ),
    );
  }

  close() {
    hideTip();
    this.surface.close();
  }
}

export async function memoryView(main, path) {
  const [data, stacks] = await Promise.all([get("memory"), get("stacks")]);
  if (!data.devices.length) {
    main.append(el("p", { class: "empty" }, "No memory was allocated while this was recorded."));
    return {};
  }
  const largest = [...data.devices].sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  const device = data.devices.find((one) => one.device === path[1]) || largest;
  if (path[1] && device.device !== path[1]) go(link("memory"), true);
  const view = new Memory(data, device, stacks);
  main.append(view.element);
  return view;
}
