// connections: who is connected, what blocks them, what each reads, and a way to close one.

import { h, fill, push, count, age, hint, to, facts } from "./dom.js";
import { ask, get, path } from "./api.js";
import { table, num, words, link, acts, by } from "./table.js";
import { confirm, sheet } from "./dialogs.js";
import { listPage } from "./lists.js";

/** Why a connection does not get on, as a mark. */
const trouble = (row) => (row.blocked_on ? h("span", { class: "badge bad" }, row.blocked_on) : row.unread_s > 1 ? h("span", { class: "badge warn" }, `does not read for ${age(row.unread_s)}`) : "");

const place = (row) => to("connections", row.name);

/** One connection, with all that it reads; who leaves it is back at the list. */
function open(name) {
  const known = h("div");
  const grid = table({ label: "What it reads", columns: [
    link("Reads", "source", (row) => to("queues", row.source)),
    { label: "Credit", kind: "num", show: (row) => (row.credit < 0 ? "as it reads" : count(row.credit)) },
    { label: "Holds", kind: "num", show: (row) => `${count(row.unsettled)} of ${count(row.unsettled_max)}` },
    num("Groups", "groups"), num("Delivered", "delivered"),
  ], empty: () => hint("It reads nothing.") });
  const dialog = sheet(`Connection ${name}`, known, grid.node);
  const at = `/connections${path(name)}`;
  Promise.all([get(at), get(`${at}/consumers`, { limit: 1000 })]).then(([row, read]) => {
    fill(known, facts([["Client", row.client_id], ["User", row.user], ["Protocol", row.protocol], ["From", row.remote], ["Virtual host", row.host], ["For", age(row.age_s)],
      ["Sent", count(row.sent)], ["Open transactions", count(row.transactions)], ["What blocks it", trouble(row)]]));
    grid.show(read.items);
  }, (error) => fill(known, h("p", { class: "error", role: "alert" }, error.message)));
  dialog.addEventListener("close", () => { if (location.hash === place({ name })) location.hash = to("connections"); });
  return dialog;
}

export default function connections(main, parts, query) {
  const page = listPage({
    main, query, title: "Connections", where: "/connections",
    columns: [
      { label: "Connection", sort: "name", kind: "name", told: (row) => row.name + row.client_id, node: (row) => h("a", { href: place(row) }, `${row.name}${row.client_id && ` · ${row.client_id}`}`) },
      by(words("User", "user")), by(words("Protocol", "protocol", "tight")), by(words("From", "remote", "tight")),
      by(num("For", "age_s", age)), by(num("Sent", "sent")), num("Consumers", "consumers"),
      { label: "What blocks it", sort: "blocked_on", order: "desc", kind: "prose", told: (row) => row.blocked_on + Math.round(row.unread_s), node: trouble },
      acts((row) => push("Close", () => close(row), "small danger")),
    ],
    empty: () => hint("Nobody is connected. A worker is a few lines of Python:", "covey worker run my_module:worker"),
  });
  const close = (row) => confirm({ title: `Close connection ${row.name}?`, text: `${row.user} from ${row.remote} (${row.protocol}${row.client_id ? `, ${row.client_id}` : ""}) is cut off. What its ${count(row.consumers)} consumers hold goes to others. It may connect again.`, button: `Close ${row.name}`, act: () => ask("DELETE", `/connections${path(row.name)}`).then(page.load), done: `Connection ${row.name} is closed.` });
  const dialog = parts[0] && open(parts[0]);
  return { ...page, close() { page.close(); if (dialog) dialog.close(); } };
}
