// lists: a page that is a list, which the broker searches, sorts and cuts into pages.

import { h, fill, say, count, push, setQuery, heading, finder, panel, trouble } from "./dom.js";
import { get, live, RowSet } from "./api.js";
import { table } from "./table.js";

const LIMIT = 50;

/**
 * A list of what is at `where`. It is told live (`kind` is the stream's word for its rows), or else
 * asked for every so many milliseconds while it is seen. A `plain` one has no search.
 */
export function listPage({ main, query, title, where, kind, columns, empty, acts, first = "name", plain = false, every = 3000 }) {
  let current = query;
  let stop = () => {};
  let typing = 0;
  let offset = 0;
  const box = finder(`Search ${title.toLowerCase()}`, { value: query.search ?? "",
    oninput() { clearTimeout(typing); typing = setTimeout(() => setQuery({ search: box.value, offset: "" }), 250); } });
  const place = h("div");
  const error = trouble();
  const text = h("span", { role: "status" });
  const go = (pages) => () => setQuery({ offset: Math.max(0, offset + pages * LIMIT) || "" });
  const back = push("Previous", go(-1), "small");
  const on = push("Next", go(1), "small");
  fill(main, heading(title, plain ? null : box, acts),
    panel(title, place, error, h("div", { class: "pager" }, text, h("span", { class: "grow" }), back, on)));
  let grid;
  function show(rows, total) {
    grid.show(rows);
    say(text, total ? `${count(offset + 1)} to ${count(offset + rows.length)} of ${count(total)}` : "");
    back.disabled = offset === 0;
    on.disabled = offset + rows.length >= total;
    for (const one of [back, on]) one.classList.toggle("hidden", total <= LIMIT && offset === 0);
  }
  const wanted = () => ({ search: current.search, sort: current.sort ?? first, order: current.order, limit: LIMIT, offset });
  async function load() {
    const asked = current;
    try {
      const read = await get(where, wanted());
      if (asked !== current) return;
      fill(error);
      show(read.items, read.total);
    } catch (refusal) { if (refusal.status !== 401) fill(error, refusal.message); }
  }
  function listen() {
    const set = new RowSet((row) => row.name);
    return live(where, wanted(), { [kind]: (delta) => show(set.apply(delta).list(), set.total), clock: () => { if (set.order) grid.show(set.list()); } });
  }
  function poll() {
    const timer = setInterval(() => { if (!document.hidden) load(); }, every);
    load();
    return () => clearInterval(timer);
  }
  function update(now) {
    stop();
    current = now;
    offset = Number(now.offset ?? 0);
    if (document.activeElement !== box) box.value = now.search ?? "";
    const shown = columns.find((one) => one.sort === (now.sort ?? first));
    const usual = (column) => column.order ?? (column.kind === "num" ? "desc" : "asc");
    grid = table({ label: title, columns, sorted: { name: shown?.sort, order: now.order ?? (shown && usual(shown)) },
      empty: () => (now.search ? h("p", `Nothing has “${now.search}” in it.`) : empty()),
      sort: (column, state) => setQuery({ sort: column.sort, order: state ? (state === "asc" ? "desc" : "asc") : usual(column), offset: "" }) });
    fill(place, grid.node);
    stop = kind ? listen() : poll();
  }
  update(query);
  return { update, load, close() { stop(); clearTimeout(typing); } };
}
