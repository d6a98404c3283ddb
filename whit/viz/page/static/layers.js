// The model as a graph of its layers: parameters, and the time of each, forward, backward and in the optimiser.
import { Tabs } from "./code.js";
import { button, el, fill, splitter } from "./dom.js";
import { bytes, count, duration, plural } from "./format.js";
import { GraphView } from "./graph.js";
import { setKeys } from "./keys.js";
import { go, link } from "./router.js";
import { sceneOf } from "./scene.js";
import { get } from "./store.js";
import { Table } from "./table.js";

const PHASES = ["forward", "backward", "step"];

// Sorts of layers by their class, with the colours of ops that are like them.
const SORTS = [
  ["embeddings", "access", /embedding|^gather/i],
  ["norms", "reduce", /norm/i],
  ["attention, recurrence", "loop", /attention|lstm|gru|rnn/i],
  ["products, convolutions", "math", /linear|conv|bilinear|dense|proj|matmul|gemm|einsum/i],
  ["losses, activations", "choose", /loss|elu|gelu|relu|silu|softmax|sigmoid|tanh|dropout|activation/i],
];
const OTHER = ["other layers", "call"];

const sortOf = (kind) => SORTS.find(([, , pattern]) => pattern.test(kind)) ?? OTHER;
const total = (ns) => PHASES.reduce((sum, phase) => sum + ns[phase], 0);
const shape = (sizes) => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;
const nameOf = (layer) => layer.path || "the model";
const layerOf = (part) => part.split("#")[0]; // what a layer does after layers inside of it is a part of it: "a.b#2"

export async function layersView(main, path) {
  const data = await get("layers");
  if (!data.layers.length) {
    main.append(
      el(
        "div",
        { class: "empty" },
        el("h2", {}, "No layers were recorded"),
        el("p", {}, "A layer is an object whose method makes tensors. Recordings of older versions have none."),
      ),
    );
    setKeys("Layers", []);
    return {};
  }
  const view = new LayersView(data);
  main.append(view.element);
  await view.update(path);
  return view;
}

class LayersView {
  constructor(data) {
    this.data = data;
    this.layers = new Map(data.layers.map((layer) => [layer.path, layer]));
    this.parents = new Map(data.layers.map((layer) => [layer.path, this.parentOf(layer.path)]));
    this.depths = new Map(data.layers.map((layer) => [layer.path, this.around(layer.path).length]));
    this.deepest = Math.max(...this.depths.values());
    this.depth = this.deepest;
    this.whole = Math.max(1, total(data.rest.ns) + data.layers.reduce((sum, layer) => sum + total(layer.ns), 0));
    this.tabs = new Tabs(["Layer", "Kernels"]);
    this.graph = new GraphView({
      select: (item) => this.chosen(item ? layerOf(item.id) : null),
      placed: () => fill(this.size, plural(this.graph.scene.nodes.length, "layer")),
    });
    this.size = el("span", { class: "dim size" });
    this.level = el("span", { class: "dim" });
    this.list = el("ol", { class: "stages tree", "aria-label": "layers" });
    this.left = el("aside", { class: "panel left" }, this.title(), this.list);
    const toolbar = el(
      "div",
      { class: "toolbar" },
      button("Outer", "only layers that lie further out", () => this.show(this.depth - 1), "["),
      button("Inner", "the layers inside of them, too", () => this.show(this.depth + 1), "]"),
      this.level,
      el("span", { class: "grow" }),
      this.size,
      button("Fit", "show all of it", () => this.graph.home(null), "f"),
      button("−", "smaller", () => this.graph.zoom(1 / 1.3), "-"),
      button("+", "larger", () => this.graph.zoom(1.3), "+"),
    );
    this.element = el(
      "div",
      { class: "workspace" },
      this.left,
      splitter(this.left, 1, "left"),
      el("section", { class: "middle" }, toolbar, el("div", { class: "stage" }, this.graph.canvas), legend()),
      splitter(this.tabs.element, -1, "right"),
      this.tabs.element,
    );
    setKeys("Layers", [
      [["ArrowUp"], "follow an edge to where values come from", () => this.graph.follow(-1)],
      [["ArrowDown"], "follow an edge to where values go", () => this.graph.follow(1)],
      [["<", ">"], "the layer beside it", (event) => this.graph.beside(event.key === "<" ? -1 : 1)],
      [["["], "only layers that lie further out", () => this.show(this.depth - 1)],
      [["]"], "the layers inside of them, too", () => this.show(this.depth + 1)],
      [["f"], "fit all of it into view", () => this.graph.home(null)],
      [["+", "="], "larger", () => this.graph.zoom(1.3)],
      [["-"], "smaller", () => this.graph.zoom(1 / 1.3)],
      [["t"], "next tab on the right", () => this.tabs.next()],
      [["Escape"], "select nothing", () => this.graph.select(null)],
    ]);
    this.describe(null);
  }

  /** Shows the layer that the address names: "#/layers/blocks.0.attn". */
  async update(path) {
    const wanted = path[1] === undefined ? null : path[1] === "-" ? "" : path[1];
    if (!this.graph.placed) await this.show(this.depth);
    if (wanted !== null && this.layers.has(wanted) && this.graph.selected !== wanted) {
      if (this.graph.scene.index.has(wanted)) this.graph.select(wanted, true);
      else this.describe(wanted);
    }
  }

  // ---- where layers are

  parentOf(path) {
    if (path === "") return null;
    let outer = path;
    while (outer.includes(".")) {
      outer = outer.slice(0, outer.lastIndexOf("."));
      if (this.layers.has(outer)) return outer;
    }
    return this.layers.has("") ? "" : null;
  }

  /** The layers that one is in, from it outward. */
  around(path) {
    const found = [];
    for (let outer = this.parentOf(path); outer !== null; outer = this.parentOf(outer)) found.push(outer);
    return found;
  }

  /** The layer in which one is seen at the depth that is shown. */
  seenIn(path) {
    const chain = [path, ...this.around(path)];
    return chain.find((each) => this.depths.get(each) <= this.depth) ?? path;
  }

  // ---- the graph

  async show(depth) {
    this.depth = Math.max(Math.min(1, this.deepest), Math.min(this.deepest, depth));
    fill(this.level, `${this.depth} of ${this.deepest} levels`);
    const sources = new Map();
    for (const [from, to] of this.data.flows) {
      const [source, target] = [from, to].map((part) => {
        const seen = this.seenIn(layerOf(part));
        return seen === layerOf(part) && this.isOpen(seen) ? part : seen;
      });
      if (source === target) continue;
      for (const path of [source, target]) if (!sources.has(path)) sources.set(path, new Set());
      sources.get(target).add(source);
    }
    const inside = new Set([...this.parents.values()].filter((outer) => outer !== null));
    for (const path of this.layers.keys())
      if (!inside.has(path) && !sources.has(this.seenIn(path))) sources.set(this.seenIn(path), new Set());
    await this.graph.show(sceneOf([...sources].map(([path, from]) => this.node(path, [...from]))));
    this.paintList();
  }

  /** Whether the layers inside of one are shown. */
  isOpen(path) {
    return this.depth > this.depths.get(path) && [...this.parents.values()].includes(path);
  }

  node(part, sources) {
    const [path, number] = part.split("#");
    const layer = this.layers.get(path);
    const [, kind] = sortOf(layer.kind);
    const isOpen = this.isOpen(path);
    if (number) return this.furtherPart(part, layer, number, sources, kind);
    const ns = total(isOpen ? layer.ns : layer.all_ns);
    const parameters = layer.parameters.map((each) => `${each.name} ${shape(each.shape)}`).join(", ");
    const size = !isOpen && layer.all_bytes ? bytes(layer.all_bytes) : "";
    const facts = [layer.parameters.length <= 3 ? parameters : plural(layer.parameters.length, "tensor"), size];
    return {
      id: path,
      op: layer.kind,
      detail: "",
      title: `${nameOf(layer)}  ${layer.kind}`,
      operands: [],
      argument: parameters,
      type: [...facts, ns ? duration(ns) : ""].filter(Boolean).join(" · "),
      range: "",
      name: "",
      sources,
      kind,
    };
  }

  /** What a layer does itself, after layers inside of it. */
  furtherPart(id, layer, number, sources, kind) {
    const title = `${nameOf(layer)}  ${layer.kind} (${number})`;
    return { id, op: layer.kind, detail: "", title, operands: [], argument: "", type: "", range: "", name: "", sources, kind };
  }

  // ---- beside it

  title() {
    const root = this.data.layers[0];
    const parameters = this.data.layers.flatMap((layer) => layer.parameters);
    const numbers = parameters.reduce((sum, each) => sum + each.shape.reduce((product, size) => product * size, 1), 0);
    const size = parameters.reduce((sum, each) => sum + each.bytes, 0);
    return el(
      "div",
      { class: "title" },
      el("h2", {}, root.path === "" ? root.kind : "Layers"),
      el("p", { class: "dim" }, `${count(numbers)} numbers in ${plural(parameters.length, "tensor")}, ${bytes(size)}`),
      el("p", { class: "dim" }, `${duration(this.whole)} in all, ${duration(total(this.data.rest.ns))} outside of layers`),
    );
  }

  paintList() {
    const row = (layer) => {
      const outer = this.parents.get(layer.path);
      const name = layer.path === "" ? "the model" : outer ? layer.path.slice(outer.length + 1) : layer.path;
      const ns = total(layer.all_ns);
      return el(
        "li",
        { class: layer.path === this.described ? "chosen" : "" },
        el(
          "button",
          {
            type: "button",
            title: `${nameOf(layer)}: ${layer.kind}`,
            style: { paddingLeft: `${16 + 12 * this.depths.get(layer.path)}px` },
            onclick: () => this.pick(layer.path),
          },
          el("span", { class: "stage-name" }, name, " ", el("span", { class: "dim" }, layer.kind)),
          el("span", { class: "dim" }, ns ? duration(ns) : ""),
          el("i", { class: "bar", style: { width: `${((100 * ns) / this.whole).toFixed(1)}%` } }),
        ),
      );
    };
    fill(this.list, this.data.layers.map(row));
  }

  pick(path) {
    if (this.graph.scene.index.has(path)) this.graph.select(path, true);
    else this.chosen(path);
  }

  chosen(path) {
    go(path === null ? link("layers") : link("layers", path || "-"), true);
    this.describe(path);
  }

  describe(path) {
    this.described = path;
    this.paintList();
    const layer = path === null ? null : this.layers.get(path);
    this.tabs.set("Layer", () =>
      layer ? this.facts(layer) : el("p", { class: "empty" }, "Click a layer, or go from one to the next with ↑ and ↓."),
    );
    this.tabs.set("Kernels", () => kernels(layer ? this.inside(path) : [this.data.rest], layer));
  }

  /** A layer and those inside of it. */
  inside(path) {
    return this.data.layers.filter((each) => each.path === path || this.around(each.path).includes(path));
  }

  facts(layer) {
    const fact = (name, text) => text && [el("dt", {}, name), el("dd", {}, text)];
    const share = (ns) => `${duration(ns)}, ${((100 * ns) / this.whole).toFixed(1)} %`;
    const parameter = (each) =>
      el(
        "div",
        { class: "call" },
        el("span", {}, each.name),
        el("span", { class: "dim" }, `${each.dtype}${shape(each.shape)}`),
        el("span", { class: "dim" }, bytes(each.bytes)),
      );
    const near = (title, paths) =>
      paths.length > 0 && [
        el("h4", {}, title),
        paths.map((other) =>
          el(
            "button",
            { type: "button", class: "edge", onclick: () => this.pick(other) },
            el("i", { class: `dot kind-${sortOf(this.layers.get(other).kind)[1]}` }),
            el("span", {}, other || "the model"),
            el("span", { class: "dim" }, this.layers.get(other).kind),
          ),
        ),
      ];
    const { flows } = this.data;
    const others = (paths) => [...new Set(paths)].filter((path) => path !== layer.path);
    return el(
      "div",
      { class: "details" },
      el("h3", {}, el("i", { class: `dot kind-${sortOf(layer.kind)[1]}` }), nameOf(layer)),
      el(
        "dl",
        { class: "facts" },
        fact("class", layer.kind),
        PHASES.map((phase) => layer.all_ns[phase] > 0 && fact(phase, share(layer.all_ns[phase]))),
        fact("parameters", layer.all_bytes ? bytes(layer.all_bytes) : ""),
        fact("kernels move", layer.moved_bytes ? bytes(layer.moved_bytes) : ""),
        fact("launches", count(this.inside(layer.path).reduce((sum, each) => sum + each.launches, 0))),
      ),
      layer.parameters.length > 0 && [el("h4", {}, "parameters"), layer.parameters.map(parameter)],
      near(
        "values come from",
        others(flows.filter(([, to]) => layerOf(to) === layer.path).map(([from]) => layerOf(from))),
      ),
      near(
        "values go to",
        others(flows.filter(([from]) => layerOf(from) === layer.path).map(([, to]) => layerOf(to))),
      ),
    );
  }

  close() {
    this.graph.close();
  }
}

/** The launches of layers, by what they compute. */
function kernels(layers, layer) {
  const rows = layers.flatMap((each) => each.kernels);
  if (!rows.length) return el("p", { class: "empty" }, "No kernel is called after this layer: others compute it.");
  const longest = Math.max(...rows.map((row) => row.ns));
  const table = new Table(
    [
      { name: "computes", left: true, text: (row) => row.name, value: (row) => row.name },
      { name: "runs", text: (row) => count(row.runs), value: (row) => row.runs },
      { name: "time", text: (row) => duration(row.ns), value: (row) => row.ns, mark: (row) => row.ns / longest },
      { name: "kernel", text: (row) => row.kernel, value: (row) => Number(row.kernel.slice(1)) },
    ],
    rows,
    { name: "kernels of the layer", sort: "time", link: (row) => link("kernel", row.kernel.slice(1)) },
  );
  return el(
    "div",
    { class: "details" },
    el("h3", {}, layer ? nameOf(layer) : "outside of layers"),
    el("p", { class: "dim" }, "A kernel counts for the layer that it is called after."),
    el("div", { class: "table holders" }, table.element),
  );
}

function legend() {
  const entry = ([name, kind]) => el("span", {}, el("i", { class: `dot kind-${kind}` }), name);
  return el("div", { class: "legend" }, [...SORTS, OTHER].map(entry));
}
