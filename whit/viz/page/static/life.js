// What kernels and schedules have in common: stages with graphs, rewrites to go through, and an address for each.
import { button, el, fill } from "./dom.js";
import { count, plural } from "./format.js";
import { setKeys } from "./keys.js";
import { go, link, numberAfter } from "./router.js";
import { graphScene } from "./scene.js";
import { Stepper } from "./stepper.js";
import { get } from "./store.js";
import { Workspace } from "./workspace.js";

/**
 * A view with stages: [{name, note, graph, place, steps, tip}]. `subject` is the address it stands under, as
 * ["kernel", "3"]; `tabs` makes the tabs on the right; `kernelOf` finds the kernel of a
 * call, `sceneOf` makes the scene of a graph that is drawn in a way of its own.
 */
export class LifeView {
  constructor({ subject, title, stages, tabs, rules, chunk, kernelOf, sceneOf, start }) {
    Object.assign(this, { subject, stages, kernelOf, sceneOf, start });
    this.stage = -1;
    this.wantsWhole = false;
    this.opened = new Set();
    this.folded = new Set();
    this.stepper = new Stepper(rules, chunk, (step) => this.goTo(this.stage, step));
    this.list = el("ol", { class: "stages", start: "0" });
    const names = ["Rule", "Node", ...Object.keys(tabs), "Text"];
    this.space = new Workspace([title, this.list, this.stepper.element], names, {
      open: (item) => this.openCall(item),
      fold: (id) => this.fold(id),
    });
    for (const [name, make] of Object.entries(tabs)) this.space.tabs.set(name, make);
    this.space.tabs.set("Rule", () =>
      el("p", { class: "empty" }, "Go through the rewrites with j and k, or click one in the list."),
    );
    this.space.tabs.open(Object.keys(tabs)[0]);
    this.element = this.space.element;
    this.keys();
  }

  keys() {
    setKeys("Rewrites", [
      [["j", "ArrowRight"], "next rewrite, of the next pass after the last", () => this.forward()],
      [["k", "ArrowLeft"], "the rewrite before", () => this.back()],
      [["]"], "next pass", () => this.goTo(Math.min(this.stage + 1, this.stages.length - 1))],
      [["["], "the pass before", () => this.goTo(Math.max(this.stage - 1, 0))],
      [["w"], "the whole graph, or what is near the change", () => this.toggleWhole()],
      [["g"], "the graph after the pass, without a rewrite", () => this.goTo(this.stage)],
    ]);
    this.space.keys({ open: (item) => this.openCall(item), fold: (id) => this.fold(id) });
  }

  goTo(stage, step = 0) {
    const tail = step ? ["step", step] : [];
    go(link(...this.subject, "pass", stage, ...tail), step > 0 && this.stepper.step > 0 && stage === this.stage);
  }

  forward() {
    if (this.stepper.step < this.stepper.total) return this.goTo(this.stage, this.stepper.step + 1);
    const next = this.stages.findIndex((stage, i) => i > this.stage && stage.steps > 0);
    if (next >= 0) this.goTo(next, 1);
  }

  back() {
    if (this.stepper.step > 1) return this.goTo(this.stage, this.stepper.step - 1);
    const before = this.stages.findLastIndex((stage, i) => i < this.stage && stage.steps > 0);
    if (before >= 0) this.goTo(before, this.stages[before].steps);
  }

  toggleWhole() {
    this.wantsWhole = !this.wantsWhole;
    if (this.stepper.step) this.showStep(this.stepper.step);
  }

  /** Shows what an address names. */
  async update(path) {
    const wanted = numberAfter(path, "pass") ?? this.start;
    const stage = Math.max(0, Math.min(wanted, this.stages.length - 1));
    const step = numberAfter(path, "step") ?? 0;
    const isOther = stage !== this.stage;
    const wasStep = this.stepper.step > 0;
    if (isOther) {
      this.stage = stage;
      this.opened.clear();
      this.folded.clear();
      this.stepper.open(this.stages[stage].place, this.stages[stage].steps);
    }
    this.paintStages();
    if (step && this.stages[stage].steps) await this.showStep(step);
    else {
      this.stepper.leave();
      if (isOther || wasStep || !this.graph) await this.showGraph();
    }
  }

  paintStages() {
    const row = (stage, i) =>
      el(
        "li",
        { class: i === this.stage ? "chosen" : "" },
        el(
          "button",
          { type: "button", title: stage.tip || null, onclick: () => this.goTo(i) },
          el("span", { class: "stage-name" }, stage.name),
          el("span", { class: "dim" }, stage.note),
          el("i", { class: "bar", style: { width: `${(100 * (stage.share || 0)).toFixed(1)}%` } }),
        ),
      );
    fill(this.list, this.stages.map(row));
  }

  async showGraph(keep = false) {
    const { stage } = this;
    const { graph } = this.stages[stage];
    fill(this.space.extra);
    this.space.busy();
    if (graph < 0) {
      this.space.say(
        "This graph was not recorded: it was made before the recording, or left out because of VIZ_LIMIT.",
      );
      return;
    }
    this.graph = await get(`graph/${graph}`);
    if (stage !== this.stage || this.stepper.step) return;
    const { text } = this.graph;
    this.space.tabs.set("Text", () => el("pre", { class: "code plain" }, text));
    const scene = this.sceneOf?.(this.graph, this.opened) ?? graphScene(this.graph, this.folded);
    await this.space.graph.show(scene, { keep });
  }

  async showStep(step) {
    this.space.busy();
    const result = await this.stepper.go(step, this.wantsWhole);
    if (!result) return;
    this.space.tabs.set("Rule", () => this.stepper.describe(result));
    this.space.tabs.open("Rule");
    this.space.graph.selected = null;
    await this.space.graph.show(result.scene, { focus: result.focus });
    const shown = result.scene.nodes.length;
    if (result.isPart) fill(this.space.size, `${count(shown)} of ${plural(result.size, "node")}`);
    if (!result.isInGraph) fill(this.space.size, `beside the graph, ${plural(shown, "node")}`);
    const marks = [el("i", { class: "dot added" }), "added", el("i", { class: "dot removed" }), "removed"];
    const whole = result.isInGraph && (result.isPart || this.wantsWhole);
    fill(
      this.space.extra,
      el("span", { class: "marks" }, marks),
      whole &&
        button(
          this.wantsWhole ? "Near" : "Whole",
          "the whole graph, or what is near the change",
          () => this.toggleWhole(),
          "w",
        ),
    );
  }

  /** Folds what is below a node, or shows the function of a call in its place. */
  fold(id) {
    const item = id === null ? null : this.space.graph.node(id);
    if (!item || this.stepper.step || !this.graph) return;
    const set = item.callee ? this.opened : this.folded;
    if (!set.delete(id)) set.add(id);
    this.showGraph(true);
  }

  openCall(item) {
    const kernel = item?.callee && this.kernelOf ? this.kernelOf(item, this.graph) : undefined;
    if (kernel !== undefined) go(link("kernel", kernel));
    else if (item) this.fold(item.id);
  }

  close() {
    this.stepper.close();
    this.space.close();
  }
}
