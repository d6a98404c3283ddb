// Dark and light: as the system has it, until one is chosen. Canvases read their colours from the style sheet.
import { recall, remember } from "./dom.js";

const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let colours = new Map();

function apply() {
  const chosen = recall("theme");
  root.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
  colours = new Map();
  listeners.forEach((listener) => listener());
}

/** The other one. */
export function toggleTheme() {
  remember("theme", root.dataset.theme === "dark" ? "light" : "dark");
  apply();
}

/** Calls a function when colours change; gives one that ends this. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A colour of the style sheet: colour("--ink"). */
export function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(root).getPropertyValue(name).trim() || "#888");
  return colours.get(name);
}

const KINDS = {
  input: "param buffer variable bind const arange",
  loop: "range if end barrier after",
  move: "reshape permute expand pad shrink flip shuffle stack",
  math: `neg abs not reciprocal sqrt exp2 log2 sin cos trunc floor ceil round add sub mul fdiv floordiv floormod cdiv
    cmod pow max min logaddexp and or xor shl shr fma`,
  choose: "lt le eq ne where",
  convert: "cast bitcast detach formula again leaf stage_gradient",
  reduce: "reduce scan sort mma",
  access: "index load store stage copy",
  call: "group item function call linear",
};
const KIND_OF = new Map(Object.entries(KINDS).flatMap(([kind, names]) => names.split(/\s+/).map((op) => [op, kind])));

/** What sort of op this is; ops that are new here count as mathematics. */
export function kindOf(op) {
  return KIND_OF.get(op) || "math";
}

/** Kinds with their words, for a legend. */
export const KIND_NAMES = {
  input: "inputs",
  loop: "loops",
  move: "movement",
  math: "arithmetic",
  choose: "comparison",
  convert: "conversion",
  reduce: "reduction",
  access: "memory access",
  call: "calls",
};

/** The colour of a kernel, the same wherever it is shown: neighbours differ. */
export function kernelColour(number, strength = 1) {
  const hue = (number * 137.508) % 360;
  const dark = root.dataset.theme === "dark";
  return `hsl(${hue.toFixed(0)} ${dark ? 38 : 46}% ${dark ? 46 : 66}% / ${strength})`;
}

system.addEventListener("change", apply);
apply();
