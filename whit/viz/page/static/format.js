// Numbers for people.

/** A duration with a unit that suits it: "12.3 µs". */
export function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${trimmed(ns)} ns`;
  if (size < 1e6) return `${trimmed(ns / 1e3)} µs`;
  if (size < 1e9) return `${trimmed(ns / 1e6)} ms`;
  return `${trimmed(ns / 1e9)} s`;
}

/** Bytes: "16.4 kB". */
export function bytes(amount) {
  const size = Math.abs(amount);
  if (size >= 1e9) return `${trimmed(amount / 1e9)} GB`;
  if (size >= 1e6) return `${trimmed(amount / 1e6)} MB`;
  if (size >= 1e3) return `${trimmed(amount / 1e3)} kB`;
  return `${Math.round(amount)} B`;
}

/** A large number: "524 k". */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trimmed(value / 1e9)} G`;
  if (size >= 1e6) return `${trimmed(value / 1e6)} M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)} k`;
  return count(Math.round(value));
}

/** Three digits that count. */
export function trimmed(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");
}

/** 12,345 */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** "1 kernel", "2 kernels" */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** The last part of a path. */
export function basename(path) {
  return String(path).split(/[\\/]/).pop();
}

/** The innermost line of a stack: "train.py:12". */
export function place(frames) {
  return frames && frames.length ? `${basename(frames[0][0])}:${frames[0][1]}` : "";
}
