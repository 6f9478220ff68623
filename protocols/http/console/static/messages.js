// messages: look at a queue's messages without taking them, and send one.

import { h, fill, count, size, plural, setQuery } from "./dom.js";
import { get, post, path } from "./api.js";
import { form, toast } from "./dialogs.js";
import { table, pager } from "./table.js";

const LIMIT = 50;
const PREVIEW = 90;

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

/** One message with everything known of it. */
export function messageView(message) {
  const body = h("pre", { class: "body", tabindex: "0" });
  const shown = ways(decoded(message));
  const buttons = shown.map(([label, text], at) => h("button", { type: "button", "aria-pressed": String(at === 0), onclick: (event) => { fill(body, text); for (const one of event.target.parentNode.children) one.setAttribute("aria-pressed", String(one === event.target)); } }, label));
  fill(body, shown[0][1]);
  const facts = [["Number", message.seq], ["Message id", message.message_id], ["Group", message.group], ["State", message.state], ["Deliveries", message.deliveries], ["Size", size(message.size)], ["Sent", when(message.created_ms)], ["By", message.user_id], ["Expires", when(message.expires_ms)], ["Persistent", message.persistent ? "yes" : "no"], ["Priority", message.priority], ["Content type", message.content_type], ["Correlation id", message.correlation_id], ["Reply to", message.reply_to], ["Subject", message.subject], ["Dead because", message.dead_reason], ["Died in", message.dead_origin]];
  const list = (rows) => h("dl", { class: "facts" }, rows.filter(([, value]) => value !== "" && value !== undefined && value !== null).map(([label, value]) => [h("dt", {}, label), h("dd", {}, String(value))]));
  const properties = Object.entries(message.properties ?? {});
  return [list(facts), properties.length ? [h("h2", {}, "Properties"), list(properties)] : null,
    h("div", { class: "row" }, h("h2", {}, "Body"), h("div", { class: "choice", role: "group", "aria-label": "Show the body as" }, buttons), message.is_cut ? h("span", { class: "soft" }, "only its first 64 KiB are shown") : null), body];
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
      const properties = {};
      for (const line of values.properties.split("\n").map((one) => one.trim()).filter(Boolean)) {
        const [key, ...rest] = line.split("=");
        if (!rest.length) throw new Error(`${line}: write name = value`);
        properties[key.trim()] = rest.join("=").trim();
      }
      const answer = await post(`/queues${path(name)}/messages`, { body: values.body, group: values.group, properties, content_type: values.content_type, persistent: values.persistent, priority: Number(values.priority || 4), ttl_ms: Number(values.ttl_ms || 0) });
      toast(`Sent as ${answer.message_id}.`);
      dispatchEvent(new Event("sent"));
    },
  });
}

function openMessage(message) {
  const dialog = h("dialog", { "aria-labelledby": "message-title" }, h("form", { method: "dialog" },
    h("h1", { id: "message-title" }, `Message ${message.seq}`), messageView(message), h("footer", {}, h("button", {}, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function messages(content, { name, where, query, may }) {
  let starts = [];
  let current = query;
  const from = h("input", { type: "number", min: 0, placeholder: "From number", "aria-label": "From number", value: query.from ?? "" });
  const group = h("input", { type: "search", placeholder: "Group", "aria-label": "Group", value: query.group ?? "" });
  const selector = h("input", { type: "search", placeholder: "Selector: price > 10 AND tenant = 'acme'", "aria-label": "Selector", value: query.selector ?? "", class: "grow" });
  const error = h("p", { class: "soft", role: "alert" });
  const grid = table({
    label: "Messages", key: (row) => String(row.seq),
    columns: [
      { label: "Number", kind: "num", told: (row) => String(row.seq), node: (row) => h("button", { type: "button", class: "link", onclick: () => openMessage(row) }, count(row.seq)) },
      { label: "Group", kind: "name", show: (row) => row.group },
      { label: "State", show: (row) => row.state },
      { label: "Tries", kind: "num", show: (row) => count(row.deliveries) },
      { label: "Size", kind: "num", show: (row) => size(row.size) },
      { label: "Sent", optional: true, show: (row) => when(row.created_ms) },
      { label: "Dead because", optional: true, kind: "prose", show: (row) => row.dead_reason ?? "" },
      { label: "Body", kind: "prose", show: (row) => (row.body ?? `${size(row.size)} of bytes`).slice(0, PREVIEW) },
    ],
    empty: () => [h("p", {}, "No message is here, or none that you ask for."), h("pre", {}, `covey message send ${name} "hello" --group a`)],
  });
  const on = h("button", { type: "button", class: "small", onclick: () => { starts.push(current.from ?? ""); setQuery({ from: last + 1 }); } }, "Next");
  const back = h("button", { type: "button", class: "small", onclick: () => setQuery({ from: starts.pop() ?? "" }) }, "Previous");
  const text = h("span", { role: "status" });
  let last = 0;
  fill(content, h("section", { class: "card", "aria-label": "Messages" },
    h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); starts = []; const wanted = { from: from.value, group: group.value, selector: selector.value }; if (JSON.stringify(wanted) === JSON.stringify({ from: current.from ?? "", group: current.group ?? "", selector: current.selector ?? "" })) load(); else setQuery(wanted); } }, from, group, selector, h("button", {}, "Look")),
    error, grid.node, h("div", { class: "pager" }, text, h("span", { class: "grow" }), back, on)));

  async function load() {
    fill(error);
    try {
      const read = await get(`${where}/messages`, { limit: LIMIT, from_seq: current.from, group: current.group, selector: current.selector });
      grid.forget();
      grid.show(read.items);
      last = read.items.at(-1)?.seq ?? 0;
      fill(text, `${count(read.items.length)} shown, ${plural(read.total, "message")} in the queue`);
      on.disabled = read.items.length < LIMIT;
      back.disabled = !current.from;
    } catch (trouble) {
      fill(error, trouble.message);
    }
  }
  const again = () => load();
  addEventListener("sent", again);
  load();
  void may;
  void pager;
  return { update(now) { current = now; from.value = now.from ?? ""; group.value = now.group ?? ""; selector.value = now.selector ?? ""; load(); }, close() { removeEventListener("sent", again); } };
}
