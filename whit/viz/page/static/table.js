// A table that can be sorted and filtered.
import { el, fill } from "./dom.js";

const MOST = 500; // rows that are elements

/**
 * Columns: {name, text(row), value(row) to sort by, left, wide, mark(row) for a bar}. `open(row)` is called for a click
 * on a row, `link(row)` is its address.
 */
export class Table {
  constructor(columns, rows, { link, sort = null, name }) {
    Object.assign(this, { columns, rows, link });
    this.sorted = sort;
    this.words = [];
    this.head = el("tr", {});
    this.body = el("tbody", {});
    this.element = el("table", { "aria-label": name }, el("thead", {}, this.head), this.body);
    this.chosen = -1;
    this.paint();
  }

  filter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.chosen = -1;
    this.paint();
  }

  shown() {
    const text = (row) =>
      this.columns
        .map((column) => column.text(row))
        .join(" ")
        .toLowerCase();
    const rows = this.rows.filter((row) => this.words.every((word) => text(row).includes(word)));
    const by = this.columns.find((column) => column.name === this.sorted);
    return by ? rows.sort((a, b) => compare(by.value(b), by.value(a))) : rows;
  }

  move(by) {
    const rows = this.body.querySelectorAll("tr[data-link]");
    if (!rows.length) return;
    this.chosen = Math.max(0, Math.min(rows.length - 1, this.chosen + by));
    rows.forEach((row, i) => row.classList.toggle("chosen", i === this.chosen));
    rows[this.chosen].scrollIntoView({ block: "nearest" });
  }

  open() {
    const row = this.body.querySelectorAll("tr[data-link]")[this.chosen];
    if (row) window.location.hash = row.dataset.link;
  }

  paint() {
    fill(
      this.head,
      this.columns.map((column) =>
        el(
          "th",
          { class: column.left ? "left" : "", "aria-sort": this.sorted === column.name ? "descending" : "none" },
          el("button", { type: "button", onclick: () => this.sortBy(column.name) }, column.name),
        ),
      ),
    );
    const rows = this.shown();
    fill(
      this.body,
      rows.slice(0, MOST).map((row) => this.row(row)),
    );
    if (rows.length > MOST)
      this.body.append(
        el("tr", {}, el("td", { colspan: 99, class: "dim left" }, `${rows.length - MOST} more: search for them`)),
      );
  }

  row(row) {
    const address = this.link(row);
    const cells = this.columns.map((column, i) => {
      const text = column.text(row);
      const share = column.mark ? column.mark(row) : 0;
      const bar = share > 0.005 && el("i", { class: "bar", style: { width: `${(share * 100).toFixed(1)}%` } });
      const inner = i === 0 && address ? el("a", { href: address }, text) : text;
      return el("td", { class: column.left ? "left" : "", title: column.left ? text : null }, inner, bar);
    });
    const go = (event) => address && event.target.tagName !== "A" && (window.location.hash = address);
    return el("tr", { "data-link": address, onclick: go }, cells);
  }

  sortBy(name) {
    this.sorted = this.sorted === name ? null : name;
    this.paint();
  }
}

function compare(a, b) {
  return typeof a === "string" ? b.localeCompare(a) : a - b;
}
