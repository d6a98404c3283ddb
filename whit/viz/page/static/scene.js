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
  if (item.title) return item.title;
  let detail = item.callee || item.detail;
  if (item.op === "range") detail = detail.replace(/,? ?id=(\d+), kind=/, " r$1 ");
  if (item.type) detail = detail.replace(`, ${item.type}`, "");
  const cut = detail.length > LONGEST ? `${detail.slice(0, LONGEST - 1)}…` : detail;
  return cut ? `${item.op} ${cut}` : item.op;
}

/** A line as in the text form: "%3 = mul %1, 8". */
export function lineOf(item, nameOf) {
  const operands = item.operands.map((operand) => (typeof operand === "string" ? operand : nameOf(operand)));
  const right = `${item.op} ${[...operands, item.argument].filter((text) => text !== "").join(", ")}`.trim();
  return item.name ? `${item.name} = ${right}` : right;
}

/** The scene of a document "graph/...". `folded` has the nodes below which nothing is shown. */
export function graphScene(graph, folded) {
  const nodes = new Map();
  const stack = graph.root >= 0 ? [graph.root] : [];
  while (stack.length) {
    const number = stack.pop();
    const id = String(number);
    if (nodes.has(id)) continue;
    const row = graph.rows[number];
    const below = row[1].filter((operand) => typeof operand === "number");
    const isFolded = folded.has(id) && below.length > 0;
    const callee = graph.functions[graph.calls[number]]?.name;
    nodes.set(
      id,
      node(id, row, graph.names[number], isFolded ? [] : below.map(String), { callee, isFolded, inside: "" }),
    );
    if (!isFolded) stack.push(...below);
  }
  return finished(nodes);
}

/** A scene of explicit nodes: [[id, row, sources, mark], ...]; for rewrites. */
export function stepScene(items) {
  const nodes = new Map();
  for (const [id, row, sources, mark] of items) nodes.set(id, node(id, row, "", sources, { mark }));
  return finished(nodes);
}

/**
 * The scene of a schedule: its calls, each below those it waits for. `needs` has [call, argument] pairs for each call,
 * `calls` its kernel, and `names` what it computes.
 */
export function callScene(graph, { needs, calls: kernels, names }, opened) {
  const nodes = new Map();
  const calls = graph.rows[graph.root][1];
  calls.forEach((number, i) => {
    const called = graph.functions[graph.calls[number]];
    const wanted = (needs[i] || []).map(([call, argument]) => [String(calls[call]), argument]);
    const id = String(number);
    const isOpen = opened.has(id) && called && called.root >= 0;
    const sources = isOpen ? [`${id}:${called.root}`] : wanted.map(([call]) => call);
    nodes.set(
      id,
      node(id, graph.rows[number], graph.names[number], sources, {
        callee: called?.name ?? "",
        title: names[i],
        order: i,
        kernel: kernels[i],
      }),
    );
    nodes.get(id).type = `k${kernels[i]}`;
    if (isOpen) addBody(nodes, called, id, wanted);
  });
  return finished(nodes);
}

/** The nodes of a function in the place of a call. Its parameters come from the calls that wrote them. */
function addBody(nodes, called, call, wanted) {
  called.rows.forEach((row, number) => {
    const isParam = row[0] === "param";
    const slot = Number.parseInt(row[2], 10);
    const below = row[1].filter((operand) => typeof operand === "number").map((operand) => `${call}:${operand}`);
    const sources = isParam ? wanted.filter(([, argument]) => argument === slot).map(([other]) => other) : below;
    const id = `${call}:${number}`;
    nodes.set(id, node(id, row, called.names[number], sources, { inside: `${call}:` }));
  });
}

/** A scene of explicit nodes, whose sources are ids. */
export function sceneOf(items) {
  return finished(new Map(items.map((item) => [item.id, item])));
}

/** Numbers the nodes, lists the edges that have both ends, and finds the users of each node. */
function finished(nodes) {
  const list = [...nodes.values()];
  const index = new Map(list.map((item, i) => [item.id, i]));
  const pairs = [];
  list.forEach((item) => (item.users = []));
  // A program lists every line: only those that nobody else uses hang on it.
  const used = new Set(list.filter((item) => item.op !== "linear").flatMap((item) => item.sources));
  list.forEach((item, i) => {
    for (const source of new Set(item.sources)) {
      const from = index.get(source);
      if (from === undefined || from === i || (item.op === "linear" && used.has(source))) continue;
      pairs.push(from, i);
      list[from].users.push(item.id);
    }
  });
  return { nodes: list, index, pairs };
}

// prettier-ignore
const INFIX = {
  add: "+", sub: "-", mul: "*", fdiv: "/", floordiv: "//", floormod: "%", lt: "<", le: "<=", eq: "==", ne: "!=",
  and: "&", or: "|", xor: "^", shl: "<<", shr: ">>",
};

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
  const texts = operands.map((o) =>
    typeof o === "string" ? o.replace(/:\w+$/, "") : expression(rows, resolve, o, depth - 1),
  );
  if (INFIX[op] && texts.length === 2) return `(${texts.join(` ${INFIX[op]} `)})`;
  if (op === "index" || op === "load") return `${texts[0]}[${texts.slice(1).join(", ")}]`;
  return `${op}(${[...texts, argument].filter((text) => text !== "").join(", ")})`;
}
