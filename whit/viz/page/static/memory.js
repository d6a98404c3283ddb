// Memory over time: every buffer from when it came to when it went, one above the other; the peak, and who holds it.
import { Axis } from "./axis.js";
import { button, el, fill, recall, remember, splitter } from "./dom.js";
import { bytes, count, duration, place, plural } from "./format.js";
import { setKeys } from "./keys.js";
import { byEvent, byTime, heap } from "./heap.js";
import { go, link } from "./router.js";
import { stackBlock } from "./stack.js";
import { get } from "./store.js";
import { Surface, pointer } from "./surface.js";
import { hideTip, showTip } from "./tooltip.js";

const LEFT = 84;

class Memory {
  constructor(data, device, stacks) {
    Object.assign(this, { data, device, stacks });
    this.surface = new Surface((context, width, height) => this.picture.draw(context, width, height), "memory");
    this.scaled = el("button", {
      type: "button",
      title: "every event has the same width, or every second (e)",
      onclick: () => this.setScale(!this.isByEvent),
    });
    this.setScale(recall("memory") !== "time");
    pointer(this.surface, {
      drag: (dx) => this.axis.pan(dx),
      click: (x, y) => this.choose(this.picture.at(x, y, this.surface.height)),
      hover: (x, y, event) => this.hover(this.picture.at(x, y, this.surface.height), x, event),
      leave: () => hideTip(),
    });
    const other = (name) =>
      el("a", { href: link("memory", name), class: name === device.device ? "chosen" : "" }, name);
    const toolbar = el(
      "div",
      { class: "toolbar" },
      data.devices.length > 1 && data.devices.map((one) => other(one.device)),
      this.scaled,
      button("All", "all of the recording", () => this.axis.set(0, this.axis.end), "f"),
      button("Peak", "zoom to the peak", () => this.toPeak(), "p"),
      button("−", "zoom out", () => this.axis.zoom(1 / 1.6), "-"),
      button("+", "zoom in", () => this.axis.zoom(1.6), "+"),
      el("span", { class: "grow" }),
      device.left_out > 0 &&
        el("span", { class: "dim" }, `${count(device.left_out)} smaller or shorter buffers are only part of the sum`),
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
      ...this.keys(),
      [["p"], "zoom to the peak", () => this.toPeak()],
      [["e"], "by event, or by time", () => this.setScale(!this.isByEvent)],
      [["Escape"], "select nothing: the holders of the peak", () => this.choose(null)],
    ]);
  }

  /** Compiling takes seconds in which nothing is allocated: by event, that has no width. */
  setScale(isByEvent) {
    this.isByEvent = isByEvent;
    remember("memory", isByEvent ? "event" : "time");
    const chosen = this.picture?.chosen ?? null;
    const scale = isByEvent ? byEvent(this.device) : byTime(this.data.end);
    this.axis?.ignore();
    this.axis = new Axis(scale.end, LEFT, this.surface, scale.spell);
    this.picture = heap(this.device, this.axis, scale);
    this.picture.chosen = chosen;
    this.axis.listen();
    fill(this.scaled, isByEvent ? "By event" : "By time");
    this.surface.changed();
  }

  toPeak() {
    const span = Math.max((this.axis.to - this.axis.from) / 4, this.isByEvent ? 20 : 1000);
    const middle = this.picture.scale.at(this.device.peak_ns);
    this.axis.set(middle - span / 2, middle + span / 2);
  }

  keys() {
    const through = (i) => [this.axis.keys()[i][0], this.axis.keys()[i][1], (event) => this.axis.keys()[i][2](event)];
    return [0, 1, 2, 3, 4].map(through);
  }

  hover(buffer, x, event) {
    this.surface.canvas.style.cursor = buffer ? "pointer" : "grab";
    const time = this.picture.scale.time(this.axis.time(x));
    if (x < LEFT) return hideTip();
    if (!buffer)
      return showTip(event, `${bytes(this.picture.amountAt(time))} in use`, [["at", duration(Math.max(time, 0))]]);
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
        el(
          "td",
          {},
          bytes(holder.bytes),
          el("i", { class: "bar", style: { width: `${(100 * holder.bytes) / most}%` } }),
        ),
        el("td", {}, count(holder.buffers)),
        el(
          "td",
          { class: "left", title: `${holder.type} ${holder.what}` },
          holder.type,
          el("div", { class: "dim" }, holder.what),
        ),
        el("td", { class: "left" }, holder.line),
      );
    return el(
      "div",
      { class: "details" },
      el("h3", { class: "peak" }, `Peak: ${bytes(device.peak_bytes)}`),
      el(
        "p",
        {},
        `on ${device.device}, at ${duration(device.peak_ns)}, in ${plural(device.buffers_at_peak, "buffer")}; `,
        `${bytes(device.end_bytes)} at the end.`,
      ),
      device.before_bytes > 0 &&
        el("p", { class: "dim" }, `${bytes(device.before_bytes)} of it from before the recording.`),
      el("h4", {}, "who holds it"),
      el(
        "table",
        { class: "holders" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["bytes", "buffers"].map((name) => el("th", {}, name)),
            ["each", "line"].map((name) => el("th", { class: "left" }, name)),
          ),
        ),
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
