// A box of text beside the pointer.
import { el, fill } from "./dom.js";

const box = el("div", { class: "tooltip", hidden: true, role: "tooltip" });
document.body.append(box);

/** Shows lines: text, or [name, text] pairs. */
export function showTip(event, title, lines) {
  const rows = lines
    .filter((line) => line && line[1] !== "" && line[1] !== null && line[1] !== undefined)
    .map(([name, text]) => el("div", { class: "tip-row" }, el("span", { class: "dim" }, name), el("span", {}, text)));
  fill(box, el("div", { class: "tip-title" }, title), rows);
  box.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = box;
  const left = event.clientX + 16 + width > window.innerWidth ? event.clientX - width - 12 : event.clientX + 16;
  const top = event.clientY + 16 + height > window.innerHeight ? event.clientY - height - 12 : event.clientY + 16;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

export function hideTip() {
  box.hidden = true;
}
