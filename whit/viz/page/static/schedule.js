// One schedule: the graph that came in, the calls that came out, and the rewrites between them.
import { el } from "./dom.js";
import { bytes, count, duration, place, plural } from "./format.js";
import { LifeView } from "./life.js";
import { link } from "./router.js";
import { callScene } from "./scene.js";
import { stackBlock } from "./stack.js";
import { get } from "./store.js";

export async function scheduleView(main, path) {
  const number = Number(path[1]);
  const [schedule, rules, overview, stacks] = await Promise.all([
    get(`schedule/${number}`),
    get("rules"),
    get("overview"),
    get("stacks"),
  ]);
  const names = new Map(overview.kernels.map((row) => [Number(row.id.slice(1)), row.called]));
  const stages = [
    { name: "graph", note: "as it came in", graph: schedule.graph, place: "", steps: 0 },
    {
      name: "schedule",
      note: `${duration(schedule.ns)}${schedule.steps ? ` · ${count(schedule.steps)}` : ""}`,
      tip: "kernels in the order in which they run",
      graph: schedule.linear,
      place: schedule.id,
      steps: schedule.steps,
      share: 1,
    },
  ];
  const view = new LifeView({
    subject: ["schedule", String(number)],
    title: el(
      "div",
      { class: "title" },
      el("h2", {}, `${schedule.id} on ${schedule.device}`),
      el("p", { class: "dim" }, `${plural(schedule.calls.length, "kernel")}, ${plural(schedule.runs, "run")}`),
      el("p", { class: "dim" }, place(stacks[schedule.stack])),
    ),
    stages,
    rules,
    chunk: overview.chunk,
    start: 1,
    kernelOf: (item) => schedule.calls[item.order],
    sceneOf: (graph, opened) => sceneOf(graph, schedule, opened),
    tabs: {
      Calls: () => calls(schedule, names),
      Memory: () => temporaries(schedule),
      Line: () => stackBlock(stacks[schedule.stack]),
    },
  });
  main.append(view.element);
  await view.update(path);
  return view;
}

/** The scene of the calls; the graph that came in is drawn as any other. */
function sceneOf(graph, schedule, opened) {
  const isSchedule = graph.root >= 0 && graph.rows[graph.root][0] === "linear";
  return isSchedule ? callScene(graph, schedule, opened) : null;
}

function calls(schedule, names) {
  const row = (kernel, i) =>
    el(
      "a",
      { class: "call", href: link("kernel", kernel) },
      el("span", { class: "number" }, String(i)),
      el("span", {}, `k${kernel} ${schedule.names[i] || names.get(kernel) || ""}`),
      el(
        "span",
        { class: "dim" },
        schedule.needs[i]?.length
          ? `after ${[...new Set(schedule.needs[i].map(([call]) => call))].sort((a, b) => a - b).join(", ")}`
          : "at once",
      ),
    );
  return el(
    "div",
    { class: "details" },
    el("h4", {}, "kernels in order, and the calls they wait for"),
    schedule.calls.map(row),
  );
}

function temporaries(schedule) {
  const row = ([size, first, last, offset, type]) =>
    el(
      "div",
      { class: "call" },
      el("span", {}, type),
      el("span", { class: "dim" }, `${bytes(size)} at ${bytes(offset)}, calls ${first} to ${last}`),
    );
  const total = schedule.temporaries.reduce((sum, one) => sum + one[0], 0);
  return el(
    "div",
    { class: "details" },
    el(
      "p",
      {},
      `${plural(schedule.temporaries.length, "buffer")} between kernels, ${bytes(total)}, `,
      `in an arena of ${bytes(schedule.arena)}.`,
    ),
    schedule.temporaries.map(row),
  );
}
