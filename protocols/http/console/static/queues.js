// queues: all of them, searched, sorted and cut into pages by the broker.

import { h, fill, count, rate, size, since, to, short, setQuery } from "./dom.js";
import { ask, live, path, session, RowSet } from "./api.js";
import { table, pager } from "./table.js";
import { form, toast } from "./dialogs.js";

const LIMIT = 50;
export const STRATEGIES = [["", "as the policy says"], "shared", "simple", "lru", "hash-buckets", "consistent-hash"];

/** Read `name = value` lines; numbers, true, false, null, lists and quoted texts are what they look like. */
export function readArguments(text) {
  const found = {};
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [name, ...rest] = line.split("=");
    const value = rest.join("=").trim();
    if (!rest.length) throw new Error(`${line}: write name = value`);
    try { found[name.trim()] = JSON.parse(value); } catch { found[name.trim()] = value; }
  }
  return found;
}

export function declare() {
  return form({
    title: "Declare a queue", button: "Declare",
    text: "A declared queue stays until it is deleted. What is left empty is as the queue's policy says.",
    fields: [
      { name: "name", label: "Name", required: true, hint: "orders.new" },
      { name: "strategy", label: "Group strategy", options: STRATEGIES },
      { name: "header", label: "Group header", hint: "JMSXGroupID", help: "the header or property that names a message's group" },
      { name: "max", label: "Most messages", type: "number", min: 1, help: "then producers wait, or as covey.full_policy says" },
      { name: "dlq", label: "Dead letters go to", hint: "dlq.orders" },
      { name: "more", label: "Other arguments", type: "area", hint: "covey.nak_limit = 5" },
    ],
    async act(given) {
      const wanted = readArguments(given.more);
      if (given.strategy) wanted["covey.groups.strategy"] = given.strategy;
      if (given.header) wanted["qpid.group_header_key"] = given.header;
      if (given.max) { wanted["qpid.max_count"] = Number(given.max); wanted["covey.full_policy"] ??= "block"; }
      if (given.dlq) wanted["alternate-exchange"] = given.dlq;
      const made = await ask("PUT", `/queues${path(given.name)}`, { body: { arguments: wanted } });
      toast(`Queue ${made.name} is declared.`);
      location.hash = to("queues", made.name);
    },
  });
}

export default function queues(main, parts, query) {
  let stop = () => {};
  let set = new RowSet((row) => row.name);
  const box = h("input", { type: "search", "aria-label": "Search queues", placeholder: "Search by name", value: query.search ?? "" });
  let timer = 0;
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => setQuery({ search: box.value, offset: "" }), 250); });
  const place = h("div");
  const pages = pager(LIMIT, (offset) => setQuery({ offset: Math.max(0, offset) || "" }));
  fill(main,
    h("div", { class: "title" }, h("h1", {}, "Queues"), h("span", { class: "acts" }, box,
      session.manages ? h("button", { class: "primary", onclick: declare }, "Declare a queue") : null)),
    h("section", { class: "card", "aria-label": "Queues" }, place, pages.node));

  function update(now) {
    stop();
    const sorted = { name: now.sort ?? "name", order: now.order ?? (now.sort ? "desc" : "asc") };
    if (document.activeElement !== box) box.value = now.search ?? "";
    const grid = table({
      label: "Queues", key: (row) => row.name, sorted,
      sort(name, state) {
        const first = name === "name" || name === "strategy" ? "asc" : "desc";
        setQuery({ sort: name, order: state ? (state === "asc" ? "desc" : "asc") : first, offset: "" });
      },
      columns: [
        { label: "Name", sort: "name", kind: "name", told: (row) => row.name + row.declared, node: (row) => h("a", { href: to("queues", row.name) }, row.name) },
        { label: "Messages", sort: "messages", kind: "num", show: (row) => count(row.messages) },
        { label: "Depth", kind: "spark", values: (row) => row.spark, colour: "in" },
        { label: "Held", sort: "unsettled", kind: "num", show: (row) => count(row.unsettled) },
        { label: "In /s", kind: "num", show: (row) => rate(row.rates?.enqueued) },
        { label: "Out /s", kind: "num", show: (row) => rate(row.rates?.delivered) },
        { label: "Groups", sort: "groups", kind: "num", show: (row) => short(row.groups) },
        { label: "Consumers", sort: "consumers", kind: "num", show: (row) => count(row.consumers) },
        { label: "Strategy", sort: "strategy", show: (row) => row.strategy },
        { label: "Oldest", kind: "num", show: (row) => since(row.oldest_at) },
        { label: "Size", sort: "bytes", kind: "num", show: (row) => size(row.bytes) },
      ],
      empty: () => (now.search
        ? [h("p", {}, `No queue has “${now.search}” in its name.`), h("p", {}, h("a", { href: "#/queues" }, "Show all queues"))]
        : [h("p", {}, "There is no queue yet. One is made when it is first used, or declared here:"), h("pre", {}, 'covey message send orders "pay" --group order-17')]),
    });
    fill(place, grid.node);
    set = new RowSet((row) => row.name);
    const offset = Number(now.offset ?? 0);
    stop = live("/queues", { search: now.search, sort: sorted.name, order: sorted.order, limit: LIMIT, offset, host: session.host }, {
      queues(delta) {
        set.apply(delta);
        const rows = set.list();
        grid.show(rows);
        pages.show(offset, rows.length, set.total);
      },
      clock: () => { if (set.order) grid.show(set.list()); },
    });
  }
  update(query);
  return { update, close() { stop(); clearTimeout(timer); } };
}
