// table: rows that stay where they are while their values change. A row is known by its key; only
// cells whose text differs are touched, so a selection, a focus and a hover outlive an update.

import { h, fill, say, count, rate, push } from "./dom.js";
import { spark } from "./chart.js";

const NAME = 60; // characters of a name that are shown

/** Columns of the usual kinds: a field as a number, or as a text; and one that can be sorted by. */
export const num = (label, name, write = count) => ({ label, name, kind: "num", show: (row) => (row[name] === null ? "–" : write(row[name])) });
export const words = (label, name, kind) => ({ label, name, kind, show: (row) => row[name] ?? "" });
export const by = (column) => ({ ...column, sort: column.name });
/** A name that leads to a place; buttons at the end of a row. */
export const link = (label, name, place) => ({ label, name, kind: "name", told: (row) => row[name], node: (row) => h("a", { href: place(row) }, row[name]) });
/** Of a queue: how many messages it had lately, and how fast they come or go. */
export const depth = { label: "Depth, rate", kind: "spark", values: (row) => [[row.spark, "in"], [row.flow, "out"]] };
export const flow = (label, name) => ({ label, kind: "num", show: (row) => rate(row.rates?.[name]) });
/** What an operator has stopped of a queue. */
const stops = ({ paused, parked }) => [paused && `${{ in: "producers ", out: "consumers ", both: "" }[paused]}paused`, parked && `${count(parked)} parked`].filter(Boolean).join(", ");
export const stopped = { label: "State", optional: true, told: stops, show: stops, node: (row) => h("span", { class: "badge warn" }, stops(row)) };
export const acts = (node, told = (row) => row.name) => ({ label: "", kind: "acts", told, node });

/**
 * columns: [{label, sort?, kind?, show(row) -> text, or node(row) -> element, anew if told(row) differs}]
 * An `optional` column is not shown while it is empty, or while `isHidden()` says so.
 * kinds: "num" to the right, "name" bold, "prose" soft and wrapping, "spark" a line, "acts" buttons.
 */
export function table({ columns, key = (row) => row.name, label, sorted, sort, empty }) {
  const heads = columns.map((column) => {
    const state = column.sort && sorted?.name === column.sort ? sorted.order : "";
    const text = column.label + { asc: " ↑", desc: " ↓", "": "" }[state];
    return h("th", { scope: "col", class: column.kind === "num" && "num", "aria-sort": state ? `${state}ending` : null },
      column.sort && sort ? push(text, () => sort(column, state)) : text || h("span", { class: "sr" }, column.head ?? "Actions"));
  });
  const body = h("tbody");
  const grid = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}, as a table` },
    h("table", { class: "data stack" }, h("caption", { class: "sr" }, label), h("thead", h("tr", heads)), body));
  const none = h("div", { class: "empty hidden" });
  const known = new Map();

  function make() {
    const cells = columns.map((column) => {
      const inner = column.kind === "spark" && h("canvas", { "aria-hidden": "true" });
      return { inner, told: undefined, cell: h("td", { class: inner ? null : column.kind, "data-label": column.label || null }, inner) };
    });
    return { line: h("tr", cells.map((each) => each.cell)), cells };
  }

  function update(entry, row) {
    columns.forEach((column, at) => {
      const place = entry.cells[at];
      const told = place.inner ? column.values(row).join() : column.told ? column.told(row) : String(column.show(row));
      if (told === place.told) return;
      place.told = told;
      if (place.inner) { place.values = column.values(row); return; } // drawn once it is on the page
      fill(place.cell, column.node ? column.node(row) : told);
      if (column.kind === "name") cut(place.cell);
    });
  }

  /** A name may be very long, and names differ at both ends. */
  function cut(cell) {
    const text = cell.textContent;
    if (text.length <= NAME) return;
    const inner = cell.firstElementChild ?? cell;
    if (inner !== cell) inner.setAttribute("aria-label", text);
    cell.title = text;
    say(inner, `${text.slice(0, NAME / 2)} … ${text.slice(6 - NAME / 2)}`);
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
      if (!entry) { entry = make(); known.set(key(row), entry); }
      update(entry, row);
      if (entry.line === place) place = place.nextSibling;
      else body.insertBefore(entry.line, place);
    }
    columns.forEach((column, at) => {
      if (!column.optional) return;
      const isEmpty = column.isHidden ? column.isHidden() : rows.every((row) => !column.show(row));
      for (const cell of [heads[at], ...[...known.values()].map((entry) => entry.cells[at].cell)]) cell.classList.toggle("hidden", isEmpty);
    });
    for (const entry of known.values()) {
      entry.cells.forEach((cell) => { if (cell.values) { spark(cell.inner, cell.values); cell.values = null; } });
    }
  }
  return { node: h("div", grid, none), show, forget: () => fill(none) };
}
