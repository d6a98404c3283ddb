// The start: what was recorded, schedules and kernels.
import { el } from "./dom.js";
import { basename, bytes, count, duration, place, plural, short } from "./format.js";
import { setKeys } from "./keys.js";
import { link } from "./router.js";
import { get, leftOut } from "./store.js";
import { Table } from "./table.js";

const number = (id) => Number(id.slice(1));

export async function overviewView(main) {
  const [data, stacks] = await Promise.all([get("overview"), get("stacks")]);
  const lineOf = (row) => row.line || place(stacks[row.stack]);
  const most = (list, value) => Math.max(1, ...list.map(value));
  const longest = most(data.kernels, (row) => row.total_ns);
  const slowest = most(data.kernels, (row) => row.compile_ns);
  const schedules = new Table(
    [
      { name: "schedule", left: true, text: (row) => row.id, value: (row) => number(row.id) },
      { name: "device", left: true, text: (row) => row.device, value: (row) => row.device },
      { name: "line", left: true, text: lineOf, value: lineOf },
      { name: "kernels", text: (row) => count(row.kernels), value: (row) => row.kernels },
      { name: "runs", text: (row) => count(row.runs), value: (row) => row.runs },
      { name: "temporaries", text: (row) => bytes(row.temporaries_bytes), value: (row) => row.temporaries_bytes },
      { name: "rewrites", text: (row) => count(row.rewrites), value: (row) => row.rewrites },
      { name: "made in", text: (row) => duration(row.schedule_ns), value: (row) => row.schedule_ns },
    ],
    data.schedules,
    { name: "schedules", link: (row) => link("schedule", number(row.id)) },
  );
  const share = (row) => (row.roofline ? row.roofline.efficiency : 0);
  const kernels = new Table(
    [
      { name: "kernel", left: true, text: (row) => row.id, value: (row) => number(row.id) },
      { name: "computes", left: true, text: (row) => row.called, value: (row) => row.called },
      { name: "name", left: true, text: (row) => row.name, value: (row) => row.name },
      { name: "line", left: true, text: (row) => place(stacks[row.stack]), value: (row) => place(stacks[row.stack]) },
      { name: "runs", text: (row) => count(row.runs), value: (row) => row.runs },
      {
        name: "time in all",
        text: (row) => duration(row.total_ns),
        value: (row) => row.total_ns,
        mark: (row) => row.total_ns / longest,
      },
      { name: "best run", text: (row) => duration(row.best_ns), value: (row) => row.best_ns },
      { name: "bytes", text: (row) => bytes(row.bytes), value: (row) => row.bytes },
      { name: "operations", text: (row) => short(row.ops), value: (row) => row.ops },
      {
        name: "of roof",
        text: (row) => (row.roofline ? `${Math.round(share(row) * 100)} %` : "–"),
        value: share,
        mark: share,
      },
      { name: "rewrites", text: (row) => count(row.rewrites), value: (row) => row.rewrites },
      {
        name: "compiled in",
        text: (row) => (row.is_compiled ? duration(row.compile_ns) : "before"),
        value: (row) => row.compile_ns,
        mark: (row) => row.compile_ns / slowest,
      },
    ],
    data.kernels,
    { name: "kernels", link: (row) => link("kernel", number(row.id)), sort: "time in all" },
  );
  const input = el("input", { type: "search", placeholder: "search kernels   /", "aria-label": "search kernels" });
  input.addEventListener("input", () => kernels.filter(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") input.blur();
    if (event.key === "Enter") kernels.move(1);
  });
  main.append(
    el(
      "div",
      { class: "page" },
      summary(data),
      el("div", { class: "heading" }, el("h2", {}, plural(data.schedules.length, "schedule"))),
      el("div", { class: "table" }, schedules.element),
      el("div", { class: "heading" }, el("h2", {}, plural(data.kernels.length, "kernel")), input),
      el("div", { class: "table" }, kernels.element),
    ),
  );
  setKeys("Overview", [
    [["/"], "search kernels", () => input.focus()],
    [["j", "ArrowDown"], "next kernel", () => kernels.move(1)],
    [["k", "ArrowUp"], "the kernel before", () => kernels.move(-1)],
    [["Enter", "o"], "open it", () => kernels.open()],
  ]);
  return {};
}

function summary(data) {
  const head = data.trace;
  const program = head.program.map(basename).join(" ") || "a program";
  const total = data.kernels.reduce((sum, row) => sum + row.total_ns, 0);
  const compiling = data.kernels.reduce((sum, row) => sum + row.compile_ns, 0);
  const fact = (name, value) => el("div", { class: "fact" }, el("b", {}, value), el("span", {}, name));
  const notes = head.dropped.map((what) => `left out from some point on, because of VIZ_LIMIT: ${what}`);
  if (!head.is_whole) notes.unshift("The recording has no end: the process was killed, or is still running.");
  if (leftOut.length)
    notes.push(`This file has not all of the recording: ${plural(leftOut.length, "document")} did not fit.`);
  return el(
    "section",
    { class: "summary" },
    el("h1", {}, program),
    el("p", { class: "dim" }, `${head.target}, ${plural(head.cores, "core")}, whit ${head.whit}`),
    el(
      "div",
      { class: "tiles" },
      fact("recorded", duration(head.seconds * 1e9)),
      fact("in kernels", duration(total)),
      fact("compiling kernels", duration(compiling)),
      fact("runs of schedules", count(head.runs)),
      fact("launches", count(head.launches)),
    ),
    data.events.map((event) =>
      el("p", { class: "dim" }, `${event.kind} ${event.fields?.name ?? ""}: ${plural(event.count, "time")}`),
    ),
    notes.map((text) => el("p", { class: "warning" }, text)),
  );
}
