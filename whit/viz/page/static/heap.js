// Buffers stacked over time. When one goes, those above it come down.
import { AXIS, roundStep } from "./axis.js";
import { bytes, duration } from "./format.js";
import { colour } from "./theme.js";

const BOTTOM = 14;

/** Colours for lines of the program: the same line, the same colour. */
function hue(stack, role) {
  let sum = stack * 61;
  for (const letter of role) sum = (sum * 31 + letter.charCodeAt(0)) % 360;
  return sum % 360;
}

/** A moment with digits enough to tell it from the next. */
function moment(time) {
  return time >= 1e9 ? `${(time / 1e9).toFixed(3)} s` : duration(time);
}

/** Scales: from a moment to a place on the axis, and back. */
export function byTime(end) {
  return { end, at: (time) => time, time: (place) => place, spell: null };
}

/** Every moment at which something comes or goes is as far from the next as any other. */
export function byEvent(device) {
  const all = device.buffers.flatMap(([start, end]) => (end < 0 ? [start] : [start, end]));
  const moments = [...new Set([0, device.peak_ns, ...all, ...device.curve[0]])].sort((a, b) => a - b);
  const index = (time) => {
    let [low, high] = [0, moments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moments[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const time = (place) => moments[Math.max(0, Math.min(moments.length - 1, Math.floor(place)))];
  return { end: moments.length, at: index, time, spell: (place) => moment(time(place)) };
}

/** The parts of each buffer: [start, end, height at which it lies]. */
function stacked(buffers, base, end) {
  const events = [];
  buffers.forEach((buffer, i) => {
    events.push([buffer[0], 1, i]);
    if (buffer[1] >= 0) events.push([buffer[1], 0, i]);
  });
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const parts = buffers.map(() => []);
  const since = new Map(); // live buffers, from below: [since when, height]
  let top = base;
  for (const [time, comes, i] of events) {
    const size = buffers[i][2];
    if (comes) {
      since.set(i, [time, top]);
      top += size;
      continue;
    }
    if (!since.has(i)) continue;
    let isAbove = false;
    for (const [other, [start, height]] of since) {
      if (other === i) isAbove = true;
      else if (!isAbove) continue;
      parts[other].push([start, time, height]);
      if (other !== i) since.set(other, [time, height - size]);
    }
    since.delete(i);
    top -= size;
  }
  for (const [i, [start, height]] of since) parts[i].push([start, end, height]);
  return parts;
}

/** The picture of one device. */
export function heap(device, axis, scaling) {
  const moments = device.curve[0].map(scaling.at);
  const amounts = device.curve[1];
  const { buffers } = device;
  const base = device.before;
  const placed = buffers.map(([start, end, size]) => [scaling.at(start), end < 0 ? -1 : scaling.at(end), size]);
  const parts = stacked(placed, base, axis.end);
  const most = Math.max(
    1,
    device.peak_bytes,
    ...parts.map((list, i) => Math.max(0, ...list.map((part) => part[2])) + buffers[i][2]),
  );
  let chosen = null;
  const y = (amount, height) => height - BOTTOM - (amount / (most * 1.06)) * (height - AXIS - BOTTOM - 8);

  function curve(context, height) {
    context.beginPath();
    const zero = y(0, height);
    context.moveTo(axis.x(Math.max(axis.from, 0)), zero);
    let [last, lastX] = [0, -1];
    for (let i = 0; i < moments.length; i++) {
      if (i + 1 < moments.length && moments[i + 1] < axis.from) continue;
      const x = axis.x(Math.max(moments[i], axis.from));
      if (i && x - lastX > 0) context.lineTo(x, y(last, height));
      context.lineTo(x, y(amounts[i], height));
      [last, lastX] = [amounts[i], x];
      if (moments[i] > axis.to) break;
    }
    const end = axis.x(Math.min(axis.to, axis.end));
    context.lineTo(end, y(last, height));
    const line = colour("--dim");
    context.save();
    context.strokeStyle = line;
    context.lineWidth = 1.2;
    context.stroke();
    context.lineTo(end, zero);
    context.closePath();
    context.fillStyle = colour("--lane");
    context.fill();
    context.restore();
  }

  function draw(context, width, height) {
    axis.draw(context, height - BOTTOM);
    context.save();
    context.beginPath();
    context.rect(axis.left, AXIS, width - axis.left - 8, height);
    context.clip();
    curve(context, height);
    buffers.forEach((buffer, i) => drawBuffer(context, buffer, parts[i], height));
    peak(context, height);
    context.restore();
    scale(context, height);
  }

  function drawBuffer(context, buffer, list, height) {
    const dark = document.documentElement.dataset.theme === "dark";
    const isChosen = buffer === chosen;
    context.fillStyle = isChosen
      ? colour("--accent")
      : `hsl(${hue(buffer[5], buffer[4])} ${dark ? "34% 48%" : "44% 70%"})`;
    const tall = y(0, height) - y(buffer[2], height);
    for (const [start, end, at] of list) {
      if (end < axis.from || start > axis.to) continue;
      const x = Math.round(Math.max(axis.x(start), axis.left)); // whole pixels: parts meet without a seam
      const gap = tall > 3 ? 0.6 : 0;
      const width = Math.max(Math.round(axis.x(end)) - x, 1);
      context.fillRect(x, y(at + buffer[2], height) + gap, width, Math.max(tall - gap, 0.4));
    }
  }

  function peak(context, height) {
    const [x, top] = [axis.x(scaling.at(device.peak_ns)), y(device.peak_bytes, height)];
    context.strokeStyle = colour("--removed");
    context.setLineDash([4, 4]);
    context.lineWidth = 1.2;
    context.beginPath();
    context.moveTo(axis.left, top);
    context.lineTo(axis.left + axis.width, top);
    context.moveTo(x, AXIS);
    context.lineTo(x, height - BOTTOM);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("--removed");
    context.font = `600 12px ${colour("--sans")}`;
    const onLeft = x > axis.left + axis.width * 0.7;
    context.textAlign = onLeft ? "right" : "left";
    context.fillText(`peak ${bytes(device.peak_bytes)}`, onLeft ? x - 8 : x + 8, top - 9);
    context.textAlign = "left";
  }

  function scale(context, height) {
    const step = roundStep(most / 7);
    context.font = `11px ${colour("--sans")}`;
    context.textAlign = "right";
    context.fillStyle = colour("--dim");
    for (let amount = 0; amount <= most * 1.05; amount += step)
      context.fillText(bytes(amount), axis.left - 10, y(amount, height));
    context.textAlign = "left";
  }

  return {
    draw,
    scale: scaling,
    get chosen() {
      return chosen;
    },
    set chosen(buffer) {
      chosen = buffer;
    },
    at(px, py, height) {
      const time = axis.time(px);
      const slack = axis.time(1) - axis.time(0);
      for (let i = buffers.length - 1; i >= 0; i--) {
        for (const [start, end, at] of parts[i]) {
          if (time < start - slack || time > end + slack) continue;
          if (py >= y(at + buffers[i][2], height) && py <= y(at, height)) return buffers[i];
        }
      }
      return null;
    },
    amountAt(time) {
      let found = amounts[0];
      for (let i = 0; i < moments.length && device.curve[0][i] <= time; i++) found = amounts[i];
      return found;
    },
  };
}
