// groups: who has which group of a queue, how they move, why one waits; and what can be done.

import { h, fill, say, count, rate, since, short, to, age, plural, push, card, facts, choice, beside, hint, setQuery, finder } from "./dom.js";
import { get, path, post, RowSet } from "./api.js";
import { chart, RATES, Samples, spans } from "./chart.js";
import { table, num } from "./table.js";
import { perform, sheet } from "./dialogs.js";
import { groupMap, group, isParked, isDraining, isSpilled, isBlocked, isFull, ownerColour } from "./groupmap.js";
import { timeline } from "./timeline.js";
import { groupActs, offer } from "./messages.js";

const LISTED = 15; // groups in the table below the map
// What may be said of a group, and how it looks; the filters of the map are the same.
const STATES = [
  ["waits", "bad", isBlocked],
  ["parked", "warn", isParked],
  ["draining", "", isDraining],
  ["spilled", "", isSpilled],
  ["owner is full", "", isFull],
  ["no owner", "", (row) => !row[3]],
];

/** A consumer as people know it: its number, its name or its client's. */
const named = (row) => (row ? `${row.id}${row.client ? ` · ${row.client}` : row.link ? ` · ${row.link}` : ""}` : "");

export function groupsView(content, { name, where, query, may, consumers, about }) {
  const samples = new Samples();
  const groups = new RowSet((row) => row[0]);
  let span = 600;
  const filter = { owner: query.owner ?? "", find: query.find ?? "", state: query.state ?? "" }; // it stands in the address
  let asked = 0;
  let shownRows = [];
  const flow = chart({ lines: RATES, write: rate, height: 140, label: "Messages a second of this queue" });
  const depth = chart({ lines: [["messages", "in the queue", "in"], ["unsettled", "held", "out"]], write: short, height: 140, label: "Messages in this queue", floor: 10 });
  const tip = h("div", { class: "tip hidden" });
  const map = groupMap({ hover, choose: (row) => open(row[0]) });
  const times = timeline();
  const owners = h("select", { "aria-label": "Owner", onchange: () => { filter.owner = owners.value; choosing(); } }, h("option", { value: "" }, "every owner"));
  const text = finder("Find groups", { value: filter.find, oninput: () => { filter.find = text.value; choosing(); } });
  const chips = choice("State", STATES.map(([label]) => [label, label]), filter.state, (state) => { filter.state = state; choosing(); }, { look: "chips", none: "" });
  const shown = h("span", { class: "soft", role: "status" });
  const legend = h("div", { class: "keys" });
  const empty = h("div", { class: "empty hidden" }, hint("No message of a group is here now. Send some, and watch who gets them:", `covey message send ${name} "first" --group a\ncovey message send ${name} "second" --group b`));
  const list = table({
    label: "Hottest groups",
    columns: [
      { label: "Group", kind: "name", told: (row) => row.name, node: (row) => push(row.name, () => open(row.name), "link") },
      num("Messages", "messages"),
      num("Held", "unsettled"),
      { label: "Owner", told: (row) => `${row.owner} ${document.documentElement.dataset.scheme}`, node: (row) => ownerKey(row.owner) },
      { label: "Owned for", kind: "num", show: (row) => (row.owner ? since(row.owned) : "") },
      { label: "State", told: ({ row }) => STATES.map(([, , is]) => is(row)).join(), node: (row) => marks(row) },
      { label: "Waits for", optional: true, kind: "num", show: (row) => since(row.blocked) },
    ],
  });
  fill(content,
    card("Groups", [text, owners],
      h("div", { class: "row" }, chips, shown),
      h("p", { class: "soft" }, "A tile is a group: its area is what waits, its colour the owner; the solid part is being worked at."),
      empty, map.node, legend, tip),
    h("div", { class: "two" },
      card("Hottest groups", null, list.node),
      card("Who had them, last 10 minutes", null, times.node)),
    card("History", spans(span, choose), h("div", { class: "grid" }, flow.node, depth.node)));
  content.className = "grid";
  content.style.gridTemplateColumns = "minmax(0, 1fr)";

  function ownerKey(owner) {
    if (!owner) return h("span", { class: "soft" }, "nobody");
    const mark = h("i");
    mark.style.setProperty("--c", ownerColour(owner));
    return h("span", { class: "key" }, mark, named(consumers.rows.get(String(owner))) || String(owner));
  }
  function marks({ row }) {
    let found = STATES.filter(([, , is]) => is(row));
    if (found.length > 1) found = found.filter(([label]) => label !== "waits" && label !== "no owner");
    return (found.length ? found : [["moves", "good"]]).map(([label, look]) => [h("span", { class: `badge ${look}` }, label), " "]);
  }

  function show() {
    let rows = groups.list();
    empty.classList.toggle("hidden", rows.length > 0 || !asked);
    map.node.classList.toggle("hidden", groups.rows.size === 0);
    const state = STATES.find(([label]) => label === filter.state)?.[2];
    if (filter.owner) rows = rows.filter((row) => String(row[3]) === filter.owner);
    if (filter.find) rows = rows.filter((row) => row[0].toLowerCase().includes(filter.find.toLowerCase()));
    if (state) rows = rows.filter(state);
    map.show(rows);
    const hottest = rows.slice().sort((one, other) => other[1] - one[1]).slice(0, LISTED).map(group);
    shownRows = hottest;
    list.show(shownRows);
    const all = groups.rows.size;
    say(shown, `${rows.length < all ? `${count(rows.length)} of ` : ""}${plural(groups.total, "group")}${groups.total > all ? `, the ${count(all)} largest are drawn` : ""}`);
  }

  function choosing() { setQuery(filter, true); show(); map.reset(); }
  let legendOf = "";
  function ownersChanged() {
    const rows = consumers.list().filter((row) => !row.browser);
    const key = rows.map((row) => named(row)).join() + document.documentElement.dataset.scheme;
    if (key === legendOf) return;
    legendOf = key;
    const chosen = filter.owner;
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
    beside(tip, event);
  }
  function describe(row, why) {
    const one = group(row);
    fill(tip, h("b", one.name), h("div", `${plural(one.messages, "message")}, ${count(one.unsettled)} held`),
      h("div", ownerKey(one.owner), one.owner ? ` for ${since(one.owned)}` : ""),
      h("div", marks(one)), why ? h("div", why, one.blocked ? ` (${since(one.blocked)})` : "") : null);
  }

  function open(key) {
    setQuery({ group: key }, true);
    const address = location.hash;
    groupDialog({ key, where, may, name, about }).addEventListener("close", () => { if (location.hash === address) setQuery({ group: "" }, true); });
  }
  let wanted = query.group; // opened when it is known what may be done about it

  async function load() {
    const read = await get(`${where}/history`, { span: Math.max(span, 600) });
    samples.set(read, span);
    history();
  }
  function choose(seconds) { span = seconds; load().catch(() => {}); }
  function history() { flow.show(samples.data, span); depth.show(samples.data, span); }
  function draw() { flow.draw(); depth.draw(); times.draw(); map.draw(); ownersChanged(); }
  load().catch(() => {});
  return {
    groups(delta) { asked = 1; groups.apply(delta); show(); },
    about() { if (wanted) open(wanted); wanted = ""; },
    consumers: ownersChanged,
    owners: (told) => times.show(told),
    sample(told) { if (span <= 600) samples.add(told); history(); },
    clock() { times.draw(); if (asked) list.show(shownRows); },
    draw, close() { clearTimeout(timer); },
  };
}

/** One group: what it is, why it waits, and what can be done about it. */
function groupDialog({ key, where, may, name, about }) {
  const at = `${where}/groups${path(key)}`;
  const known = h("div");
  const error = h("p", { class: "error", role: "alert" });
  const buttons = h("div", { class: "row" });
  const dialog = sheet(key, known, error, buttons);
  const act = (label, what, done) => push(label, async () => { await perform(() => post(`${at}/${what}`), done); await load(); }, "small");
  const offers = (told, first) => [
    told.parked ? act("Unpark", "unpark", `Group ${key} goes on.`) : offer("Park", `${at}/park`, { which: key, text: "The group stops until somebody lets it go on, also over a restart.", fields: [{ name: "reason", label: "Reason" }], done: `Group ${key} is parked.`, after: load }),
    told.messages > 0 && told.owner > 0 && act("Close group", "close", `Group ${key} is taken from its owner once that has settled.`),
    told.messages > 0 && groupActs(told, first, { key, at, about }, load),
  ];
  async function load() {
    try {
      const [told, page] = await Promise.all([get(at), may("manage") ? get(`${at}/messages`, { limit: 1 }) : { items: [] }]);
      const first = page.items[0];
      const rows = [["Queue", name], ["Messages", `${count(told.messages)}, ${count(told.unsettled)} of them held`], ["Owner", told.owner ? `consumer ${told.owner} ${told.owner_client || told.owner_name}, for ${age(told.owned_s)}` : "nobody"], ["State", told.parked ? "parked" : told.state], ["Parked at", told.parked_at_ms ? new Date(told.parked_at_ms).toLocaleString("en-GB") : ""], ["Why it waits", told.why || (told.messages ? "it does not" : "it has no message")], ["Blocked for", told.blocked_s ? age(told.blocked_s) : ""], ["Oldest message", told.oldest_seq ? `number ${count(told.oldest_seq)}, ${age(told.oldest_s)} old` : ""], ["Dead because", first?.dead_reason], ["Came from", first?.dead_origin?.queue]];
      fill(known, facts(rows));
      fill(buttons, may("browse") ? h("a", { class: "button small", href: `${to("queues", name, "messages")}?group=${encodeURIComponent(key)}`, onclick: () => dialog.close() }, "Messages") : null,
        may("manage") ? offers(told, first) : null);
    } catch (trouble) {
      fill(known);
      fill(buttons);
      fill(error, trouble.status === 404 ? `Group ${key} has no message any more.` : trouble.message);
    }
  }
  load();
  return dialog;
}
