// The page: its head, and the view that the address names.
import { button, el, fill } from "./dom.js";
import { flameView } from "./flame.js";
import { basename } from "./format.js";
import { kernelView } from "./kernel.js";
import { setGlobalKeys, setKeys, showHelp } from "./keys.js";
import { layersView } from "./layers.js";
import { memoryView } from "./memory.js";
import { overviewView } from "./overview.js";
import { rooflineView } from "./roofline.js";
import { link, parts } from "./router.js";
import { scheduleView } from "./schedule.js";
import { get } from "./store.js";
import { toggleTheme } from "./theme.js";
import { timelineView } from "./timeline.js";
import { hideTip } from "./tooltip.js";

const VIEWS = {
  "": ["Kernels", overviewView],
  layers: ["Layers", layersView],
  timeline: ["Timeline", timelineView],
  memory: ["Memory", memoryView],
  roofline: ["Roofline", rooflineView],
  compile: ["Compile time", flameView],
  kernel: [null, kernelView],
  schedule: [null, scheduleView],
};
const TABS = Object.entries(VIEWS).filter(([, [name]]) => name !== null);

const main = document.getElementById("main");
let current = { key: null };
let turn = 0;

/** What is one and the same view, whatever comes behind it in the address. */
function keyOf(path) {
  return path[0] === "kernel" || path[0] === "schedule" || path[0] === "memory"
    ? path.slice(0, 2).join("/")
    : path[0] || "";
}

async function route() {
  const path = parts();
  const key = keyOf(path);
  paintTabs(path[0] || "");
  hideTip();
  const mine = ++turn;
  main.dataset.ready = "no";
  if (key === current.key) {
    await guarded(async () => current.update?.(path));
    if (mine === turn) main.dataset.ready = "yes";
    return;
  }
  current.close?.();
  current = { key };
  fill(main);
  setKeys("", []);
  main.dataset.view = key;
  await guarded(async () => {
    const [, make] = VIEWS[path[0] || ""] || [null, null];
    if (!make) throw new Error(`There is nothing at #/${path.join("/")}.`);
    const stage = el("div", { class: "view" });
    main.append(stage);
    const view = await make(stage, path);
    if (mine === turn) current = Object.assign(view, { key });
    else view.close?.();
  });
  if (mine === turn) main.dataset.ready = "yes";
}

/** Errors are shown in the page: a recording may be damaged, the server gone. */
async function guarded(action) {
  try {
    await action();
  } catch (error) {
    fill(
      main,
      el(
        "div",
        { class: "empty error" },
        el("h2", {}, "This cannot be shown"),
        el("p", {}, error.message),
        el("a", { href: link() }, "All kernels"),
      ),
    );
    current = { key: null };
  }
}

function paintTabs(view) {
  const chosen = view === "kernel" || view === "schedule" ? "" : view;
  for (const tab of document.querySelectorAll("#header nav a")) {
    if (tab.dataset.view === chosen) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
}

async function start() {
  const name = el("span", { class: "file dim" });
  fill(
    document.getElementById("header"),
    el("a", { href: link(), class: "brand" }, "whit"),
    el(
      "nav",
      {},
      TABS.map(([view, [text]], i) =>
        el("a", { href: link(...(view ? [view] : [])), "data-view": view, title: String(i + 1) }, text),
      ),
    ),
    el("span", { class: "grow" }),
    name,
    button("◐", "dark or light", toggleTheme, "T"),
    button("?", "keyboard", showHelp, "?"),
  );
  setGlobalKeys([
    [["?"], "this help", showHelp],
    ...TABS.map(([view, [text]], i) => [
      [String(i + 1)],
      text,
      () => (window.location.hash = link(...(view ? [view] : []))),
    ]),
    [["T"], "dark or light", toggleTheme],
  ]);
  window.addEventListener("hashchange", route);
  const shown = route();
  await guarded(async () => {
    const { trace } = await get("overview");
    const file = basename(trace.path);
    fill(name, file);
    name.title = trace.path;
    document.title = `${file} · whit viz`;
  });
  await shown;
}

start();
