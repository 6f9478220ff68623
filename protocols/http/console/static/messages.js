// messages: look at a queue's messages without taking them, send one, and do something about those
// that are chosen: retry, move, dead-letter, delete.

import { h, fill, say, count, size, plural, to, setQuery, push, hint, facts, choice, finder, trouble, panel } from "./dom.js";
import { get, post, path } from "./api.js";
import { form, sheet, toast } from "./dialogs.js";
import { readArguments } from "./queues.js";
import { table, num, words } from "./table.js";

const LIMIT = 50;
const PREVIEW = 90;
const STATES = { pending: "waits", acquired: "held" };

/** A body as people read it: text, JSON with its lines, or bytes in hexadecimal. */
function decoded(message) {
  if (message.body !== undefined) return { text: message.body, bytes: new TextEncoder().encode(message.body) };
  const raw = atob(message.body_base64 ?? "");
  const bytes = Uint8Array.from(raw, (one) => one.charCodeAt(0));
  let text = null;
  try { text = new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { /* it is no text */ }
  return { text, bytes };
}

function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, 16384); at += 16) {
    const part = [...bytes.slice(at, at + 16)];
    const hex = part.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : "·")).join("")}`);
  }
  return lines.join("\n");
}

function ways({ text, bytes }) {
  const found = [];
  if (text !== null) {
    try { found.push(["JSON", JSON.stringify(JSON.parse(text), null, 2)]); } catch { /* it is none */ }
    found.push(["Text", text]);
  }
  found.push(["Hex", hexDump(bytes)]);
  return found;
}

const when = (ms) => (ms ? new Date(ms).toLocaleString("en-GB") : "");

const isDead = (message) => Boolean(message.dead_origin?.queue);

/** Why a dead letter died, and where. */
function death({ dead_reason, dead_origin: { queue, group, seq, count: tries, time, consumer } }) {
  const place = h("a", { href: to("queues", queue), onclick: (event) => event.target.closest("dialog").close() }, queue);
  return [["Dead because", dead_reason], ["Came from", h("span", place, seq ? `, number ${count(seq)}` : "", group ? `, group ${group}` : "")], ["Failed", +tries && plural(+tries, "time")], ["Died", when(Number(time))], ["Held last by", consumer]];
}

/** One message with everything known of it. */
function messageView(message) {
  const body = h("pre", { class: "body", tabindex: "0" });
  const shown = ways(decoded(message));
  fill(body, shown[0][1]);
  const rows = [["Number", message.seq], ["Message id", message.message_id], ["Group", message.group], ["State", STATES[message.state] ?? message.state], ["Deliveries", message.deliveries], ["Size", size(message.size)], ["Sent", when(message.created_ms)], ["By", message.user_id], ["Expires", when(message.expires_ms)], ["Persistent", message.persistent ? "yes" : "no"], ["Priority", message.priority], ["Content type", message.content_type], ["Correlation id", message.correlation_id], ["Reply to", message.reply_to], ["Subject", message.subject]];
  const properties = Object.entries(message.properties ?? {});
  return [isDead(message) ? h("div", { class: "notice warn" }, facts(death(message))) : null, facts(rows), properties.length ? [h("h2", "Properties"), facts(properties.map(([name, value]) => [name, String(value)]))] : null,
    h("div", { class: "row" }, h("h2", "Body"), choice("Show the body as", shown, shown[0][1], (text) => fill(body, text)), message.is_cut ? h("span", { class: "soft" }, "only its first 64 KiB are shown") : null), body];
}

export function sendDialog(name, given = {}) {
  return form({
    title: `Send a message to ${name}`, button: "Send",
    fields: [
      { name: "group", label: "Group", value: given.group ?? "", hint: "order-17", help: "messages of one group stay in order" },
      { name: "body", label: "Body", type: "area", value: given.body ?? "" },
      { name: "properties", label: "Properties", type: "area", hint: "tenant = acme", help: "one a line, name = value" },
      { name: "content_type", label: "Content type", hint: "application/json" },
      { name: "ttl_ms", label: "Time to live, in ms", type: "number", min: 0 },
      { name: "priority", label: "Priority", type: "number", value: "4", min: 0, max: 9 },
      { name: "persistent", label: "It survives a restart", type: "check", value: true },
    ],
    async act(values) {
      const properties = readArguments(values.properties, String);
      const answer = await post(`/queues${path(name)}/messages`, { body: values.body, group: values.group, properties, content_type: values.content_type, persistent: values.persistent, priority: Number(values.priority || 4), ttl_ms: Number(values.ttl_ms || 0) });
      toast(`Sent as ${answer.message_id}.`);
      dispatchEvent(new Event("sent"));
    },
  });
}

/** A button that asks first; `word` is what the answer counts, `lead` what the toast begins with. */
export const offer = (label, where, { title = label, text, fields, word, done, lead = "", which, given, danger, after }) => push(label, async () => {
  await form({ title: `${title} ${which}?`, text, fields, button: `${title} ${which}`, danger,
    act: async (values) => { const answer = await post(where, { ...given, ...values }); toast(word ? lead + outcome(answer, word) : done); after(); } });
}, `small ${danger ? "danger" : ""}`);

const TO = [{ name: "to", label: "To queue", required: true }];
const WHY = [{ name: "reason", label: "Reason" }];

/** Buttons for some messages; `after` is called when something has become of them. */
function acts(rows, { name, where, about }, after) {
  const seqs = rows.map((row) => row.seq);
  const which = seqs.length === 1 ? `message ${count(seqs[0])}` : plural(seqs.length, "message");
  const origins = [...new Set(rows.map((row) => row.dead_origin?.queue))];
  const put = (label, verb, word, text, fields, danger) => offer(label, `${where}/messages/${verb}`, { which, given: { seqs }, word, fields, danger, after, text: `${label} ${which} of ${name}${text} What a consumer holds stays with it.` });
  return [
    rows.every(isDead) && put("Retry", "retry", "retried", ` back to ${origins.length === 1 ? origins[0] : `the ${origins.length} queues they came from`}.`),
    put("Move", "move", "moved", " to the end of another queue, in order.", TO),
    about().dlq && put("Dead-letter", "dead-letter", "dead_lettered", ` to ${about().dlq}, with a reason.`, WHY, true),
    put("Delete", "delete", "purged", ", for good.", [], true),
  ];
}

/** Buttons for a whole group; `first` is its first message. */
export function groupActs(told, first, { key, at, about }, after) {
  const free = `What nobody holds of ${plural(told.messages, "message")}`;
  const put = (label, verb, word, text, more) => offer(label, `${at}/${verb}`, { which: key, lead: `Group ${key}: `, word, after, text, ...more });
  return [
    first?.dead_origin?.queue && put("Retry", "retry", "retried", `${free} goes back to where it came from, ${first.dead_origin.queue} first.`),
    put("Move", "move", "moved", `${free} goes to the end of another queue, in its order.`, { fields: TO }),
    about().dlq && put("Dead-letter", "dead-letter", "dead_lettered", `${free} goes to ${about().dlq}.`, { fields: WHY, danger: true }),
    put("Purge group", "purge", "purged", `${free} of group ${key} is dropped for good.`, { title: "Purge", danger: true }),
  ];
}

/** What became of it, in words. */
export function outcome(answer, word) {
  const beside = [answer.held ? `${count(answer.held)} held by a consumer stayed` : "", answer.missing ? `${count(answer.missing)} had gone already` : ""];
  return `${[`${plural(answer[word], "message")} ${word === "purged" ? "dropped" : word.replace("_", "-")}`, ...beside].filter(Boolean).join(", ")}.`;
}

function openMessage(message, given, done) {
  const dialog = sheet(`Message ${count(message.seq)}`, messageView(message),
    given.may("manage") ? h("div", { class: "row" }, acts([message], given, () => { dialog.close(); done(); })) : null);
}

/** Ask which dead letters go back, and how fast. */
const retryAll = ({ name, where }, query, done) => form({
  title: `Retry dead letters of ${name}?`, button: "Retry", text: "Each goes back to the queue it came from. What a consumer holds stays.",
  fields: [{ name: "group", label: "Only of group", value: query.group ?? "" }, { name: "selector", label: "Only what this selects", value: query.selector ?? "" }, { name: "count", label: "At most", type: "number", min: 1, hint: "all" }, { name: "rate", label: "At most so many a second", type: "number", min: 1, hint: "as fast as can be" }],
  act: async (given) => { const answer = await post(`${where}/retry`, { ...given, count: Number(given.count), rate: Number(given.rate) }); toast(outcome(answer, "retried")); done(); },
});

export function messages(content, given) {
  const { name, where, query, may } = given;
  let starts = [];
  let current = query;
  let rows = [];
  let hasLoaded = false;
  const chosen = new Set();
  const from = h("input", { type: "number", min: 0, placeholder: "From number", "aria-label": "From number", value: query.from ?? "" });
  const group = finder("Group", { value: query.group ?? "" });
  const selector = finder("Selector", { placeholder: "Selector: price > 10 AND tenant = 'acme'", value: query.selector ?? "", class: "grow" });
  const error = trouble();
  const all = h("input", { type: "checkbox", onchange: () => { for (const row of rows) if (all.checked) chosen.add(row.seq); else chosen.delete(row.seq); choosing(); } });
  const told = h("span", { class: "soft", role: "status" });
  const buttons = h("span", { class: "row" });
  const letters = h("span", { class: "row" });
  const bar = h("div", { class: "row picks hidden" }, h("label", { class: "check" }, all, "All shown"), told, buttons, h("span", { class: "grow" }), letters);
  const pick = (row) => h("input", { type: "checkbox", "aria-label": `Choose message ${row.seq}`, checked: chosen.has(row.seq), onchange: (event) => { if (event.target.checked) chosen.add(row.seq); else chosen.delete(row.seq); choosing(); } });
  const grid = table({
    label: "Messages", key: (row) => String(row.seq),
    columns: [
      { label: "", head: "Choose", kind: "pick", optional: true, isHidden: () => !may("manage"), told: (row) => `${row.seq} ${chosen.has(row.seq)}`, node: pick },
      { label: "Number", kind: "num", told: (row) => String(row.seq), node: (row) => push(count(row.seq), () => openMessage(row, given, load), "link") },
      words("Group", "group", "name"),
      { label: "State", show: (row) => STATES[row.state] ?? row.state },
      num("Tries", "deliveries"),
      num("Size", "size", size),
      { label: "Sent", optional: true, show: (row) => when(row.created_ms) },
      { label: "Dead because", optional: true, kind: "prose", show: (row) => row.dead_reason ?? "" },
      { label: "Came from", optional: true, show: (row) => row.dead_origin?.queue ?? "" },
      { label: "Body", kind: "prose clip", show: (row) => (row.body ?? `${size(row.size)} of bytes`).slice(0, PREVIEW) },
    ],
    empty: () => hint("No message is here, or none that you ask for.", `covey message send ${name} "hello" --group a`),
  });
  const on = push("Next", () => { starts.push(current.from ?? ""); setQuery({ from: last + 1 }); }, "small");
  const back = push("Previous", () => setQuery({ from: starts.pop() ?? "" }), "small");
  const text = h("span", { role: "status" });
  let last = 0;
  const asked = () => [from.value, group.value, selector.value];
  fill(content, panel("Messages",
    h("form", { class: "row", onsubmit: (event) => {
      event.preventDefault();
      starts = [];
      if (String(asked()) === String([current.from ?? "", current.group ?? "", current.selector ?? ""])) load();
      else setQuery({ from: from.value, group: group.value, selector: selector.value });
    } }, from, group, selector, h("button", "Look")),
    error, bar, grid.node, h("div", { class: "pager" }, text, h("span", { class: "grow" }), back, on)));

  function choosing() {
    const picked = rows.filter((row) => chosen.has(row.seq));
    all.checked = rows.length > 0 && picked.length === rows.length;
    all.indeterminate = picked.length > 0 && !all.checked;
    bar.classList.toggle("hidden", !rows.length || !may("manage"));
    say(told, picked.length ? `${count(picked.length)} chosen` : "");
    fill(buttons, picked.length ? acts(picked, given, load) : null);
    fill(letters, rows.some(isDead) ? push("Retry dead letters …", () => retryAll(given, current, load), "small") : null);
    if (hasLoaded) grid.show(rows);
  }
  async function load() {
    fill(error);
    try {
      const read = await get(`${where}/messages`, { limit: LIMIT, from_seq: current.from, group: current.group, selector: current.selector });
      rows = read.items;
      hasLoaded = true;
      chosen.clear();
      grid.forget();
      choosing();
      last = rows.at(-1)?.seq ?? 0;
      say(text, `${count(rows.length)} shown, ${plural(read.total, "message")} in the queue`);
      on.disabled = rows.length < LIMIT;
      back.disabled = !current.from;
    } catch (refusal) {
      fill(error, refusal.message);
    }
  }
  addEventListener("sent", load);
  load();
  let offered = "";
  function about(told) {
    const key = `${told.rights} ${told.dlq}`;
    if (key !== offered) { offered = key; choosing(); }
  }
  return { about, update(now) { current = now; from.value = now.from ?? ""; group.value = now.group ?? ""; selector.value = now.selector ?? ""; load(); }, close() { removeEventListener("sent", load); } };
}
