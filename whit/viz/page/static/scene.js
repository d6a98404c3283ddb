// From rows to what is drawn: nodes with labels, and edges between them.
//
// A row is [op, operands, argument, type, range]; an operand is the number of a row, or the text of a constant.
import { kindOf } from "./theme.js";

const LONGEST = 26; // letters of a label

/** A node of a scene. `sources` are ids, in the order of the operands. */
function node(id, row, name, sources, extra = {}) {
  const [op, operands, argument, type, range] = row;
  const constants = operands.filter((operand) => typeof operand === "string");
  const detail = [...constants, argument].filter((text) => text !== "").join(", ");
  return { id, op, detail, operands, argument, type, range, name, sources, kind: kindOf(op), ...extra };
}

/** The words in a node's box: its op and what is special about it. */
export function label(item) {
  const detail = item.callee || item.detail;
  const cut = detail.length > LONGEST ? `${detail.slice(0, LONGEST - 1)}…` : detail;
  return cut ? `${item.op} ${cut}` : item.op;
}

/** A line as in the text form: "%3 = mul %1, 8". */
export function lineOf(item, nameOf) {
  const operands = item.operands.map((operand) => (typeof operand === "string" ? operand : nameOf(operand)));
  const right = `${item.op} ${[...operands, item.argument].filter((text) => text !== "").join(", ")}`.trim();
  return item.name ? `${item.name} = ${right}` : right;
}

/**
 * The scene of a document "graph/...". `opened` has the calls whose function is shown in their place, `folded` the
 * nodes below which nothing is shown.
 */
export function graphScene(graph, opened, folded) {
  const nodes = new Map();
  const stack = graph.root >= 0 ? [["", graph, graph.root]] : [];
  const idOf = (prefix, number) => `${prefix}${number}`;
  while (stack.length) {
    const [prefix, scope, number] = stack.pop();
    const id = idOf(prefix, number);
    if (nodes.has(id)) continue;
    const row = scope.rows[number];
    const callee = scope.calls[number];
    const called = callee === undefined ? null : graph.functions[callee];
    const below = row[1].filter((operand) => typeof operand === "number");
    let sources = below.map((operand) => idOf(prefix, operand));
    if (called && opened.has(id) && called.root >= 0) {
      const inner = `${id}:`;
      sources = [idOf(inner, called.root)];
      stack.push([inner, called, called.root]);
    } else if (!folded.has(id)) {
      below.forEach((operand) => stack.push([prefix, scope, operand]));
    }
    if (prefix && row[0] === "param") sources = argumentOf(graph, prefix, row, stack);
    const isFolded = folded.has(id) && below.length > 0;
    nodes.set(
      id,
      node(id, row, scope.names[number], isFolded ? [] : sources, { callee: called?.name, isFolded, inside: prefix }),
    );
  }
  return finished(nodes);
}

/** What a call gives for a parameter of its function, which is shown in its place. */
function argumentOf(graph, prefix, row, stack) {
  const path = prefix.split(":").slice(0, -1);
  const call = Number(path[path.length - 1]);
  const outer = path.length > 1 ? `${path.slice(0, -1).join(":")}:` : "";
  let scope = graph;
  for (const step of path.slice(0, -1)) scope = graph.functions[scope.calls[step]];
  const argument = scope.rows[call][1].slice(1)[Number.parseInt(row[2], 10)];
  if (typeof argument !== "number") return [];
  stack.push([outer, scope, argument]);
  return [`${outer}${argument}`];
}

/** A scene of explicit nodes: [[id, row, sources, mark], ...]; for rewrites. */
export function stepScene(items) {
  const nodes = new Map();
  for (const [id, row, sources, mark] of items) nodes.set(id, node(id, row, "", sources, { mark }));
  return finished(nodes);
}

/** Numbers the nodes, lists the edges that have both ends, and finds the users of each node. */
function finished(nodes) {
  const list = [...nodes.values()];
  const index = new Map(list.map((item, i) => [item.id, i]));
  const pairs = [];
  list.forEach((item) => (item.users = []));
  list.forEach((item, i) => {
    for (const source of new Set(item.sources)) {
      const from = index.get(source);
      if (from === undefined || from === i) continue;
      pairs.push(from, i);
      list[from].users.push(item.id);
    }
  });
  return { nodes: list, index, pairs };
}

const INFIX = {
  add: "+", sub: "-", mul: "*", fdiv: "/", floordiv: "//", floormod: "%", lt: "<", le: "<=", eq: "==", ne: "!=",
  and: "&", or: "|", xor: "^", shl: "<<", shr: ">>",
}; // prettier-ignore

/** An expression of at most `depth` levels: "(r0*3 + …) // 4". */
export function expression(rows, resolve, slot, depth = 5) {
  const row = rows[resolve(slot)];
  if (!row) return "…";
  const [op, operands, argument] = row;
  if (op === "range") return `r${/id=(\d+)/.exec(argument)?.[1] ?? ""}`;
  if (op === "param") return `p${argument.split(",")[0]}`;
  if (op === "buffer") return `b${argument.split(",")[0]}`;
  if (op === "const" || op === "variable") return argument.split(",")[0].replace(/"/g, "");
  if (depth === 0) return "…";
  const texts = operands.map((o) => (typeof o === "string" ? o.replace(/:\w+$/, "") : expression(rows, resolve, o, depth - 1)));
  if (INFIX[op] && texts.length === 2) return `(${texts.join(` ${INFIX[op]} `)})`;
  if (op === "index" || op === "load") return `${texts[0]}[${texts.slice(1).join(", ")}]`;
  return `${op}(${[...texts, argument].filter((text) => text !== "").join(", ")})`;
}
