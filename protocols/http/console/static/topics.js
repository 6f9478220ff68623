// topics: topics and the durable subscriptions that keep what they hear.

import { push, count, size, to, plural, hint } from "./dom.js";
import { ask, path, post, session } from "./api.js";
import { num, words, link, acts, by } from "./table.js";
import { listPage } from "./lists.js";
import { confirm, form, toast } from "./dialogs.js";

export function topics(main, parts, query) {
  const page = listPage({
    main, query, title: "Topics", where: "/topics",
    acts: session.manages_some.includes("topic") ? push("Make a topic", make, "primary") : null,
    columns: [
      by(words("Topic", "name", "name")), by(num("Subscribers", "subscribers")), by(num("Published", "published")), by(num("Delivered", "delivered")),
      { label: "Retained", show: (row) => (row.retained ? "yes" : "") },
      acts((row) => [row.rights.includes("send") && push("Publish", () => publish(row), "small"), " ", push("Forget", () => forget(row), "small danger")]),
    ],
    empty: () => hint("There is no topic yet. One is made when it is first used:", 'covey message send /topic/prices "42"'),
  });
  const publish = (row) => form({ title: `Publish to ${row.name}`, button: "Publish", fields: [{ name: "body", label: "Body", type: "area" }, { name: "group", label: "Group" }],
    act: async (values) => { const answer = await post(`/topics${path(row.name)}/messages`, values); toast(`Published as ${answer.message_id}.`); page.load(); } });
  const forget = (row) => confirm({ title: `Forget topic ${row.name}?`, text: `Topic ${row.name} goes with what it retained. Its ${plural(row.subscribers, "subscriber")} will hear it again when it is used.`, button: `Forget ${row.name}`, act: () => ask("DELETE", `/topics${path(row.name)}`).then(page.load), done: `Topic ${row.name} is forgotten.` });
  function make() {
    return form({ title: "Make a topic", button: "Make", fields: [{ name: "name", label: "Name", required: true, hint: "prices.eu" }], act: async (values) => { await ask("PUT", `/topics${path(values.name)}`); toast(`Topic ${values.name} is made.`); page.load(); } });
  }
  return page;
}

export function subscriptions(main, parts, query) {
  const page = listPage({
    main, query, title: "Durable subscriptions", where: "/subscriptions",
    columns: [
      by(link("Subscription", "name", (row) => to("queues", `/dsub/${row.name}`))),
      { label: "Hears", kind: "prose", show: (row) => row.destinations.join(", ") },
      by(num("Messages", "messages")), num("Held", "unsettled"), by(num("Size", "bytes", size)), by(num("Consumers", "consumers")),
      words("Selector", "selector", "prose"),
      acts((row) => push("Destroy", () => destroy(row), "small danger")),
    ],
    empty: () => hint("No durable subscription. A STOMP client makes one so:", "SUBSCRIBE\nid:billing\npersistent:true\ndestination:/topic/orders.**"),
  });
  const destroy = (row) => confirm({ title: `Destroy ${row.name}?`, text: `Durable subscription ${row.name} goes for good, with ${count(row.messages)} messages that nobody has read.`, button: `Destroy ${row.name}`, act: () => ask("DELETE", `/subscriptions${path(row.name)}`).then(page.load), done: `Subscription ${row.name} is destroyed.` });
  return page;
}
