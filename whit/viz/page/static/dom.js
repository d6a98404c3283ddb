// Elements. Text from a recording only ever becomes text: nothing here, or anywhere in the page, takes HTML.

/** What there is of a list of children, however deep. */
function present(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "");
}

/** An element: `el("a", {class: "x", href: "#/", onclick: f}, "text", other)`. Nothing is made of null and false. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Puts these into an element, in place of what is there. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** A button that shows a key, too. */
export function button(text, title, action, key = "") {
  return el("button", { type: "button", title: key ? `${title} (${key})` : title, onclick: action }, text);
}

/** A line on which to drag: the element before it changes its width. `side` is 1 where it grows to the right. */
export function splitter(panel, side, name) {
  const saved = Number(recall(name));
  if (saved) panel.style.width = `${saved}px`;
  const bar = el("div", { class: "splitter", title: "drag to change the width" });
  bar.addEventListener("pointerdown", (down) => {
    bar.setPointerCapture(down.pointerId);
    const width = panel.offsetWidth;
    bar.onpointermove = (move) => {
      const now = Math.max(180, Math.min(window.innerWidth - 400, width + side * (move.clientX - down.clientX)));
      panel.style.width = `${now}px`;
      remember(name, now);
    };
    bar.onpointerup = () => (bar.onpointermove = null);
  });
  return bar;
}

/** What was chosen the last time; a file that is opened from disk may have no such storage. */
export function recall(name) {
  try {
    return window.localStorage.getItem(`whit.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    window.localStorage.setItem(`whit.${name}`, String(value));
  } catch {
    // it is chosen again the next time
  }
}
