// Source and machine code with numbered lines. A click on a word marks all of the same.
import { el, fill } from "./dom.js";

const MOST_LINES = 6000;
const TOKEN = /("(?:[^"\\]|\\.)*")|([%@$][\w.]+|[A-Za-z_.][\w.]*)|(-?\b\d[\w.]*)|(\s+|[^\s\w])/g;
const WORDS = new Set(
  `define entry br ret label phi load store getelementptr inbounds fadd fmul fsub fdiv add mul sub icmp fcmp select call
  alloca align ptr i1 i8 i16 i32 i64 float double half void for if else return const def class import from not is in and
  or None True False reg pred`.split(/\s+/),
);

/** A block of code, in which comments begin with these letters. */
export function codeBlock(text, name, comment = commentOf(text)) {
  if (!text) return el("p", { class: "empty" }, `no ${name} was recorded`);
  const lines = text.split("\n");
  const shown = lines.slice(0, MOST_LINES);
  const body = el(
    "code",
    {},
    shown.map((line) => codeLine(line, comment)),
  );
  body.addEventListener("click", (event) => mark(body, event.target));
  const rest = lines.length - shown.length;
  return el("pre", { class: "code", "aria-label": name }, body, rest > 0 && el("p", {}, `… ${rest} more lines`));
}

function commentOf(text) {
  return text.startsWith(";") ? ";" : text.startsWith("\t.") ? "#" : "//";
}

function codeLine(line, comment) {
  const parts = [];
  const at = line.indexOf(comment);
  const code = at >= 0 ? line.slice(0, at) : line;
  for (const [text, string, word, number] of code.matchAll(TOKEN)) {
    if (string) parts.push(el("span", { class: "c-string" }, text));
    else if (number) parts.push(el("span", { class: "c-number" }, text));
    else if (word) parts.push(el("span", { class: WORDS.has(word) ? "c-word" : "c-name" }, text));
    else parts.push(text);
  }
  if (at >= 0) parts.push(el("span", { class: "c-comment" }, line.slice(at)));
  return el("div", { class: "line" }, parts.length ? parts : " ");
}

function mark(body, target) {
  const word = target.classList.contains("c-name") ? target.textContent : null;
  for (const name of body.querySelectorAll(".c-name")) name.classList.toggle("marked", name.textContent === word);
}

/** Two blocks, one above the other, that share the height. */
export function twoBlocks(first, firstName, second, secondName) {
  const toStart = (block) => requestAnimationFrame(() => scrollToLabel(block));
  const half = (text, name) => el("section", { class: "half" }, el("h4", {}, name), codeBlock(text, name));
  const halves = el("div", { class: "halves" }, half(first, firstName), half(second, secondName));
  halves.querySelectorAll("pre").forEach(toStart);
  return halves;
}

/** Past tables of constants, to the first label that is no local one. */
function scrollToLabel(block) {
  const lines = [...block.querySelectorAll(".line")];
  const found = lines.find((line) => /^[A-Za-z_]\w*:/.test(line.textContent));
  if (found && lines.indexOf(found) > 8) block.scrollTop = found.offsetTop - block.offsetTop - 20;
}

/** Tabs: {name: function that makes the content}. */
export class Tabs {
  constructor(names) {
    this.makers = new Map();
    this.bar = el("div", { class: "tabs", role: "tablist" });
    this.body = el("div", { class: "tab-body" });
    this.element = el("aside", { class: "panel right" }, this.bar, this.body);
    this.names = names;
    this.current = names[0];
    this.paint();
  }

  /** Says what a tab shows; it is made when it is looked at. */
  set(name, make) {
    this.makers.set(name, make);
    if (name === this.current) this.refresh();
  }

  open(name) {
    if (this.current === name) return;
    this.current = name;
    this.paint();
    this.refresh();
  }

  next() {
    this.open(this.names[(this.names.indexOf(this.current) + 1) % this.names.length]);
  }

  refresh() {
    fill(this.body, this.makers.get(this.current)?.() ?? el("p", { class: "empty" }, "nothing is selected"));
    this.body.scrollTop = 0;
  }

  paint() {
    const tab = (name) =>
      el(
        "button",
        { type: "button", role: "tab", "aria-selected": String(name === this.current), onclick: () => this.open(name) },
        name,
      );
    fill(this.bar, this.names.map(tab));
  }
}
