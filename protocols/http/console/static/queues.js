// queues: all of them, and a way to declare one.

import { push, size, since, to, short, hint } from "./dom.js";
import { ask, path, session } from "./api.js";
import { num, words, link, depth, flow, stopped, by } from "./table.js";
import { listPage } from "./lists.js";
import { form, toast } from "./dialogs.js";

const STRATEGIES = [["", "as the policy says"], "shared", "simple", "lru", "hash-buckets", "consistent-hash"];

/** Read `name = value` lines; numbers, true, false, null, lists and quoted texts are what they look like. */
export function readArguments(text, read = JSON.parse) {
  const found = {};
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [name, ...rest] = line.split("=");
    const value = rest.join("=").trim();
    if (!rest.length) throw new Error(`${line}: write name = value`);
    try { found[name.trim()] = read(value); } catch { found[name.trim()] = value; }
  }
  return found;
}

function declare() {
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

const mayDeclare = () => session.manages_some.includes("queue") && session.creates.includes("queue");

export default (main, parts, query) => listPage({
  main, query, title: "Queues", where: "/queues", kind: "queues",
  acts: mayDeclare() ? push("Declare a queue", declare, "primary") : null,
  columns: [
    by(link("Name", "name", (row) => to("queues", row.name))),
    by(num("Messages", "messages")), depth, stopped, by(num("Held", "unsettled")),
    flow("In /s", "enqueued"), flow("Out /s", "delivered"),
    by(num("Groups", "groups", short)), by(num("Consumers", "consumers")),
    by(words("Strategy", "strategy", "tight")), num("Oldest", "oldest_at", since), by(num("Size", "bytes", size)),
  ],
  empty: () => hint("There is no queue yet. One is made when it is first used, or declared here:", 'covey message send orders "pay" --group order-17'),
});
