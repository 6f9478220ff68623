// queue: one queue: what it holds and does, and what can be done about it. Its groups are the heart
// of it (groups.js); beside them its consumers, messages, policy and trace.

import { h, fill, say, count, rate, since, short, to, plural, push, hint, card, panel } from "./dom.js";
import { ask, get, live, path, post, RowSet } from "./api.js";
import { table, num, words, acts as buttons } from "./table.js";
import { confirm, form, perform, toast } from "./dialogs.js";
import { groupsView } from "./groups.js";
import { messages, sendDialog } from "./messages.js";
import { trace } from "./trace.js";
import { readArguments } from "./queues.js";
import { settingsTable } from "./configuration.js";

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
  const strip = h("nav", { class: "tabs", "aria-label": "Of this queue" }, tabs);
  fill(main, h("div", h("p", { class: "crumbs" }, h("a", { href: to("queues") }, "Queues")),
    h("div", { class: "title" }, h("h1", name), h("span", { class: "badge" }), acts)),
    trouble, paused, facts, strip, content);
  const badge = main.querySelector(".badge");
  /** A queue that is not there, or not for us, has nothing to show but that. */
  function isThere(why = "") {
    trouble.className = why ? "notice warn" : "hidden";
    fill(trouble, why, ". ", h("a", { href: to("queues") }, "All queues"));
    for (const one of [facts, strip, content, acts]) one.classList.toggle("hidden", Boolean(why));
  }

  const views = { "": groupsView, consumers: consumersView, messages, policy: policyView, trace };
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
    fill(paused, about.paused ? [h("b", { in: "Producers wait: ", out: "Consumers wait: ", both: "Producers and consumers wait: " }[about.paused]), (about.pauses ?? []).map((one) => `paused by ${one.by}${one.why ? `, ${one.why}` : ""}`).join("; "), "."] : null);
    offered = key;
    tabs[2].classList.toggle("hidden", !may("browse"));
    fill(acts,
      may("send") ? push("Send a message", () => sendDialog(name)) : null,
      may("manage") ? [
        about.paused !== "both" ? push("Pause", pause) : null,
        about.paused ? push("Resume", resume, "primary") : null,
        push("Rebalance", rebalance),
        push("Change", change),
        push("Purge", purge, "danger"),
        may("destroy") ? push("Delete", remove, "danger") : null] : null);
  }
  const purge = () => confirm({ title: `Purge ${name}?`, text: `${plural(about.messages - about.unsettled, "message")} of queue ${name} are dropped for good. What consumers hold stays with them.`, button: `Purge ${name}`, act: () => post(`${where}/purge`), done: (answer) => `${plural(answer.purged, "message")} dropped.` });
  const remove = () => confirm({ title: `Delete ${name}?`, text: `Queue ${name} goes for good, with ${plural(about.messages, "message")} in ${plural(about.groups, "group")}. ${plural(about.consumers, "consumer")} will be told.`, button: `Delete ${name}`, act: async () => { await ask("DELETE", where); location.hash = to("queues"); }, done: `Queue ${name} is deleted.` });
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
    const steps = planned.steps.slice(0, STEPS_SHOWN);
    const grid = table({ label: "What would move", key: (step) => step.group, columns: [words("Group", "group", "name"), { label: "From", show: (step) => who(step.from) }, { label: "To", show: (step) => who(step.to) }, num("Messages", "messages")] });
    grid.show(steps);
    await confirm({ title: `Share out the groups of ${name} anew?`, button: `Move ${plural(many, "group")}`,
      text: [`${plural(many, "group")} of ${count(about.groups)} would get another owner. A group that moves waits until its present owner has settled what it holds.`,
        grid.node, many > steps.length ? h("span", { class: "soft" }, `and ${count(many - steps.length)} more`) : null],
      act: () => post(`${where}/rebalance`), done: (answer) => `${plural(answer.moved, "group")} shared out anew.` });
  }
  function change() {
    const given = Object.entries(about.arguments ?? {}).map(([key, value]) => `${key} = ${value}`).join("\n");
    return form({ title: `Change ${name}`, button: "Change", text: "An argument that is not named stays as it is. The value null gives it back to the policy.",
      fields: [{ name: "arguments", label: "Arguments", type: "area", value: given, hint: "qpid.max_count = 1000" }],
      act: async (values) => { await ask("PATCH", where, { body: { arguments: readArguments(values.arguments) } }); toast(`Queue ${name} is changed.`); } });
  }

  const close = live(where, { groups: tab === "" ? 5000 : 0 }, {
    queue(told) { about = told; if (trouble.className !== "hidden") isThere(); tell(); offer(); view?.about?.(told); },
    consumers(delta) { consumers.apply(delta); view?.consumers?.(); },
    groups(delta) { view?.groups?.(delta); },
    sample(told) { view?.sample?.(told); },
    clock() { tell(); view?.clock?.(); },
    owners(told) { view?.owners?.(told); },
    ended: (why) => isThere(why.text ?? why.message),
  });
  return { close() { close(); view?.close?.(); }, draw: () => view?.draw?.(), update: (now) => view?.update?.(now) };
}

/** What the queue does with its messages, and where each of these values comes from. */
function policyView(content, { where }) {
  const grid = settingsTable("Policy");
  fill(content, card("Policy, and where each value comes from", null, grid.node));
  get(`${where}/policy`).then((read) => grid.show(read.items.toSorted((one, other) => (one.origin === "default") - (other.origin === "default"))), (error) => fill(content, h("p", { class: "notice warn" }, error.message)));
  return {};
}

function consumersView(content, { where, may, consumers, about }) {
  const grid = table({
    label: "Consumers", key: (row) => String(row.id),
    columns: [
      { label: "Consumer", kind: "name", show: (row) => `${row.id}${row.link ? ` · ${row.link}` : ""}` },
      { label: "Client", told: (row) => row.connection, node: (row) => h("a", { href: `${to("connections")}?search=${encodeURIComponent(row.client || row.connection)}` }, row.client || `connection ${row.connection}`) },
      { label: "Credit", kind: "num", show: (row) => (row.credit < 0 ? "as it reads" : count(row.credit)) },
      num("Holds", "unsettled"),
      num("Groups", "groups"),
      { label: "Share", kind: "num", show: (row) => { const all = consumers.list().reduce((sum, one) => sum + one.groups, 0); return all ? `${Math.round((100 * row.groups) / all)} %` : ""; } },
      num("Delivered", "delivered"),
      { ...words("Selector", "selector", "prose"), optional: true },
      { label: "Marks", optional: true, show: (row) => [row.browser && "browses", row.exclusive && "exclusive", row.retiring && "retires", row.overdue && "let a deadline pass", row.priority && `priority ${row.priority}`, row.group_asked && (row.group ? `only group ${row.group}` : `waits for group ${row.group_asked}`)].filter(Boolean).join(", ") },
      buttons((row) => may("manage") && !row.browser && !row.retiring && push("Retire", () => retire(row), "small"), (row) => `${row.id} ${row.retiring} ${may("manage")}`),
    ],
    empty: () => hint("Nobody reads this queue now. A worker of ten lines does (docs/worker.md):", "covey worker run my_module:worker"),
  });
  const retire = (row) => confirm({ title: `Retire consumer ${row.id}?`, text: `Consumer ${row.id} (${row.client || row.link}) gets no new groups, and keeps the ${plural(row.groups, "group")} it has until they are empty: for a rolling deploy.`, button: `Retire ${row.id}`, act: () => post(`${where}/consumers${path(row.id)}/retire`), done: `Consumer ${row.id} retires.` });
  fill(content, panel("Consumers", grid.node));
  const show = () => grid.show(consumers.list());
  return { consumers: show, about: show };
}
