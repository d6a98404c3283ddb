// The rewrites of one place: the graph before and after any of them.
//
// Slots and what becomes of them come from the server (whit/viz/page/replay.py); a step is [rule, slot before, slot
// after, number of slots then].
import { expression, stepScene } from "./scene.js";
import { get } from "./store.js";

const WHOLE = 160; // a graph of more nodes is shown around the change only
const NEAR = 36; // nodes of that
const FEW = 6; // sources and users of one node among them
const BELOW = 24; // nodes below a node that is in no graph
const WIDE = 400; // nodes below it that are looked at, to tell what is shared

export class Steps {
  constructor(place, total, chunk) {
    this.place = place;
    this.total = total;
    this.size = chunk;
    this.rows = [];
    this.steps = [];
    this.root = -1;
    this.loading = Promise.resolve();
  }

  /** Loads up to this step; chunks build on each other. */
  need(step) {
    const wanted = Math.floor(Math.min(Math.max(step, 1), this.total) - 1);
    this.loading = this.loading.then(async () => {
      while (this.steps.length <= wanted) {
        const chunk = await get(`steps/${this.place}/${Math.floor(this.steps.length / this.size)}`);
        if (!chunk.steps.length) throw new Error("the rewrites end before they should");
        this.root = chunk.root;
        for (const row of chunk.rows) this.rows.push(row);
        for (const one of chunk.steps) this.steps.push(one);
      }
    });
    const result = this.loading;
    this.loading = this.loading.catch(() => {});
    return result;
  }

  /** What slots stand for after so many steps. */
  after(step) {
    const became = new Map();
    for (let i = 0; i < step; i++) {
      const [, from, to] = this.steps[i];
      if (from >= 0 && to >= 0 && from !== to) became.set(from, to);
    }
    return (slot) => {
      let now = slot;
      for (let i = 0; became.has(now) && i < 10_000; i++) now = became.get(now);
      return now;
    };
  }

  /** Slots below a slot, nearest first, at most so many. */
  below(slot, resolve, most = Infinity) {
    const found = new Set();
    let row = slot >= 0 ? [resolve(slot)] : [];
    while (row.length && found.size < most) {
      const next = [];
      for (const one of row) {
        if (found.has(one) || found.size >= most) continue;
        found.add(one);
        for (const operand of this.rows[one][1]) if (typeof operand === "number") next.push(resolve(operand));
      }
      row = next;
    }
    return found;
  }

  /** One step: its rule, expressions, and a scene with what it added and removed. */
  at(step, wantsWhole) {
    const [rule, from, to] = this.steps[step - 1];
    const [before, after] = [this.after(step - 1), this.after(step)];
    const old = this.below(this.root, before);
    const isInGraph = from >= 0 && old.has(from);
    const scene = isInGraph
      ? this.change(from, to, before, after, old, wantsWhole)
      : this.aside(from, to, before, after);
    return {
      rule,
      isInGraph,
      before: from >= 0 ? expression(this.rows, (slot) => (slot === from ? slot : before(slot)), from) : "?",
      after:
        to >= 0
          ? expression(this.rows, (slot) => (slot === from ? slot : after(slot)), to)
          : "a constant, or not recorded",
      ...scene,
    };
  }

  /** A change in the graph. */
  change(from, to, before, after, old, wantsWhole) {
    const now = this.below(this.root, after);
    const all = new Set([...old, ...now]);
    const sourcesOf = (slot) => {
      const resolve = now.has(slot) ? after : before;
      return this.rows[slot][1].filter((operand) => typeof operand === "number").map(resolve);
    };
    const changed = [...all].filter((slot) => old.has(slot) !== now.has(slot));
    changed.push(...[from, to].filter((slot) => slot >= 0 && all.has(slot)));
    const isLarge = all.size > WHOLE && !wantsWhole;
    const shown = isLarge ? around(changed, all, sourcesOf) : all;
    const mark = (slot) => (old.has(slot) ? (now.has(slot) ? "" : "removed") : "added");
    const items = [...shown].map((slot) => [slot, this.rows[slot], sourcesOf(slot), mark(slot)]);
    return { scene: stepScene(items), focus: changed, isPart: isLarge, size: all.size };
  }

  /** A change beside the graph, as rules make in expressions that are not part of it, or not yet. */
  aside(from, to, before, after) {
    const beforeIt = (slot) => (slot === from ? slot : before(slot));
    const afterIt = (slot) => (slot === from ? slot : after(slot));
    const [old, now] = [this.below(from, beforeIt, WIDE), this.below(to, afterIt, WIDE)];
    const shown = new Set([...this.below(from, beforeIt, BELOW), ...this.below(to, afterIt, BELOW)]);
    const items = [...shown].map((slot) => {
      const sources = this.rows[slot][1].filter((operand) => typeof operand === "number");
      const mark = old.has(slot) === now.has(slot) ? "" : old.has(slot) ? "removed" : "added";
      return [slot, this.rows[slot], sources.map(now.has(slot) ? afterIt : beforeIt), mark];
    });
    const focus = items.filter((item) => item[3] !== "").map((item) => item[0]);
    return { scene: stepScene(items), focus, isPart: false, size: items.length };
  }
}

/** What lies nearest around slots, up and down. */
function around(changed, all, sourcesOf) {
  const users = new Map();
  for (const slot of all) for (const source of sourcesOf(slot)) users.set(source, [...(users.get(source) || []), slot]);
  const found = new Set(changed);
  let row = changed;
  while (row.length && found.size < NEAR) {
    const next = [];
    for (const slot of row) {
      for (const other of [...sourcesOf(slot).slice(0, FEW), ...(users.get(slot) || []).slice(0, FEW)]) {
        if (found.has(other) || !all.has(other) || found.size >= NEAR) continue;
        found.add(other);
        next.push(other);
      }
    }
    row = next;
  }
  return found;
}
