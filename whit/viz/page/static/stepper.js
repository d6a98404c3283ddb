// The list of rewrites of a pass, and going through them: left side of kernels and schedules.
import { button, el, fill } from "./dom.js";
import { count } from "./format.js";
import { LongList } from "./list.js";
import { Steps } from "./steps.js";
import { codeBlock } from "./code.js";

export class Stepper {
  /** `choose(step)` is called when one is picked; `show(result)` when it can be seen. */
  constructor(rules, chunk, choose) {
    this.rules = rules;
    this.chunk = chunk;
    this.steps = null;
    this.step = 0;
    this.list = new LongList({ name: "rewrites", row: (i) => this.row(i), choose: (i) => choose(i + 1) });
    this.title = el("h4", {});
    this.previous = button("◀", "the rewrite before", () => this.step > 1 && choose(this.step - 1), "k or ←");
    this.next = button("▶", "the next rewrite", () => choose(Math.min(this.step + 1, this.total)), "j or →");
    const head = el("div", { class: "step-head" }, this.title, el("span", { class: "grow" }), this.previous, this.next);
    this.element = el("div", { class: "stepper", hidden: true }, head, this.list.element);
  }

  get total() {
    return this.steps ? this.steps.total : 0;
  }

  /** The rewrites of another place. */
  open(place, total) {
    if (this.steps?.place === place) return;
    this.steps = total ? new Steps(place, total, this.chunk) : null;
    this.step = 0;
    this.element.hidden = !total;
    this.list.chosen = -1;
    this.list.element.scrollTop = 0;
    this.list.setLength(total);
    this.head();
    if (total) this.load(1);
  }

  async load(step) {
    const { steps } = this;
    await steps.need(step);
    if (steps === this.steps) this.list.paint();
  }

  head() {
    fill(
      this.title,
      this.step ? `rewrite ${count(this.step)} of ${count(this.total)}` : `${count(this.total)} rewrites`,
    );
  }

  row(i) {
    const known = this.steps?.steps[i];
    if (!known) {
      if (this.steps && !this.asked) {
        this.asked = true;
        this.load(i + 1)
          .catch(() => {})
          .finally(() => (this.asked = false));
      }
      return [el("span", { class: "number" }, count(i + 1)), el("span", { class: "dim" }, "…")];
    }
    const [name] = this.ruleOf(known[0]);
    return [el("span", { class: "number" }, count(i + 1)), el("span", { class: "rule-name", title: name }, name)];
  }

  ruleOf(number) {
    return this.rules[number] || [`rule ${number}`, "", ""];
  }

  /** Goes to a step; gives what is to be shown, or null where it is no longer wanted. */
  async go(step, wantsWhole) {
    const { steps } = this;
    if (!steps) return null;
    this.step = Math.max(1, Math.min(step, this.total));
    this.list.choose(this.step - 1);
    this.head();
    const wanted = this.step;
    await steps.need(wanted);
    if (steps !== this.steps || wanted !== this.step) return null;
    this.list.paint();
    return steps.at(wanted, wantsWhole);
  }

  leave() {
    this.step = 0;
    this.list.chosen = -1;
    this.list.paint();
    this.head();
  }

  /** What the tab "Rule" says of a step. */
  describe(result) {
    const [name, place, source] = this.ruleOf(result.rule);
    return el(
      "div",
      { class: "details" },
      el("h3", { class: "rule-title" }, name),
      el("p", { class: "dim" }, place),
      el("h4", {}, "before"),
      el("pre", { class: "one-line removed" }, result.before),
      el("h4", {}, "after"),
      el("pre", { class: "one-line added" }, result.after),
      !result.isInGraph &&
        el("p", { class: "dim aside" }, "Beside the graph: the rule was applied to an expression on its own."),
      el("h4", {}, "the rule"),
      codeBlock(source, "source of the rule", "#"),
    );
  }

  close() {
    this.list.close();
  }
}
