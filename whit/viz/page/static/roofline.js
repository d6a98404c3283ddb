// All kernels under the roofs of this recording: operations a byte against operations a second.
import { el, fill, svg } from "./dom.js";
import { bytes, duration, short, trimmed } from "./format.js";
import { setKeys } from "./keys.js";
import { go, link } from "./router.js";
import { get } from "./store.js";
import { kernelColour, onTheme } from "./theme.js";
import { hideTip, showTip } from "./tooltip.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [72, 24, 24, 52];
const MOST = 3000;
const NAMES = 16; // of the kernels with the most time

export async function rooflineView(main) {
  const data = await get("overview");
  const kernels = data.kernels.filter((row) => row.roofline && row.roofline.gflops > 0).slice(0, MOST);
  if (!kernels.length) {
    main.append(el("p", { class: "empty" }, "No kernel ran whose bytes and operations are known."));
    return {};
  }
  const stage = el("div", { class: "stage plain roof" });
  const head = el(
    "div",
    { class: "toolbar" },
    el("span", {}, `${kernels.length} kernels; the larger, the more time they took in all`),
    el("span", { class: "grow" }),
    el("span", { class: "dim" }, "the roofs are the best of this recording"),
  );
  main.append(el("div", { class: "workspace column" }, head, stage));
  const paint = () =>
    stage.clientWidth && fill(stage, plot(kernels, data.roofs, stage.clientWidth, stage.clientHeight));
  const observer = new ResizeObserver(paint);
  observer.observe(stage);
  const forget = onTheme(paint);
  const byTime = [...kernels].sort((a, b) => b.total_ns - a.total_ns);
  let at = -1;
  const point = (by) => {
    at = (at + by + byTime.length) % byTime.length;
    stage.querySelectorAll("circle").forEach((one) => one.classList.toggle("chosen", one.dataset.id === byTime[at].id));
  };
  setKeys("Roofline", [
    [["j", "ArrowRight"], "next kernel, by time", () => point(1)],
    [["k", "ArrowLeft"], "the kernel before", () => point(-1)],
    [["Enter", "o"], "open it", () => at >= 0 && go(link("kernel", byTime[at].id.slice(1)))],
  ]);
  return {
    close() {
      observer.disconnect();
      forget();
      hideTip();
    },
  };
}

function powers(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) found.push(power);
  return found;
}

function plot(kernels, roofs, width, height) {
  const xs = kernels.map((row) => Math.log10(Math.max(row.roofline.ops_per_byte, 1e-4)));
  const ys = kernels.map((row) => Math.log10(Math.max(row.roofline.gflops, 1e-6)));
  const ridge = Math.log10(roofs.gflops / Math.max(roofs.gbytes, 1e-9));
  const [x1, x2] = [Math.min(...xs, ridge) - 0.35, Math.max(...xs, ridge) + 0.35];
  const [y1, y2] = [Math.min(...ys) - 0.3, Math.log10(roofs.gflops) + 0.35];
  const x = (value) => LEFT + ((value - x1) / (x2 - x1)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - y1) / (y2 - y1)) * (height - TOP - BOTTOM);
  const picture = svg("svg", { width, height, role: "img", "aria-label": "roofline" });
  const inside = (value, low, high) => value >= low && value <= high;
  for (const power of powers(x1, x2)) {
    if (!inside(power, x1, x2)) continue;
    picture.append(svg("line", { class: "grid", x1: x(power), x2: x(power), y1: TOP, y2: height - BOTTOM }));
    picture.append(
      svg("text", { class: "tick", x: x(power), y: height - BOTTOM + 18, "text-anchor": "middle" }, spelled(power)),
    );
  }
  for (const power of powers(y1, y2)) {
    if (!inside(power, y1, y2)) continue;
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(power), y2: y(power) }));
    picture.append(svg("text", { class: "tick", x: LEFT - 8, y: y(power) + 4, "text-anchor": "end" }, spelled(power)));
  }
  picture.append(
    svg(
      "text",
      { class: "axis-name", x: (LEFT + width) / 2, y: height - 12, "text-anchor": "middle" },
      "operations a byte",
    ),
  );
  picture.append(
    svg(
      "text",
      { class: "axis-name", x: -height / 2, y: 18, transform: "rotate(-90)", "text-anchor": "middle" },
      "GFLOP/s",
    ),
  );
  const memory = (value) => Math.log10(roofs.gbytes) + value;
  const from = Math.max(x1, y1 - Math.log10(roofs.gbytes));
  const corners = [from, ridge].map((value) => `${x(value)} ${y(memory(value))}`);
  const roof = `M ${corners.join(" L ")} L ${x(x2)} ${y(Math.log10(roofs.gflops))}`;
  picture.append(svg("path", { class: "roof-line", d: roof }));
  const flat = y(Math.log10(roofs.gflops)) - 8;
  picture.append(
    svg(
      "text",
      { class: "roof-name", x: width - RIGHT - 4, y: flat, "text-anchor": "end" },
      `${trimmed(roofs.gflops)} GFLOP/s`,
    ),
  );
  const [sx, sy] = [x((from + ridge) / 2), y(memory((from + ridge) / 2))];
  const slope = (Math.atan2(y(memory(ridge)) - y(memory(from)), x(ridge) - x(from)) * 180) / Math.PI;
  picture.append(
    svg(
      "text",
      { class: "roof-name", transform: `translate(${sx} ${sy - 9}) rotate(${slope})`, "text-anchor": "middle" },
      `${trimmed(roofs.gbytes)} GB/s`,
    ),
  );
  const line = [x(ridge), flat + 2, width, flat + 14];
  dots(picture, kernels, xs.map(x), ys.map(y), line);
  return picture;
}

function dots(picture, kernels, xs, ys, line) {
  const longest = Math.max(1, ...kernels.map((row) => row.total_ns));
  const sizes = kernels.map((row) => 4 + 12 * Math.sqrt(row.total_ns / longest));
  const order = kernels.map((_, i) => i).sort((a, b) => kernels[b].total_ns - kernels[a].total_ns);
  for (const i of order) picture.append(dot(kernels[i], xs[i], ys[i], sizes[i]));
  const taken = kernels.map((_, i) => [xs[i] - sizes[i], ys[i] - sizes[i], xs[i] + sizes[i], ys[i] + sizes[i]]);
  taken.push(line);
  let named = 0;
  for (const i of order) if (named < NAMES && label(picture, taken, kernels[i], xs[i], ys[i], sizes[i])) named++;
}

function dot(row, x, y, size) {
  const number = Number(row.id.slice(1));
  const circle = svg("circle", {
    cx: x,
    cy: y,
    r: size,
    fill: kernelColour(number, 0.8),
    class: "kernel-dot",
    "data-id": row.id,
  });
  circle.addEventListener("click", () => go(link("kernel", number)));
  circle.addEventListener("pointermove", (event) =>
    showTip(event, `${row.id} ${row.called}`, [
      ["of roof", `${Math.round(row.roofline.efficiency * 100)} %, bound by ${row.roofline.bound}`],
      ["speed", `${trimmed(row.roofline.gflops)} GFLOP/s, ${trimmed(row.roofline.gbytes)} GB/s`],
      ["moves", bytes(row.bytes)],
      ["operations", short(row.ops)],
      ["best run", duration(row.best_ns)],
      ["in all", duration(row.total_ns)],
    ]),
  );
  circle.addEventListener("pointerleave", hideTip);
  return circle;
}

/** The name of a kernel, beside its dot where there is room: right, left, below or above. */
function label(picture, taken, row, x, y, size) {
  const text = `${row.id} ${row.called}`;
  const wide = text.length * 6.7;
  const right = Number(picture.getAttribute("width")) - 4;
  const places = [
    [x + size + 5, y],
    [x - size - 5 - wide, y],
    [x - wide / 2, y + size + 10],
    [x - wide / 2, y - size - 10],
  ];
  for (const [left, middle] of places) {
    const box = [left - 2, middle - 7, left + wide + 2, middle + 7];
    const meets = (other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1];
    if (box[0] < LEFT || box[2] > right || taken.some(meets)) continue;
    taken.push(box);
    picture.append(svg("text", { class: "dot-name", x: left, y: middle + 4 }, text));
    return true;
  }
  return false;
}

function spelled(power) {
  return power >= 0 && power < 5
    ? String(10 ** power)
    : power < 0 && power > -4
      ? (10 ** power).toFixed(-power)
      : `1e${power}`;
}
