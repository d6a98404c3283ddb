// Lines of the user's program.
import { el } from "./dom.js";
import { basename } from "./format.js";

/** A stack, innermost first, with the text of its lines where that is known. */
export function stackBlock(frames) {
  if (!frames || !frames.length) return el("p", { class: "dim" }, "no line of a program is known");
  return el(
    "ol",
    { class: "stack" },
    frames.map(([file, line, name, text]) =>
      el(
        "li",
        {},
        el("span", { class: "where", title: file }, `${basename(file)}:${line}`),
        el("span", { class: "dim" }, ` in ${name}`),
        text && el("pre", { class: "one-line" }, text),
      ),
    ),
  );
}
