// A graph with what lies beside it: on the left what to choose from, on the right tabs about what is chosen.
import { Tabs } from "./code.js";
import { button, el, fill, splitter } from "./dom.js";
import { count, plural } from "./format.js";
import { GraphView } from "./graph.js";
import { addKeys } from "./keys.js";
import { link } from "./router.js";
import { lineOf } from "./scene.js";
import { KIND_NAMES } from "./theme.js";

export class Workspace {
  constructor(left, tabs, on = {}) {
    this.tabs = new Tabs(tabs);
    this.tabs.set("Node", () => el("p", { class: "empty" }, "Click a node, or go from one to the next with ↑ and ↓."));
    this.graph = new GraphView({
      select: (item) => this.showNode(item),
      open: (item) => on.open?.(item),
      placed: () => this.status(),
    });
    this.found = [];
    this.at = -1;
    this.input = el("input", { type: "search", placeholder: "search nodes   /", "aria-label": "search nodes" });
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextFound(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.clearSearch();
    });
    this.matches = el("span", { class: "dim matches", "aria-live": "polite" });
    this.size = el("span", { class: "dim size" });
    this.extra = el("span", { class: "extra" });
    const toolbar = el(
      "div",
      { class: "toolbar" },
      this.input,
      this.matches,
      el("span", { class: "grow" }),
      this.extra,
      this.size,
      button("Fit", "show all of it", () => this.graph.home(null), "f"),
      button("−", "smaller", () => this.graph.zoom(1 / 1.3), "-"),
      button("+", "larger", () => this.graph.zoom(1.3), "+"),
    );
    this.note = el("div", { class: "note", hidden: true });
    this.left = el("aside", { class: "panel left" }, left);
    const stage = el("div", { class: "stage" }, this.graph.canvas, this.note);
    this.element = el(
      "div",
      { class: "workspace" },
      this.left,
      splitter(this.left, 1, "left"),
      el("section", { class: "middle" }, toolbar, stage, legend()),
      splitter(this.tabs.element, -1, "right"),
      this.tabs.element,
    );
    this.keys(on);
  }

  keys(on) {
    addKeys("Graph", [
      [["/"], "search nodes; Enter goes to the next one", () => this.input.focus()],
      [["n"], "next node that was found", () => this.nextFound(1)],
      [["ArrowUp"], "follow an edge to a source", () => this.graph.follow(-1)],
      [["ArrowDown"], "follow an edge to a user", () => this.graph.follow(1)],
      [["<", ">"], "the node beside it", (event) => this.graph.beside(event.key === "<" ? -1 : 1)],
      [["c"], "fold or unfold a node; show a call's kernel in its place", () => on.fold?.(this.graph.selected)],
      [
        ["o"],
        "open the kernel of a call",
        () => this.graph.selected !== null && on.open?.(this.graph.node(this.graph.selected)),
      ],
      [["f"], "fit all of it into view", () => this.graph.home(null)],
      [["+", "="], "larger", () => this.graph.zoom(1.3)],
      [["-"], "smaller", () => this.graph.zoom(1 / 1.3)],
      [["t"], "next tab on the right", () => this.tabs.next()],
      [["Escape"], "select nothing", () => this.clearSearch()],
    ]);
  }

  /** Words over the graph, as where there is none. */
  say(text) {
    this.note.hidden = !text;
    fill(this.note, text || "");
  }

  /** Something is on its way; said when it takes long. */
  busy() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.say("…"), 400);
  }

  status() {
    clearTimeout(this.waiting);
    fill(this.size, plural(this.graph.scene.nodes.length, "node"));
    this.say(this.graph.scene.nodes.length ? "" : "There is no graph here: it was left out, or cannot be read.");
    if (this.input.value) this.search(false);
  }

  search(reveal = true) {
    this.found = this.graph.search(this.input.value);
    this.at = -1;
    fill(this.matches, this.input.value.trim() ? `${count(this.found.length)} found` : "");
    if (reveal && this.found.length) this.nextFound(1);
  }

  nextFound(direction) {
    if (!this.found.length) return;
    this.at = (this.at + direction + this.found.length) % this.found.length;
    fill(this.matches, `${count(this.at + 1)} of ${count(this.found.length)}`);
    this.graph.select(this.found[this.at], true);
  }

  clearSearch() {
    this.input.value = "";
    this.input.blur();
    this.search(false);
    this.graph.select(null);
  }

  showNode(item) {
    if (!item) return;
    this.tabs.set("Node", () => this.nodeDetails(item));
    this.tabs.open("Node");
  }

  nodeDetails(item) {
    const near = (title, ids) => {
      const known = [...new Set(ids)].map((id) => this.graph.node(id)).filter(Boolean);
      const row = (other) =>
        el(
          "button",
          { type: "button", class: "edge", onclick: () => this.graph.select(other.id, true) },
          el("i", { class: `dot kind-${other.kind}` }),
          el("span", {}, other.name ? `${other.name} · ${other.label}` : other.label),
          el("span", { class: "dim" }, other.type),
        );
      return [el("h4", {}, `${title} (${known.length})`), known.slice(0, 200).map(row)];
    };
    const fact = (name, text) => text && [el("dt", {}, name), el("dd", {}, text)];
    const nameOf = (operand) => {
      const found = this.graph.node(item.inside === undefined ? operand : `${item.inside}${operand}`);
      return found?.name || "…";
    };
    return el(
      "div",
      { class: "details" },
      el("h3", {}, el("i", { class: `dot kind-${item.kind}` }), item.callee ? `call ${item.callee}` : item.op),
      item.kernel === undefined
        ? el("pre", { class: "one-line" }, lineOf(item, nameOf))
        : el("p", {}, el("a", { href: link("kernel", item.kernel) }, `open k${item.kernel}`)),
      el(
        "dl",
        { class: "facts" },
        fact("type", item.kernel === undefined ? item.type : ""),
        fact("values", item.range),
        fact("argument", item.argument),
        fact("kind", KIND_NAMES[item.kind]),
      ),
      near("sources", item.sources),
      near("users", item.users),
    );
  }

  close() {
    clearTimeout(this.waiting);
    this.graph.close();
  }
}

function legend() {
  const entry = ([kind, name]) => el("span", {}, el("i", { class: `dot kind-${kind}` }), name);
  return el("div", { class: "legend" }, Object.entries(KIND_NAMES).map(entry));
}
