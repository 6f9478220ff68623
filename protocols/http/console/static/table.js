// table: rows that stay where they are while their values change. A row is known by its key; only
// cells whose text differs are touched, so a selection, a focus and a hover outlive an update.

import { h, fill, say, count } from "./dom.js";
import { spark } from "./chart.js";

/**
 * columns: [{name, label, sort?, kind?, show(row) -> text, or node(row) -> element}]
 * An `optional` column is not shown while it is empty, or while `isHidden()` says so.
 * kinds: "num" to the right, "name" bold, "prose" soft and wrapping, "spark" a line, "acts" buttons.
 */
export function table({ columns, key, label, sorted, sort, empty }) {
  const heads = columns.map((column) => {
    const cell = h("th", { scope: "col", class: column.kind === "num" ? "num" : "" });
    if (!column.sort) return column.label ? add(cell, column.label) : add(cell, h("span", { class: "sr" }, column.head ?? "Actions"));
    const state = sorted?.name === column.sort ? sorted.order : "";
    if (state) cell.setAttribute("aria-sort", state === "asc" ? "ascending" : "descending");
    const arrow = state ? (state === "asc" ? " ↑" : " ↓") : "";
    return add(cell, h("button", { onclick: () => sort(column.sort, state) }, column.label + arrow));
  });
  function add(cell, child) { cell.append(child); return cell; }
  const body = h("tbody");
  const grid = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}, as a table` },
    h("table", { class: "data stack" }, h("caption", { class: "sr" }, label), h("thead", {}, h("tr", {}, heads)), body));
  const none = h("div", { class: "empty hidden" });
  const node = h("div", {}, grid, none);
  const known = new Map();

  function make(row) {
    const cells = columns.map((column) => {
      const cell = h("td", { class: column.kind === "spark" ? "" : column.kind ?? "", "data-label": column.label || null });
      const inner = column.kind === "spark" ? h("canvas", { "aria-hidden": "true" }) : null;
      if (inner) cell.append(inner);
      return { cell, inner, told: undefined };
    });
    return { line: h("tr", {}, cells.map((each) => each.cell)), cells };
  }

  function update(entry, row) {
    columns.forEach((column, at) => {
      const place = entry.cells[at];
      if (column.kind === "spark") {
        const values = column.values(row);
        const told = values.join();
        if (told !== place.told || !place.drawn) { place.told = told; place.values = values; place.colour = column.colour; }
        return;
      }
      if (column.node) {
        const told = column.told ? column.told(row) : JSON.stringify(row);
        if (told !== place.told) { place.told = told; fill(place.cell, column.node(row)); }
      } else say(place.cell, column.show(row));
    });
  }

  function show(rows) {
    grid.classList.toggle("hidden", rows.length === 0);
    none.classList.toggle("hidden", rows.length > 0);
    if (rows.length === 0 && !none.childNodes.length && empty) fill(none, empty());
    const wanted = new Set(rows.map(key));
    for (const [name, entry] of known) if (!wanted.has(name)) { entry.line.remove(); known.delete(name); }
    let place = body.firstChild;
    for (const row of rows) {
      let entry = known.get(key(row));
      if (!entry) { entry = make(row); known.set(key(row), entry); }
      update(entry, row);
      if (entry.line === place) place = place.nextSibling;
      else body.insertBefore(entry.line, place);
    }
    columns.forEach((column, at) => {
      if (!column.optional) return;
      const isEmpty = column.isHidden ? column.isHidden() : rows.every((row) => !column.show(row));
      heads[at].classList.toggle("hidden", isEmpty);
      for (const entry of known.values()) entry.cells[at].cell.classList.toggle("hidden", isEmpty);
    });
    for (const entry of known.values()) {
      for (const cell of entry.cells) if (cell.values) { spark(cell.inner, cell.values, cell.colour); cell.values = null; }
    }
  }
  return { node, show, forget() { none.replaceChildren(); } };
}

/** Where one is in a long list, and the way to its other pages. */
export function pager(limit, go) {
  const text = h("span", { role: "status" });
  const back = h("button", { class: "small", onclick: () => go(offset - limit) }, "Previous");
  const on = h("button", { class: "small", onclick: () => go(offset + limit) }, "Next");
  let offset = 0;
  const node = h("div", { class: "pager" }, text, h("span", { class: "grow" }), back, on);
  return { node, show(start, shown, total) {
    offset = start;
    say(text, total ? `${count(start + 1)} to ${count(start + shown)} of ${count(total)}` : "");
    back.disabled = start === 0;
    on.disabled = start + shown >= total;
    back.classList.toggle("hidden", total <= limit && start === 0);
    on.classList.toggle("hidden", total <= limit && start === 0);
  } };
}
