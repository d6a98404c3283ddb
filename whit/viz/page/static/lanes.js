// Lanes of spans under a time axis. What is narrower than a pixel is drawn together with its neighbours.
import { AXIS } from "./axis.js";
import { bytes } from "./format.js";
import { colour, kernelColour } from "./theme.js";

const SPACE = 34; // between lanes
const [LOW, HIGH] = [24, 72]; // of a lane

export class LaneChart {
  constructor(data, axis, nameOf) {
    Object.assign(this, { data, axis, nameOf, chosen: null, needs: [] });
    this.lanes = [
      {
        name: "host",
        note: "schedule, compile",
        spans: data.host.map(([start, ns], index) => [start, start + ns, index]),
        kind: "host",
      },
      ...data.lanes.map((lane) => ({ name: lane.device, note: lane.queue, spans: [], kind: "launch" })),
    ];
    const { lane, start, ns, run } = data.launches;
    this.runs = data.runs.map(() => [0, 0]);
    start.forEach((from, index) => {
      this.lanes[lane[index] + 1].spans.push([from, from + ns[index], index]);
      if (!this.runs[run[index]][1]) this.runs[run[index]][0] = index;
      this.runs[run[index]][1] = index + 1;
    });
    data.copies.forEach(([lane, from, ns], index) => {
      this.lanes[lane + 1].kind = "copy";
      this.lanes[lane + 1].spans.push([from, from + ns, index]);
    });
    this.lanes.forEach((one) => one.spans.sort((a, b) => a[0] - b[0]));
  }

  timeOf(first, last) {
    let sum = 0;
    for (let i = first; i < last; i++) sum += this.data.launches.ns[i];
    return sum;
  }

  /** How tall lanes are: they share what room there is. */
  get tall() {
    const room = (this.axis.surface.height - AXIS - 20) / this.lanes.length - SPACE;
    return Math.max(LOW, Math.min(HIGH, room));
  }

  /** The height at which it looks best. */
  get wanted() {
    return AXIS + 20 + this.lanes.length * (HIGH + SPACE);
  }

  top(i) {
    return AXIS + 14 + i * (this.tall + SPACE);
  }

  spanOf(item) {
    if (item.kind === "host") {
      const [start, ns] = this.data.host[item.index];
      return [start, start + ns];
    }
    if (item.kind === "copy") {
      const [, start, ns] = this.data.copies[item.index];
      return [start, start + ns];
    }
    const { start, ns } = this.data.launches;
    return [start[item.index], start[item.index] + ns[item.index]];
  }

  choose(item) {
    this.chosen = item;
    this.needs = [];
  }

  /** What is at a place of the canvas; the nearest within three pixels. */
  at(x, y) {
    const i = this.lanes.findIndex((_, k) => y >= this.top(k) && y <= this.top(k) + this.tall);
    if (i < 0 || x < this.axis.left) return null;
    const { spans, kind } = this.lanes[i];
    const [time, slack] = [this.axis.time(x), this.axis.time(x + 3) - this.axis.time(x)];
    let best = null;
    for (let k = firstEnding(spans, time - slack); k < spans.length && spans[k][0] <= time + slack; k++) {
      const gap = Math.max(spans[k][0] - time, time - spans[k][1], 0);
      if (gap <= slack && (!best || gap <= best.gap)) best = { gap, kind, index: spans[k][2] };
    }
    return best && { kind: best.kind, index: best.index };
  }

  draw(context, width, height) {
    this.axis.draw(context, height);
    this.lanes.forEach((lane, i) => this.lane(context, lane, this.top(i), width));
    this.events(context, height);
    this.arrows(context);
  }

  lane(context, lane, top, width) {
    context.fillStyle = colour("--ink");
    context.textAlign = "left";
    context.font = `600 12px ${colour("--sans")}`;
    context.fillText(lane.name, 12, top + this.tall / 2 - 8, this.axis.left - 20);
    context.fillStyle = colour("--dim");
    context.font = `11px ${colour("--sans")}`;
    context.fillText(lane.note, 12, top + this.tall / 2 + 9, this.axis.left - 20);
    context.fillStyle = colour("--lane");
    context.fillRect(this.axis.left, top, width - this.axis.left - 8, this.tall);
    context.save();
    context.beginPath();
    context.rect(this.axis.left, 0, width - this.axis.left - 8, top + this.tall + 4);
    context.clip();
    this.spans(context, lane, top);
    context.restore();
  }

  spans(context, lane, top) {
    let drawn = -Infinity;
    for (let k = firstEnding(lane.spans, this.axis.from); k < lane.spans.length; k++) {
      const [start, end, index] = lane.spans[k];
      if (start > this.axis.to) break;
      const x1 = this.axis.x(start);
      const x2 = Math.max(this.axis.x(end), x1 + 1.5);
      const isChosen = this.chosen?.kind === lane.kind && this.chosen.index === index;
      if (x2 <= drawn + 0.5 && !isChosen) continue;
      context.fillStyle = this.fillOf(lane.kind, index);
      context.fillRect(
        Math.max(x1, drawn),
        top,
        Math.max(x2 - Math.max(x1, drawn) - (x2 - x1 > 4 ? 1 : 0), 0.7),
        this.tall,
      );
      if (isChosen) {
        context.strokeStyle = colour("--accent");
        context.lineWidth = 2;
        context.strokeRect(x1, top - 1, Math.max(x2 - x1 - 1, 2), this.tall + 2);
      }
      if (x2 - x1 > 34) this.words(context, lane.kind, index, x1, x2, top);
      drawn = x2;
    }
  }

  fillOf(kind, index) {
    if (kind === "launch") return kernelColour(this.data.launches.kernel[index]);
    if (kind === "copy") return colour("--kind-call");
    return this.data.host[index][2] === "kernel" ? kernelColour(this.data.host[index][3], 0.75) : colour("--kind-call");
  }

  words(context, kind, index, x1, x2, top) {
    const text = this.textOf(kind, index);
    const left = Math.max(x1, this.axis.left);
    context.save();
    context.beginPath();
    context.rect(left, top, x2 - left - 2, this.tall);
    context.clip();
    context.fillStyle = colour("--on-span");
    context.font = `11px ${colour("--mono")}`;
    context.fillText(text, left + 5, top + this.tall / 2);
    context.restore();
  }

  textOf(kind, index) {
    if (kind === "copy") return bytes(this.data.copies[index][3]);
    const number = kind === "launch" ? this.data.launches.kernel[index] : this.data.host[index][3];
    const isSchedule = kind === "host" && this.data.host[index][2] === "schedule";
    if (isSchedule) return `schedule s${number}`;
    return kind === "launch" ? this.nameOfLaunch(index) : `k${number} ${this.nameOf(number)}`;
  }

  /** What a launch computes: "blocks.3.attn softmax". */
  nameOfLaunch(index) {
    const { name, kernel } = this.data.launches;
    const text = this.data.names[name[index]].split("  ")[0];
    return text || `k${kernel[index]} ${this.nameOf(kernel[index])}`;
  }

  events(context, height) {
    context.fillStyle = colour("--accent");
    for (const [at] of this.data.events) {
      const x = this.axis.x(at);
      if (x >= this.axis.left && x < this.axis.left + this.axis.width)
        context.fillRect(x, AXIS, 1, Math.min(8, height));
    }
  }

  /** From what the chosen launch waits for. */
  arrows(context) {
    if (this.chosen?.kind !== "launch") return;
    const { lane, start } = this.data.launches;
    const end = [this.axis.x(start[this.chosen.index]), this.top(lane[this.chosen.index] + 1) + this.tall];
    context.strokeStyle = colour("--into");
    context.lineWidth = 1.5;
    for (const other of this.needs) {
      const [, finish] = this.spanOf({ kind: "launch", index: other });
      const x = this.axis.x(finish);
      const y = this.top(lane[other] + 1) + this.tall;
      context.beginPath();
      context.moveTo(Math.max(x, this.axis.left), y);
      context.bezierCurveTo(x, y + 26, end[0], end[1] + 26, end[0], end[1] + 3);
      context.stroke();
      context.beginPath();
      context.arc(end[0], end[1] + 3, 2.5, 0, 7);
      context.fillStyle = colour("--into");
      context.fill();
    }
  }
}

/** The first span that ends after a moment: those of a lane do not overlap much. */
function firstEnding(spans, time) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
