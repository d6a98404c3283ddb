// A list of any length: only the rows in view are elements.
import { el, fill } from "./dom.js";

const HEIGHT = 26;

export class LongList {
  /** `row(i)` gives the content of a row, `choose(i)` is called for a click. */
  constructor({ row, choose, name }) {
    this.row = row;
    this.length = 0;
    this.chosen = -1;
    this.inner = el("div", { class: "long-inner" });
    this.element = el("div", { class: "long-list", role: "listbox", "aria-label": name }, this.inner);
    this.element.addEventListener("scroll", () => this.paint());
    this.element.addEventListener("click", (event) => {
      const found = event.target.closest("[data-row]");
      if (found) choose(Number(found.dataset.row));
    });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.element);
  }

  setLength(length) {
    this.length = length;
    this.inner.style.height = `${Math.min(length * HEIGHT, 8e6)}px`;
    this.paint();
  }

  /** Marks a row and brings it into view. */
  choose(i) {
    this.chosen = i;
    const [top, bottom] = [i * HEIGHT, (i + 1) * HEIGHT];
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop + HEIGHT) this.element.scrollTop = Math.max(0, top - HEIGHT * 2);
    else if (bottom > scrollTop + clientHeight - HEIGHT) this.element.scrollTop = bottom - clientHeight + HEIGHT * 2;
    this.paint();
  }

  paint() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - 4);
    const last = Math.min(this.length, first + Math.ceil(this.element.clientHeight / HEIGHT) + 8);
    const rows = [];
    for (let i = first; i < last; i++) {
      const attributes = { class: i === this.chosen ? "long-row chosen" : "long-row", "data-row": i, role: "option" };
      rows.push(el("div", { ...attributes, style: { top: `${i * HEIGHT}px` } }, this.row(i)));
    }
    fill(this.inner, rows);
  }

  close() {
    this.observer.disconnect();
  }
}
