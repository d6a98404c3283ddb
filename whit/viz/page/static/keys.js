// The keyboard. A view lists its keys when it is shown; the same list is the help.
import { el, fill } from "./dom.js";

let groups = [];

/** The keys of a view: [[keys, what they do, action], ...]. They replace those of the view before. */
export function setKeys(title, bindings) {
  groups = [...groups.filter((group) => group.title === "Everywhere"), { title, bindings }];
}

/** Keys that always work. */
export function setGlobalKeys(bindings) {
  groups = [{ title: "Everywhere", bindings }];
}

/** Adds keys to those of the view, as the graph in it does. */
export function addKeys(title, bindings) {
  groups = [...groups.filter((group) => group.title !== title), { title, bindings }];
}

const SPELLED = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", " ": "Space" };

function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const dialog = document.querySelector("dialog[open]");
  if (dialog) {
    if (event.key === "?") dialog.close();
    return;
  }
  for (const group of [...groups].reverse()) {
    for (const [keys, , action] of group.bindings) {
      if (keys.includes(event.key)) {
        event.preventDefault();
        action(event);
        return;
      }
    }
  }
}

window.addEventListener("keydown", onKey);

/** A dialog with all keys that work now. */
export function showHelp() {
  document.querySelector("dialog.help")?.remove();
  const dialog = el("dialog", { class: "help" });
  const sections = groups.map((group) =>
    el(
      "section",
      {},
      el("h3", {}, group.title),
      el(
        "dl",
        {},
        group.bindings.map(([keys, text]) => [
          el(
            "dt",
            {},
            keys.map((key) => el("kbd", {}, SPELLED[key] || key)),
          ),
          el("dd", {}, text),
        ]),
      ),
    ),
  );
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  fill(dialog, el("h2", {}, "Keyboard"), el("div", { class: "help-groups" }, sections), close);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
