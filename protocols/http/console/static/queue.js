// queue: one queue. Its groups are the heart of the page: who has which, how they move, why one
// waits. Beside them its consumers, messages, policy and trace.

import { h, fill, say, count, rate, size, since, short, to, age, plural, setClock } from "./dom.js";
import { ask, get, live, path, post, session, RowSet } from "./api.js";
import { chart, Samples, spans } from "./chart.js";
import { table } from "./table.js";
import { confirm, form, perform, toast } from "./dialogs.js";
import { groupMap, group, isParked, isDraining, isSpilled, isBlocked, ownerColour } from "./groupmap.js";
import { timeline } from "./timeline.js";
import { messages, sendDialog } from "./messages.js";
import { policy } from "./policy.js";
import { trace } from "./trace.js";
import { readArguments } from "./queues.js";

const TABS = [["", "Groups"], ["consumers", "Consumers"], ["messages", "Messages"], ["policy", "Policy"], ["trace", "Trace"]];
const LISTED = 60; // groups in the table below the map
const STATES = [
  ["waiting", "waits", isBlocked],
  ["parked", "parked", (row) => isParked(row[4])],
  ["draining", "draining", (row) => isDraining(row[4])],
  ["spilled", "spilled", (row) => isSpilled(row[4])],
  ["free", "no owner", (row) => !row[3]],
];

export default function queue(main, [name, tab = ""], query) {
  const where = `/queues${path(name)}`;
  let about = {};
  const may = (verb) => (about.rights ?? []).includes(verb);
  const consumers = new RowSet((row) => String(row.id));
  const facts = h("div", { class: "figures eight" });
  const acts = h("span", { class: "acts" });
  const trouble = h("div", { class: "hidden" });
  const content = h("div");
  const tabs = TABS.map(([key, label]) => h("a", { href: key ? to("queues", name, key) : to("queues", name), "aria-current": key === tab ? "page" : null }, label));
  const figures = ["Messages", "Held", "In", "Out", "Redelivered", "Groups", "Consumers", "Oldest"].map((label) => {
    const value = h("div", { class: "value" }, "–");
    facts.append(h("div", { class: "figure" }, h("div", { class: "label" }, label), value));
    return value;
  });
  fill(main, h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues")),
    h("div", { class: "title" }, h("h1", {}, name), h("span", { class: "badge" }), acts)),
    trouble, facts, h("nav", { class: "tabs", "aria-label": "Of this queue" }, tabs), content);
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
    const key = (about.rights ?? []).join();
    if (key === offered) return;
    offered = key;
    fill(acts,
      may("send") ? h("button", { type: "button", onclick: () => sendDialog(name) }, "Send a message") : null,
      may("manage") ? [
        h("button", { type: "button", onclick: rebalance }, "Rebalance"),
        h("button", { type: "button", onclick: change }, "Change"),
        h("button", { type: "button", class: "danger", onclick: purge }, "Purge"),
        may("destroy") ? h("button", { type: "button", class: "danger", onclick: remove }, "Delete") : null] : null);
  }
  const purge = () => confirm({ title: `Purge ${name}?`, text: `${plural(about.messages - about.unsettled, "message")} of queue ${name} are dropped for good. What consumers hold stays with them.`, button: `Purge ${name}`, act: () => post(`${where}/purge`), done: (answer) => `${plural(answer.purged, "message")} dropped.` });
  const remove = () => confirm({ title: `Delete ${name}?`, text: `Queue ${name} goes for good, with ${plural(about.messages, "message")} in ${plural(about.groups, "group")}. ${plural(about.consumers, "consumer")} will be told.`, button: `Delete ${name}`, act: async () => { await ask("DELETE", where); location.hash = "#/queues"; }, done: `Queue ${name} is deleted.` });
  const rebalance = () => confirm({ title: `Share out the groups of ${name} anew?`, text: `The strategy ${about.strategy} decides anew who owns each of ${plural(about.groups, "group")}. A group that moves waits until its present owner has settled what it holds.`, button: "Rebalance", act: () => post(`${where}/rebalance`), done: "The groups are shared out anew." });
  function change() {
    const given = Object.entries(about.arguments ?? {}).map(([key, value]) => `${key} = ${value}`).join("\n");
    return form({ title: `Change ${name}`, button: "Change", text: "An argument that is not named stays as it is. The value null gives it back to the policy.",
      fields: [{ name: "arguments", label: "Arguments", type: "area", value: given, hint: "qpid.max_count = 1000" }],
      act: async (values) => { await ask("PATCH", where, { body: { arguments: readArguments(values.arguments) } }); toast(`Queue ${name} is changed.`); } });
  }

  const close = live(where, { groups: tab === "" ? 5000 : 1, host: session.host }, {
    queue(told) { about = told; if (told.rates) setClock(told.rates.at + 0.3); trouble.classList.add("hidden"); tell(); offer(); view?.about?.(told); },
    consumers(delta) { consumers.apply(delta); view?.consumers?.(); },
    groups(delta) { view?.groups?.(delta); },
    sample(told) { view?.sample?.(told); },
    owners(told) { view?.owners?.(told); },
    ended(why) { trouble.classList.remove("hidden"); trouble.className = "notice warn"; fill(trouble, why.text); },
  });
  get(where).catch((error) => { if (error.status !== 401) { trouble.className = "notice warn"; fill(trouble, error.message, " ", h("a", { href: "#/queues" }, "All queues")); } });
  return { close() { close(); view?.close?.(); }, draw: () => view?.draw?.(), update: (now) => view?.update?.(now) };
}

/** A consumer as people know it: its number, its name or its client's. */
const named = (row) => (row ? `${row.id}${row.client ? ` · ${row.client}` : row.link ? ` · ${row.link}` : ""}` : "");

function groupsView(content, { name, where, may, consumers, about }) {
  const samples = new Samples();
  const groups = new RowSet((row) => row[0]);
  let span = 600;
  let filter = { owner: "", text: "", state: "" };
  let asked = 0;
  const flow = chart({ lines: [{ name: "enqueued", label: "in", colour: "in" }, { name: "delivered", label: "out", colour: "out" }, { name: "acknowledged", label: "acknowledged", colour: "ack" }, { name: "returned", label: "redelivered", colour: "back" }, { name: "dead", label: "dead", colour: "dead" }], write: rate, height: 140, label: "Messages a second of this queue" });
  const depth = chart({ lines: [{ name: "messages", label: "in the queue", colour: "in" }, { name: "unsettled", label: "held", colour: "out" }], write: short, height: 140, label: "Messages in this queue", floor: 10 });
  const tip = h("div", { class: "tip hidden" });
  const map = groupMap({ hover, choose: (row) => open(row[0]) });
  const times = timeline();
  const owners = h("select", { "aria-label": "Owner", onchange: () => { filter.owner = owners.value; choosing(); } }, h("option", { value: "" }, "every owner"));
  const text = h("input", { type: "search", "aria-label": "Find groups", placeholder: "Find groups", oninput: () => { filter.text = text.value.toLowerCase(); choosing(); } });
  const chips = h("div", { class: "chips" }, STATES.map(([key, label]) => h("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
    filter.state = filter.state === key ? "" : key;
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip === event.target && filter.state === key));
    choosing();
  } }, label)));
  const shown = h("span", { class: "soft", role: "status" });
  const legend = h("div", { class: "keys" });
  const empty = h("div", { class: "empty hidden" }, h("p", {}, "No message of a group is here now. Send some, and watch who gets them:"), h("pre", {}, `covey message send ${name} "first" --group a\ncovey message send ${name} "second" --group b`));
  const list = table({
    label: "Hottest groups", key: (row) => row.name,
    columns: [
      { label: "Group", kind: "name", told: (row) => row.name, node: (row) => h("button", { type: "button", class: "link", onclick: () => open(row.name) }, row.name) },
      { label: "Messages", kind: "num", show: (row) => count(row.messages) },
      { label: "Held", kind: "num", show: (row) => count(row.unsettled) },
      { label: "Owner", told: (row) => `${row.owner} ${document.documentElement.dataset.scheme}`, node: (row) => ownerKey(row.owner) },
      { label: "Owned for", kind: "num", show: (row) => (row.owner ? since(row.owned) : "") },
      { label: "State", told: (row) => String(row.marks) + Boolean(row.blocked), node: (row) => marks(row) },
      { label: "Waits for", optional: true, kind: "num", show: (row) => since(row.blocked) },
    ],
  });
  fill(content,
    h("section", { class: "card", "aria-label": "Group map" },
      h("header", {}, h("h2", {}, "Groups"), shown, h("span", { class: "acts" }, text, owners)),
      h("div", { class: "row" }, chips),
      h("p", { class: "soft" }, "A tile is a group: its area is what waits, its colour the owner; the solid part is being worked at."),
      empty, map.node, legend, tip),
    h("div", { class: "two" },
      h("section", { class: "card", "aria-label": "Hottest groups" }, h("header", {}, h("h2", {}, "Hottest groups")), list.node),
      h("section", { class: "card", "aria-label": "Owners of the hottest groups" }, h("header", {}, h("h2", {}, "Who had them, last 10 minutes")), times.node)),
    h("section", { class: "card", "aria-label": "History" }, h("header", {}, h("h2", {}, "History"), h("span", { class: "acts" }, spans(span, choose))),
      h("div", { class: "grid" }, flow.node, depth.node)));
  content.className = "grid";
  content.style.gridTemplateColumns = "minmax(0, 1fr)";

  const dark = () => document.documentElement.dataset.scheme === "dark";
  function ownerKey(owner) {
    if (!owner) return h("span", { class: "soft" }, "nobody");
    const mark = h("i");
    mark.style.setProperty("--c", ownerColour(owner, dark()));
    return h("span", { class: "key" }, mark, named(consumers.rows.get(String(owner))) || String(owner));
  }
  function marks(row) {
    const found = [];
    if (isParked(row.marks)) found.push(["warn", "parked"]);
    else if (isDraining(row.marks)) found.push(["", "draining"]);
    else if (row.blocked) found.push(["bad", "blocked"]);
    if (isSpilled(row.marks)) found.push(["", "spilled"]);
    if (!found.length) found.push(["good", row.owner ? "moves" : "free"]);
    return found.map(([kind, label]) => h("span", { class: `badge ${kind}` }, label));
  }

  function show() {
    let rows = groups.list();
    empty.classList.toggle("hidden", rows.length > 0 || !asked);
    map.node.classList.toggle("hidden", groups.rows.size === 0);
    const state = STATES.find(([key]) => key === filter.state)?.[2];
    if (filter.owner) rows = rows.filter((row) => String(row[3]) === filter.owner);
    if (filter.text) rows = rows.filter((row) => row[0].toLowerCase().includes(filter.text));
    if (state) rows = rows.filter(state);
    map.show(rows);
    const hottest = rows.slice().sort((one, other) => other[1] - one[1]).slice(0, LISTED).map(group);
    list.show(hottest.slice(0, 15));
    const all = groups.rows.size;
    say(shown, `${rows.length < all ? `${count(rows.length)} of ` : ""}${plural(groups.total, "group")}${groups.total > all ? `, the ${count(all)} largest are drawn` : ""}`);
  }

  function choosing() { show(); map.reset(); }
  let legendOf = "";
  function ownersChanged() {
    const rows = consumers.list().filter((row) => !row.browser);
    const key = rows.map((row) => named(row)).join() + dark();
    if (key === legendOf) return;
    legendOf = key;
    const chosen = owners.value;
    fill(owners, h("option", { value: "" }, "every owner"), h("option", { value: "0" }, "nobody"), rows.map((row) => h("option", { value: String(row.id) }, named(row))));
    owners.value = chosen;
    fill(legend, rows.slice(0, 24).map((row) => ownerKey(row.id)), rows.length > 24 ? h("span", { class: "soft" }, `and ${rows.length - 24} more`) : null);
  }

  // Why a group waits is asked for when somebody points at it.
  let pointed = "";
  let timer = 0;
  function hover(row, event) {
    tip.classList.toggle("hidden", !row);
    if (!row) { pointed = ""; clearTimeout(timer); return; }
    if (row[0] !== pointed) {
      pointed = row[0];
      describe(row, "");
      clearTimeout(timer);
      timer = setTimeout(async () => {
        try {
          const told = await get(`${where}/groups${path(row[0])}`);
          if (pointed === row[0]) describe(row, told.why);
        } catch { /* it is gone by now */ }
      }, 150);
    }
    const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  }
  function describe(row, why) {
    const one = group(row);
    fill(tip, h("b", {}, one.name), h("div", {}, `${plural(one.messages, "message")}, ${count(one.unsettled)} held`),
      h("div", {}, ownerKey(one.owner), one.owner ? ` for ${since(one.owned)}` : ""),
      h("div", {}, marks(one)), why ? h("div", {}, why, one.blocked ? ` (${since(one.blocked)})` : "") : null);
  }

  function open(key) { groupDialog({ key, where, may, name, consumers: consumers.list() }); }

  async function load() {
    const read = await get(`${where}/history`, { span: Math.max(span, 600) });
    samples.most = span > 600 ? 1440 : 600;
    samples.set(read);
    draw();
  }
  function choose(seconds) { span = seconds; load().catch(() => {}); }
  function draw() { flow.show(samples.data, span); depth.show(samples.data, span); times.draw(); map.draw(); ownersChanged(); }
  load().catch(() => {});
  return {
    groups(delta) { asked = 1; groups.apply(delta); show(); },
    consumers: ownersChanged,
    owners: (told) => times.show(told),
    sample(told) { if (span <= 600) samples.add(told); flow.show(samples.data, span); depth.show(samples.data, span); },
    draw, close() { clearTimeout(timer); },
  };
}

/** One group: what it is, why it waits, and what can be done about it. */
function groupDialog({ key, where, may, name }) {
  const at = `${where}/groups${path(key)}`;
  const facts = h("dl", { class: "facts" });
  const error = h("p", { class: "error", role: "alert" });
  const buttons = h("div", { class: "row" });
  const dialog = h("dialog", { "aria-labelledby": "group-title" }, h("form", { method: "dialog" },
    h("h1", { id: "group-title" }, key), facts, error, buttons, h("footer", {}, h("button", {}, "Close"))));
  const act = (what, done) => async () => { await perform(() => post(`${at}/${what}`, {}), done); await load(); };
  async function put(what, title, text, fields, done) {
    await form({ title: `${title}?`, text, fields, button: title, danger: what !== "park" && what !== "move", act: async (given) => { await post(`${at}/${what}`, given); toast(done); } });
    await load();
  }
  async function load() {
    try {
      const told = await get(at);
      const rows = [["Queue", name], ["Messages", `${count(told.messages)}, ${count(told.unsettled)} of them held`], ["Owner", told.owner ? `consumer ${told.owner} ${told.owner_client || told.owner_name}, for ${age(told.owned_s)}` : "nobody"], ["State", told.parked ? "parked" : told.state], ["Why it waits", told.why || "it does not"], ["Blocked for", told.blocked_s ? age(told.blocked_s) : ""], ["Oldest message", told.oldest_seq ? `number ${told.oldest_seq}, ${age(told.oldest_s)} old` : ""]];
      fill(facts, rows.filter(([, text]) => text).map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]));
      fill(buttons, may("browse") ? h("a", { class: "button", href: `${to("queues", name, "messages")}?group=${encodeURIComponent(key)}`, onclick: () => dialog.close() }, "Messages") : null,
        may("manage") ? [
          told.parked ? h("button", { type: "button", onclick: act("unpark", `Group ${key} goes on.`) }, "Unpark") : h("button", { type: "button", onclick: () => put("park", `Park ${key}`, "The group stops until somebody lets it go on, also over a restart.", [{ name: "reason", label: "Reason" }], `Group ${key} is parked.`) }, "Park"),
          h("button", { type: "button", onclick: () => put("move", `Move ${key}`, "What nobody holds goes to the end of another queue, in its order.", [{ name: "to", label: "To queue", required: true }], `Group ${key} is moved.`) }, "Move"),
          h("button", { type: "button", class: "danger", onclick: () => put("dead-letter", `Dead-letter ${key}`, `What nobody holds of ${plural(told.messages, "message")} goes to the queue for dead messages.`, [{ name: "reason", label: "Reason" }], `Group ${key} is dead-lettered.`) }, "Dead-letter"),
          h("button", { type: "button", class: "danger", onclick: () => put("purge", `Purge ${key}`, `What nobody holds of ${plural(told.messages, "message")} of group ${key} is dropped for good.`, [], `Group ${key} is purged.`) }, "Purge group"),
          told.owner ? h("button", { type: "button", onclick: act("close", `Group ${key} is taken from its owner once that has settled.`) }, "Close group") : null] : null);
    } catch (trouble) {
      fill(facts);
      fill(buttons);
      fill(error, trouble.status === 404 ? `Group ${key} has no message any more.` : trouble.message);
    }
  }
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  load();
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
      { label: "Marks", optional: true, show: (row) => [row.browser && "browses", row.exclusive && "exclusive", row.retiring && "retires", row.priority && `priority ${row.priority}`].filter(Boolean).join(", ") },
      { label: "", kind: "acts", told: (row) => `${row.id} ${row.retiring} ${may("manage")}`, node: (row) => (may("manage") && !row.browser && !row.retiring ? h("button", { type: "button", class: "small", onclick: () => retire(row) }, "Retire") : h("span")) },
    ],
    empty: () => [h("p", {}, "Nobody reads this queue now."), h("pre", {}, `covey worker my_module:handle ${about().name ?? "QUEUE"}`)],
  });
  const retire = (row) => confirm({ title: `Retire consumer ${row.id}?`, text: `Consumer ${row.id} (${row.client || row.link}) gets no new groups, and keeps the ${plural(row.groups, "group")} it has until they are empty: for a rolling deploy.`, button: `Retire ${row.id}`, act: () => post(`${where}/consumers${path(row.id)}/retire`), done: `Consumer ${row.id} retires.` });
  fill(content, h("section", { class: "card", "aria-label": "Consumers" }, grid.node));
  const show = () => grid.show(consumers.list());
  return { consumers: show, about: show };
}
