// queue: one queue: what it holds and does, and what can be done about it. Its groups are the heart
// of it (groups.js); beside them its consumers, messages, policy and trace.

import { h, fill, say, count, rate, since, short, to, plural } from "./dom.js";
import { ask, get, live, path, post, session, RowSet } from "./api.js";
import { table } from "./table.js";
import { confirm, form, perform, toast } from "./dialogs.js";
import { groupsView } from "./groups.js";
import { messages, sendDialog } from "./messages.js";
import { policy } from "./policy.js";
import { trace } from "./trace.js";
import { readArguments } from "./queues.js";

const TABS = [["", "Groups"], ["consumers", "Consumers"], ["messages", "Messages"], ["policy", "Policy"], ["trace", "Trace"]];
const STEPS_SHOWN = 12; // of a rebalance that is looked at

export default function queue(main, [name, tab = ""], query) {
  const where = `/queues${path(name)}`;
  let about = {};
  const may = (verb) => (about.rights ?? []).includes(verb);
  const consumers = new RowSet((row) => String(row.id));
  const facts = h("div", { class: "figures eight" });
  const acts = h("span", { class: "acts" });
  const trouble = h("div", { class: "hidden" });
  const paused = h("div", { class: "hidden", role: "status" });
  const content = h("div");
  const tabs = TABS.map(([key, label]) => h("a", { href: key ? to("queues", name, key) : to("queues", name), "aria-current": key === tab ? "page" : null }, label));
  const figures = ["Messages", "Held", "In", "Out", "Redelivered", "Groups", "Consumers", "Oldest"].map((label) => {
    const value = h("div", { class: "value" }, "–");
    facts.append(h("div", { class: "figure" }, h("div", { class: "label" }, label), value));
    return value;
  });
  fill(main, h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues")),
    h("div", { class: "title" }, h("h1", {}, name), h("span", { class: "badge" }), acts)),
    trouble, paused, facts, h("nav", { class: "tabs", "aria-label": "Of this queue" }, tabs), content);
  const badge = main.querySelector(".badge");

  const views = { "": groupsView, consumers: consumersView, messages, policy, trace };
  const view = (views[tab] ?? groupsView)(content, { name, where, query, may, consumers, about: () => about });

  function tell() {
    const rates = about.rates ?? {};
    const texts = [short(about.messages), short(about.unsettled), `${rate(rates.enqueued)}/s`, `${rate(rates.delivered)}/s`, `${rate(rates.returned)}/s`, short(about.groups), short(about.consumers), since(about.oldest_at) || "–"];
    texts.forEach((text, at) => say(figures[at], text));
    say(badge, [about.strategy, about.group_header && `by ${about.group_header}`].filter(Boolean).join(" "));
  }
  let offered = "";
  function offer() {
    const key = `${about.rights} ${about.paused}`;
    if (key === offered) return;
    paused.className = about.paused ? "notice warn" : "hidden";
    fill(paused, about.paused ? [h("b", {}, { in: "Producers wait: ", out: "Consumers wait: ", both: "Producers and consumers wait: " }[about.paused]), (about.pauses ?? []).map((one) => `paused by ${one.by}${one.why ? `, ${one.why}` : ""}`).join("; "), "."] : null);
    offered = key;
    tabs[2].classList.toggle("hidden", !may("browse"));
    fill(acts,
      may("send") ? h("button", { onclick: () => sendDialog(name) }, "Send a message") : null,
      may("manage") ? [
        about.paused !== "both" ? h("button", { onclick: pause }, "Pause") : null,
        about.paused ? h("button", { class: "primary", onclick: resume }, "Resume") : null,
        h("button", { onclick: rebalance }, "Rebalance"),
        h("button", { onclick: change }, "Change"),
        h("button", { class: "danger", onclick: purge }, "Purge"),
        may("destroy") ? h("button", { class: "danger", onclick: remove }, "Delete") : null] : null);
  }
  const purge = () => confirm({ title: `Purge ${name}?`, text: `${plural(about.messages - about.unsettled, "message")} of queue ${name} are dropped for good. What consumers hold stays with them.`, button: `Purge ${name}`, act: () => post(`${where}/purge`), done: (answer) => `${plural(answer.purged, "message")} dropped.` });
  const remove = () => confirm({ title: `Delete ${name}?`, text: `Queue ${name} goes for good, with ${plural(about.messages, "message")} in ${plural(about.groups, "group")}. ${plural(about.consumers, "consumer")} will be told.`, button: `Delete ${name}`, act: async () => { await ask("DELETE", where); location.hash = "#/queues"; }, done: `Queue ${name} is deleted.` });
  const pause = () => form({ title: `Pause ${name}?`, button: "Pause", text: "It stands still until somebody lets it go on, also over a restart. What consumers hold they may settle.",
    fields: [{ name: "way", label: "Who waits", options: [["both", "producers and consumers"], ["out", "consumers: nothing is handed out"], ["in", "producers: nothing is taken"]] }, { name: "reason", label: "Reason" }],
    act: async (given) => { await post(`${where}/pause`, given); toast(`Queue ${name} is paused.`); } });
  const resume = () => perform(() => post(`${where}/resume`, {}), (answer) => (answer.paused ? `Queue ${name} stays paused: ${answer.paused}.` : `Queue ${name} goes on.`));
  /** Tell what would move, and move it if that is wanted. */
  async function rebalance() {
    const planned = await perform(() => post(`${where}/rebalance`, undefined, { dry_run: true }));
    if (!planned) return;
    const many = planned.would_move;
    if (!many) { toast(`No group of ${name} would move: they are shared out as ${about.strategy} would do it.`); return; }
    const who = (id) => { const row = consumers.rows.get(String(id)); return `${id}${row?.client ? ` · ${row.client}` : ""}`; };
    const rows = planned.steps.slice(0, STEPS_SHOWN).map((step) => h("tr", {}, [step.group, who(step.from), who(step.to), count(step.messages)].map((cell, at) => h("td", { class: ["name", "", "", "num"][at] }, cell))));
    await confirm({ title: `Share out the groups of ${name} anew?`, button: `Move ${plural(many, "group")}`,
      text: [`${plural(many, "group")} of ${count(about.groups)} would get another owner. A group that moves waits until its present owner has settled what it holds.`,
        h("table", { class: "data" }, h("thead", {}, h("tr", {}, ["Group", "From", "To", "Messages"].map((label, at) => h("th", { scope: "col", class: at === 3 ? "num" : "" }, label)))), h("tbody", {}, rows)),
        many > rows.length ? h("span", { class: "soft" }, `and ${count(many - rows.length)} more`) : null],
      act: () => post(`${where}/rebalance`), done: (answer) => `${plural(answer.moved, "group")} shared out anew.` });
  }
  function change() {
    const given = Object.entries(about.arguments ?? {}).map(([key, value]) => `${key} = ${value}`).join("\n");
    return form({ title: `Change ${name}`, button: "Change", text: "An argument that is not named stays as it is. The value null gives it back to the policy.",
      fields: [{ name: "arguments", label: "Arguments", type: "area", value: given, hint: "qpid.max_count = 1000" }],
      act: async (values) => { await ask("PATCH", where, { body: { arguments: readArguments(values.arguments) } }); toast(`Queue ${name} is changed.`); } });
  }

  const close = live(where, { groups: tab === "" ? 5000 : 0, host: session.host }, {
    queue(told) { about = told; trouble.classList.add("hidden"); tell(); offer(); view?.about?.(told); },
    consumers(delta) { consumers.apply(delta); view?.consumers?.(); },
    groups(delta) { view?.groups?.(delta); },
    sample(told) { view?.sample?.(told); },
    clock() { tell(); view?.clock?.(); },
    owners(told) { view?.owners?.(told); },
    ended(why) { trouble.classList.remove("hidden"); trouble.className = "notice warn"; fill(trouble, why.text); },
  });
  get(where).catch((error) => { if (error.status !== 401) { trouble.className = "notice warn"; fill(trouble, error.message, " ", h("a", { href: "#/queues" }, "All queues")); } });
  return { close() { close(); view?.close?.(); }, draw: () => view?.draw?.(), update: (now) => view?.update?.(now) };
}

function consumersView(content, { where, may, consumers, about }) {
  const grid = table({
    label: "Consumers", key: (row) => String(row.id),
    columns: [
      { label: "Consumer", kind: "name", show: (row) => `${row.id}${row.link ? ` · ${row.link}` : ""}` },
      { label: "Client", told: (row) => row.connection, node: (row) => h("a", { href: `#/connections?search=${encodeURIComponent(row.client || row.connection)}` }, row.client || `connection ${row.connection}`) },
      { label: "Credit", kind: "num", show: (row) => (row.credit < 0 ? "as it reads" : count(row.credit)) },
      { label: "Holds", kind: "num", show: (row) => count(row.unsettled) },
      { label: "Groups", kind: "num", show: (row) => count(row.groups) },
      { label: "Share", kind: "num", show: (row) => { const all = consumers.list().reduce((sum, one) => sum + one.groups, 0); return all ? `${Math.round((100 * row.groups) / all)} %` : ""; } },
      { label: "Delivered", kind: "num", show: (row) => count(row.delivered) },
      { label: "Selector", optional: true, kind: "prose", show: (row) => row.selector },
      { label: "Marks", optional: true, show: (row) => [row.browser && "browses", row.exclusive && "exclusive", row.retiring && "retires", row.priority && `priority ${row.priority}`, row.group_asked && (row.group ? `only group ${row.group}` : `waits for group ${row.group_asked}`)].filter(Boolean).join(", ") },
      { label: "", kind: "acts", told: (row) => `${row.id} ${row.retiring} ${may("manage")}`, node: (row) => (may("manage") && !row.browser && !row.retiring ? h("button", { class: "small", onclick: () => retire(row) }, "Retire") : h("span")) },
    ],
    empty: () => [h("p", {}, "Nobody reads this queue now. A worker of ten lines does (docs/worker.md):"), h("pre", {}, "covey worker run my_module:worker")],
  });
  const retire = (row) => confirm({ title: `Retire consumer ${row.id}?`, text: `Consumer ${row.id} (${row.client || row.link}) gets no new groups, and keeps the ${plural(row.groups, "group")} it has until they are empty: for a rolling deploy.`, button: `Retire ${row.id}`, act: () => post(`${where}/consumers${path(row.id)}/retire`), done: `Consumer ${row.id} retires.` });
  fill(content, h("section", { class: "card", "aria-label": "Consumers" }, grid.node));
  const show = () => grid.show(consumers.list());
  return { consumers: show, about: show };
}
