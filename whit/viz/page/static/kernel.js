// One kernel: its passes, every rewrite, source and machine code, time.
import { twoBlocks } from "./code.js";
import { el } from "./dom.js";
import { bytes, count, duration, place, plural, short } from "./format.js";
import { LifeView } from "./life.js";
import { link } from "./router.js";
import { stackBlock } from "./stack.js";
import { get } from "./store.js";

export async function kernelView(main, path) {
  const number = Number(path[1]);
  const [kernel, rules, overview, stacks] = await Promise.all([
    get(`kernel/${number}`),
    get("rules"),
    get("overview"),
    get("stacks"),
  ]);
  const longest = Math.max(1, ...kernel.passes.map((step) => step.ns));
  const stages = [{ name: "graph", note: "as scheduled", graph: kernel.graph, place: "", steps: 0 }];
  let graph = kernel.graph;
  kernel.passes.forEach((step, i) => {
    if (step.graph >= 0) graph = step.graph;
    const rewrites = step.steps ? ` · ${count(step.steps)}` : "";
    stages.push({
      name: step.name,
      note: `${duration(step.ns)}${rewrites}`,
      tip: `${step.why}${step.changed ? "" : " (it changed nothing)"}`,
      graph,
      place: `k${number}.${i + 1}`,
      steps: step.steps,
      share: step.ns / longest,
    });
  });
  const view = new LifeView({
    subject: ["kernel", String(number)],
    title: title(kernel, stacks),
    stages,
    rules,
    chunk: overview.chunk,
    start: 0,
    tabs: {
      Kernel: () => facts(kernel, stacks),
      Code: () => twoBlocks(kernel.source, "source", kernel.assembly, "machine code"),
    },
  });
  main.append(view.element);
  await view.update(path);
  return view;
}

function title(kernel, stacks) {
  return el(
    "div",
    { class: "title" },
    el("h2", { title: kernel.name }, `${kernel.id} ${kernel.name}`),
    kernel.computes ? el("p", {}, kernel.computes) : null,
    el(
      "p",
      { class: "dim" },
      kernel.runs ? `${plural(kernel.runs, "run")}, best ${duration(kernel.best_ns)}` : "did not run",
    ),
    el("p", { class: "dim" }, place(stacks[kernel.stack]) || "compiled before the recording"),
  );
}

function facts(kernel, stacks) {
  const fact = (name, text) => text && [el("dt", {}, name), el("dd", {}, text)];
  const roof = kernel.roofline;
  return el(
    "div",
    { class: "details" },
    el(
      "dl",
      { class: "facts" },
      fact("target", kernel.target),
      fact("runs", `${count(kernel.runs)}${kernel.schedules.length ? ` in ${kernel.schedules.join(", ")}` : ""}`),
      fact("best, median", kernel.runs ? `${duration(kernel.best_ns)}, ${duration(kernel.median_ns)}` : ""),
      fact("reads, writes", `${bytes(kernel.bytes_read)}, ${bytes(kernel.bytes_written)}`),
      fact("operations", short(kernel.ops)),
      fact("machine code", bytes(kernel.code_bytes)),
      fact("parts for cores", count(kernel.cores_range)),
      fact("compiled in", kernel.is_compiled ? duration(kernel.compile_ns) : ""),
      fact("write source", kernel.is_compiled ? duration(kernel.render_ns) : ""),
      fact("make code", kernel.is_compiled ? duration(kernel.code_ns) : ""),
    ),
    el("h4", {}, "tiling"),
    kernel.explanation.length
      ? kernel.explanation.map((line) => el("p", { class: "reason" }, line))
      : el("p", { class: "dim" }, "none: loops as they are, or an algorithm of its own"),
    roof && [
      el("h4", {}, "roofline"),
      el(
        "p",
        {},
        `${roof.ops_per_byte.toFixed(2)} operations a byte, `,
        `${roof.gflops.toFixed(2)} GFLOP/s, ${roof.gbytes.toFixed(2)} GB/s: bound by ${roof.bound}, `,
        `${Math.round(roof.efficiency * 100)} % of what the best kernels of this recording allow. `,
        el("a", { href: link("roofline") }, "see all"),
      ),
    ],
    el("h4", {}, "compiled for this line"),
    stackBlock(stacks[kernel.stack]),
    el("p", {}, el("a", { href: link("timeline", "kernel", kernel.id.slice(1)) }, "see its runs on the timeline")),
  );
}
