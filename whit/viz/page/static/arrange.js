// Layouts of graphs: small ones at once, large ones in a worker, so that the page never stands still.
import { layout } from "./layout.js";

const SMALL = 300;
let worker = null;
let tickets = 0;
const waiting = new Map();

function start() {
  const embedded = document.getElementById("worker");
  const made = embedded
    ? new Worker(URL.createObjectURL(new Blob([embedded.textContent], { type: "text/javascript" })))
    : new Worker("/page/worker.js", { type: "module" });
  made.onmessage = ({ data }) => {
    waiting.get(data.ticket)?.resolve(data.placed);
    waiting.delete(data.ticket);
  };
  made.onerror = () => {
    // No worker here, as in some browsers with files from disk: the page computes the layout itself.
    worker = "none";
    for (const { job, resolve } of waiting.values()) resolve(layout(job.count, job.widths, job.pairs));
    waiting.clear();
  };
  return made;
}

/** Where nodes and edges go; a promise. */
export function arrange(count, widths, pairs) {
  if (count <= SMALL) return Promise.resolve(layout(count, widths, pairs));
  try {
    worker ||= start();
  } catch {
    worker = "none";
  }
  if (worker === "none") return Promise.resolve(layout(count, widths, pairs));
  return new Promise((resolve) => {
    const job = { ticket: ++tickets, count, widths, pairs };
    waiting.set(job.ticket, { job, resolve });
    worker.postMessage(job);
  });
}
