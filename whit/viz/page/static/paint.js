// Drawing a graph. Far away: boxes of colour and straight lines. Near: words, and lines that bend.
import { colour, kernelColour } from "./theme.js";

export const WORDS = 0.42; // the scale from which on words can be read
const LONG = 600; // an edge that goes further is faint

const MARKS = { added: "--added", removed: "--removed" };

/** Edges, those of the node that is selected or pointed at on top. */
export function paintEdges(context, view, seen) {
  const { placed, scene, scale } = view;
  const active = view.hovered ?? view.selected;
  const activeIndex = active === null ? -1 : (scene.index.get(active) ?? -1);
  const plain = new Path2D();
  const faint = new Path2D();
  const into = new Path2D();
  const out = new Path2D();
  const bends = scale > 0.2;
  for (const route of placed.routes) {
    const [from, to] = route;
    const [x1, y1, x2, y2] = [placed.x[from], placed.y[from] + placed.nodeHeight, placed.x[to], placed.y[to]];
    if (Math.max(y1, y2) < seen.top || Math.min(y1, y2) > seen.bottom) continue;
    if (route.length === 2 && (Math.max(x1, x2) < seen.left || Math.min(x1, x2) > seen.right)) continue;
    let path = plain;
    if (to === activeIndex) path = into;
    else if (from === activeIndex) path = out;
    else if (route.length === 2 && Math.abs(x2 - x1) + Math.abs(y2 - y1) > LONG) path = faint;
    trace(path, route, x1, y1, x2, y2, bends);
  }
  const line = Math.max(1, 0.7 / scale);
  context.lineJoin = "round";
  stroke(context, faint, colour("--edge"), line, 0.28);
  stroke(context, plain, colour("--edge"), line, 0.85);
  stroke(context, into, colour("--into"), line * 2, 1);
  stroke(context, out, colour("--out"), line * 2, 1);
}

function stroke(context, path, style, width, alpha) {
  context.globalAlpha = alpha;
  context.strokeStyle = style;
  context.lineWidth = width;
  context.stroke(path);
  context.globalAlpha = 1;
}

function trace(path, route, x1, y1, x2, y2, bends) {
  path.moveTo(x1, y1);
  let [px, py] = [x1, y1];
  for (let i = 2; i <= route.length; i += 2) {
    const [x, y] = i < route.length ? [route[i], route[i + 1]] : [x2, y2];
    if (bends) {
      const middle = (py + y) / 2;
      path.bezierCurveTo(px, middle, x, middle, x, y);
    } else path.lineTo(x, y);
    [px, py] = [x, y];
  }
}

/** Nodes in view. */
export function paintNodes(context, view, seen) {
  const { placed, scene, scale } = view;
  const height = placed.nodeHeight;
  const words = scale >= WORDS;
  const dims = view.found.size > 0;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const row of placed.rows) {
    if (row.top + height < seen.top) continue;
    if (row.top > seen.bottom) break;
    for (let k = first(row, placed, seen.left - row.widest / 2); k < row.items.length; k++) {
      const i = row.items[k];
      const width = placed.widths[i];
      const left = placed.x[i] - width / 2;
      if (left > seen.right) break;
      if (left + width < seen.left) continue;
      const item = scene.nodes[i];
      context.globalAlpha = dims && !view.found.has(item.id) ? 0.25 : item.mark === "removed" ? 0.8 : 1;
      box(context, view, item, left, row.top, width, height, words);
    }
  }
  context.globalAlpha = 1;
}

/** The first item of a row whose middle is not left of this: rows can have thousands. */
function first(row, placed, left) {
  let [low, high] = [0, row.items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placed.x[row.items[middle]] < left) low = middle + 1;
    else high = middle;
  }
  return low;
}

function box(context, view, item, left, top, width, height, words) {
  const tint = item.kernel === undefined ? colour(`--kind-${item.kind}`) : kernelColour(item.kernel);
  const isActive = item.id === view.selected || item.id === view.hovered;
  const mark = MARKS[item.mark];
  const ring =
    item.id === view.selected
      ? colour("--accent")
      : mark
        ? colour(mark)
        : view.found.has(item.id)
          ? colour("--found")
          : null;
  if (!words) {
    context.fillStyle = ring || tint;
    context.fillRect(left, top, width, height);
    return;
  }
  context.beginPath();
  context.roundRect(left, top, width, height, 7);
  context.fillStyle = colour(isActive ? "--card-active" : "--card");
  context.fill();
  context.fillStyle = mark ? colour(mark) : tint;
  context.save();
  context.globalAlpha *= mark ? 0.22 : 0.2;
  context.fill();
  context.restore();
  context.lineWidth = ring ? 2.4 : 1;
  context.strokeStyle = ring || tint;
  if (item.mark === "removed") context.setLineDash([5, 3]);
  context.stroke();
  context.setLineDash([]);
  const middle = left + width / 2;
  const hasType = item.type !== "";
  context.fillStyle = colour("--ink");
  context.font = `600 12px ${colour("--mono")}`;
  context.fillText(item.label, middle, top + (hasType ? 14 : height / 2), width - 10);
  if (hasType) {
    context.fillStyle = colour("--dim");
    context.font = `10px ${colour("--mono")}`;
    context.fillText(item.type, middle, top + 29, width - 10);
  }
  if (item.isFolded) {
    context.fillStyle = tint;
    context.fillText("• • •", middle, top - 7);
  }
}
