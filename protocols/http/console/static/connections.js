// connections: who is connected, what blocks them, and a way to close one.

import { h, push, count, age, hint } from "./dom.js";
import { ask, path } from "./api.js";
import { num, words, acts, by } from "./table.js";
import { confirm } from "./dialogs.js";
import { listPage } from "./lists.js";

/** Why a connection does not get on, as a mark. */
const trouble = (row) => (row.blocked_on ? h("span", { class: "badge bad" }, row.blocked_on) : row.unread_s > 1 ? h("span", { class: "badge warn" }, `does not read for ${age(row.unread_s)}`) : "");

export default function connections(main, parts, query) {
  const page = listPage({
    main, query, title: "Connections", where: "/connections",
    columns: [
      { label: "Connection", sort: "name", kind: "name", show: (row) => `${row.name}${row.client_id ? ` · ${row.client_id}` : ""}` },
      by(words("User", "user")), by(words("Protocol", "protocol")), by(words("From", "remote")),
      by(num("For", "age_s", age)), by(num("Sent", "sent")), num("Consumers", "consumers"),
      { label: "What blocks it", sort: "blocked_on", order: "desc", kind: "prose", told: (row) => row.blocked_on + Math.round(row.unread_s), node: trouble },
      acts((row) => push("Close", () => close(row), "small danger")),
    ],
    empty: () => hint("Nobody is connected. A worker is a few lines of Python:", "covey worker run my_module:worker"),
  });
  const close = (row) => confirm({ title: `Close connection ${row.name}?`, text: `${row.user} from ${row.remote} (${row.protocol}${row.client_id ? `, ${row.client_id}` : ""}) is cut off. What its ${count(row.consumers)} consumers hold goes to others. It may connect again.`, button: `Close ${row.name}`, act: () => ask("DELETE", `/connections${path(row.name)}`).then(page.load), done: `Connection ${row.name} is closed.` });
  return page;
}
