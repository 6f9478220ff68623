// topics: topics and the durable subscriptions that keep what they hear.

import { h, fill, count, size, to, setQuery } from "./dom.js";
import { ask, get, path, session } from "./api.js";
import { table, pager } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";

const LIMIT = 50;
const EVERY_MS = 3000;

/** A list that the broker searches, sorts and cuts; renewed every few seconds while it is seen. */
export function listPage({ main, query, title, where, columns, empty, acts, first, plain = false, every = EVERY_MS }) {
  let current = query;
  const box = h("input", { type: "search", "aria-label": `Search ${title.toLowerCase()}`, placeholder: "Search", value: query.search ?? "" });
  let typing = 0;
  box.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => setQuery({ search: box.value, offset: "" }), 250); });
  const place = h("div");
  const error = h("p", { class: "soft", role: "alert" });
  const pages = pager(LIMIT, (offset) => setQuery({ offset: Math.max(0, offset) || "" }));
  fill(main, h("div", { class: "title" }, h("h1", {}, title), h("span", { class: "acts" }, plain ? null : box, acts)),
    h("section", { class: "card", "aria-label": title }, place, error, pages.node));
  let grid;
  async function load() {
    const offset = Number(current.offset ?? 0);
    const asked = current;
    try {
      const read = await get(where, { search: current.search, sort: current.sort ?? first, order: current.order, limit: LIMIT, offset });
      if (asked !== current) return;
      fill(error);
      grid.show(read.items);
      pages.show(offset, read.items.length, read.total);
    } catch (trouble) { if (trouble.status !== 401) fill(error, trouble.message); }
  }
  function update(now) {
    current = now;
    if (document.activeElement !== box) box.value = now.search ?? "";
    const sorted = { name: now.sort ?? first, order: now.order ?? (now.sort ? "desc" : "asc") };
    grid = table({ label: title, key: (row) => row.name, sorted, columns, empty: () => (now.search ? h("p", {}, `Nothing has “${now.search}” in it.`) : empty()),
      sort: (name, state) => setQuery({ sort: name, order: state ? (state === "asc" ? "desc" : "asc") : name === "name" ? "asc" : "desc", offset: "" }) });
    fill(place, grid.node);
    load();
  }
  update(query);
  const timer = setInterval(() => { if (!document.hidden) load(); }, every);
  return { update, load, close() { clearInterval(timer); clearTimeout(typing); } };
}

export function topics(main, parts, query) {
  const page = listPage({
    main, query, title: "Topics", where: "/topics", first: "name",
    acts: session.manages ? h("button", { class: "primary", onclick: make }, "Make a topic") : null,
    columns: [
      { label: "Topic", sort: "name", kind: "name", show: (row) => row.name },
      { label: "Subscribers", sort: "subscribers", kind: "num", show: (row) => count(row.subscribers) },
      { label: "Published", sort: "published", kind: "num", show: (row) => count(row.published) },
      { label: "Delivered", sort: "delivered", kind: "num", show: (row) => count(row.delivered) },
      { label: "Retained", show: (row) => (row.retained ? "yes" : "") },
      { label: "", kind: "acts", told: (row) => row.name, node: (row) => [h("button", { class: "small", onclick: () => publish(row) }, "Publish"), " ", h("button", { class: "small danger", onclick: () => forget(row) }, "Forget")] },
    ],
    empty: () => [h("p", {}, "There is no topic yet. One is made when it is first used:"), h("pre", {}, 'covey message send /topic/prices "42"')],
  });
  const publish = (row) => form({ title: `Publish to ${row.name}`, button: "Publish", fields: [{ name: "body", label: "Body", type: "area" }, { name: "group", label: "Group" }],
    act: async (values) => { const answer = await ask("POST", `/topics${path(row.name)}/messages`, { body: values }); toast(`Published as ${answer.message_id}.`); page.load(); } });
  const forget = (row) => confirm({ title: `Forget topic ${row.name}?`, text: `Topic ${row.name} goes with what it retained. Its ${count(row.subscribers)} subscribers hear it again when it is used.`, button: `Forget ${row.name}`, act: async () => { await ask("DELETE", `/topics${path(row.name)}`); page.load(); }, done: `Topic ${row.name} is forgotten.` });
  function make() {
    return form({ title: "Make a topic", button: "Make", fields: [{ name: "name", label: "Name", required: true, hint: "prices.eu" }], act: async (values) => { await ask("PUT", `/topics${path(values.name)}`); toast(`Topic ${values.name} is made.`); page.load(); } });
  }
  return page;
}

export function subscriptions(main, parts, query) {
  const page = listPage({
    main, query, title: "Durable subscriptions", where: "/subscriptions", first: "name",
    columns: [
      { label: "Subscription", sort: "name", kind: "name", told: (row) => row.name, node: (row) => h("a", { href: to("queues", `/dsub/${row.name}`) }, row.name) },
      { label: "Hears", kind: "prose", show: (row) => row.destinations.join(", ") },
      { label: "Messages", sort: "messages", kind: "num", show: (row) => count(row.messages) },
      { label: "Held", kind: "num", show: (row) => count(row.unsettled) },
      { label: "Size", sort: "bytes", kind: "num", show: (row) => size(row.bytes) },
      { label: "Consumers", sort: "consumers", kind: "num", show: (row) => count(row.consumers) },
      { label: "Selector", kind: "prose", show: (row) => row.selector },
      { label: "", kind: "acts", told: (row) => row.name, node: (row) => h("button", { class: "small danger", onclick: () => destroy(row) }, "Destroy") },
    ],
    empty: () => [h("p", {}, "No durable subscription. A STOMP client makes one so:"), h("pre", {}, "SUBSCRIBE\nid:billing\npersistent:true\ndestination:/topic/orders.**")],
  });
  const destroy = (row) => confirm({ title: `Destroy ${row.name}?`, text: `Durable subscription ${row.name} goes for good, with ${count(row.messages)} messages that nobody has read.`, button: `Destroy ${row.name}`, act: async () => { await ask("DELETE", `/subscriptions${path(row.name)}`); page.load(); }, done: `Subscription ${row.name} is destroyed.` });
  return page;
}
