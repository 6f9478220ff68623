// connections: who is connected, what blocks them, and a way to close one.

import { h, count, age } from "./dom.js";
import { ask, path } from "./api.js";
import { confirm } from "./dialogs.js";
import { listPage } from "./topics.js";

export default function connections(main, parts, query) {
  const page = listPage({
    main, query, title: "Connections", where: "/connections", first: "name",
    columns: [
      { label: "Connection", sort: "name", kind: "name", show: (row) => `${row.name}${row.client_id ? ` · ${row.client_id}` : ""}` },
      { label: "User", sort: "user", show: (row) => row.user },
      { label: "Protocol", sort: "protocol", show: (row) => row.protocol },
      { label: "From", sort: "remote", show: (row) => row.remote },
      { label: "For", sort: "age_s", kind: "num", show: (row) => age(row.age_s) },
      { label: "Sent", sort: "sent", kind: "num", show: (row) => count(row.sent) },
      { label: "Consumers", kind: "num", show: (row) => count(row.consumers) },
      { label: "What blocks it", sort: "blocked_on", kind: "prose", told: (row) => row.blocked_on + Math.round(row.unread_s), node: (row) => (row.blocked_on ? h("span", { class: "badge bad" }, row.blocked_on) : row.unread_s > 1 ? h("span", { class: "badge warn" }, `does not read for ${age(row.unread_s)}`) : "") },
      { label: "", kind: "acts", told: (row) => row.name, node: (row) => h("button", { class: "small danger", onclick: () => close(row) }, "Close") },
    ],
    empty: () => [h("p", {}, "Nobody is connected. A worker is a few lines of Python:"), h("pre", {}, "covey worker run my_module:worker")],
  });
  const close = (row) => confirm({ title: `Close connection ${row.name}?`, text: `${row.user} from ${row.remote} (${row.protocol}${row.client_id ? `, ${row.client_id}` : ""}) is cut off. What its ${count(row.consumers)} consumers hold goes to others. It may connect again.`, button: `Close ${row.name}`, act: async () => { await ask("DELETE", `/connections${path(row.name)}`); page.load(); }, done: `Connection ${row.name} is closed.` });
  return page;
}
