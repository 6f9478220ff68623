// api: how the console asks the broker, and how it hears of what changes.

import { scope, setClock } from "./dom.js";

/** Who is signed in, as /api/v1/session tells. */
export const session = { user: "", token: "", hosts: [], manages: false, manages_some: [] };

const ROOT = "/api/v1";
const OF_ALL = /^\/(session|hosts|cluster)/; // what is about no virtual host

export class Refusal extends Error {
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

/** Join a path of names, each of which may hold anything. */
export const path = (...parts) => parts.map((part) => `/${encodeURIComponent(part)}`).join("");

function address(where, query) {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== "" && value !== null && value !== undefined) fields.set(name, value);
  }
  if (scope.host && !OF_ALL.test(where)) fields.set("host", scope.host);
  const text = fields.toString();
  return ROOT + where + (text ? `?${text}` : "");
}

/** Ask once; returns what is answered, or throws a Refusal in the broker's own words. */
export async function ask(method, where, { query, body } = {}) {
  const headers = {};
  if (session.token) headers["x-covey-token"] = session.token;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(where, query), { method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal(0, "away", "The broker cannot be reached.");
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let value;
  try { value = JSON.parse(text); } catch { value = { text }; }
  if (answer.ok) return value;
  if (answer.status === 401 && session.user) dispatchEvent(new Event("signed-out"));
  throw new Refusal(answer.status, value.code ?? "", value.text ?? answer.statusText);
}

export const get = (where, query) => ask("GET", where, { query });
export const post = (where, body, query) => ask("POST", where, { body, query });

/**
 * Hear of something while the page is looked at: `handlers` has a function for each kind of event.
 * A tab that nobody sees hears nothing, and costs nothing. What was missed is told afterwards.
 */
export function live(where, query, handlers) {
  const about = where.startsWith("/queues/") ? where.replace(/.trace$/, "") : "/session";
  let source = null;
  let last = "";
  let timer = 0;
  let wait = 0;
  let ended = false;

  function open() {
    clearTimeout(timer);
    if (ended || source || document.hidden) return;
    source = new EventSource(address(`/events${where}`, { ...query, resume: last }));
    source.onopen = () => { wait = 500; tell("live"); };
    source.onerror = () => { close(); again(); };
    const clock = (at) => { setClock(at); handlers.clock?.(); };
    for (const [name, hear] of Object.entries({ ...handlers, clock })) {
      source.addEventListener(name, (event) => {
        last = event.lastEventId;
        hear(JSON.parse(event.data));
      });
    }
    source.addEventListener("end", (event) => {
      close();
      const why = JSON.parse(event.data);
      if (why.code === "login") dispatchEvent(new Event("signed-out"));
      else { handlers.ended?.(why); last = ""; again(); }
    });
  }
  function close() { source?.close(); source = null; }
  function again() {
    clearTimeout(timer);
    if (ended) return;
    timer = setTimeout(async () => {
      // An EventSource does not tell why it was refused, so somebody else asks.
      try { await get(about); } catch (error) {
        if (error.status === 401 || ended) return; // that is told already
        tell(error.status ? "live" : "lost");
        if (error.status) handlers.ended?.(error);
        again();
        return;
      }
      if (wait > 1000) tell("lost"); // it answers, but has no stream for us
      open();
    }, wait);
    wait = Math.min(Math.max(500, wait * 1.6), 5000);
  }
  function look() { if (document.hidden) close(); else open(); }

  document.addEventListener("visibilitychange", look);
  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
    close();
  };
}

function tell(state) { dispatchEvent(new CustomEvent("link", { detail: state })); }

/** Rows that are told as deltas: all of them, then those that differ and those that are gone. */
export class RowSet {
  constructor(key) { this.key = key; this.rows = new Map(); this.total = 0; this.order = null; }
  apply(delta) {
    if (delta.all) { this.rows.clear(); for (const row of delta.all) this.rows.set(this.key(row), row); }
    for (const row of delta.set ?? []) this.rows.set(this.key(row), row);
    for (const key of delta.gone ?? []) this.rows.delete(key);
    if (delta.total !== undefined) this.total = delta.total;
    if (delta.order) this.order = delta.order;
    return this;
  }
  list() { return this.order ? this.order.map((key) => this.rows.get(key)).filter(Boolean) : [...this.rows.values()]; }
}
