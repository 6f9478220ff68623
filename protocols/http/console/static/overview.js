// overview: how the broker is, at a glance: alarms first, then rates, backlog, and what bounds it.

import { h, fill, say, count, short, rate, size, plural, since, to, setClock, card, hint } from "./dom.js";
import { get, live, session } from "./api.js";
import { chart, RATES, Samples, spans } from "./chart.js";
import { table, num, link, depth, flow, stopped } from "./table.js";

const MOVING = ["messages", "unsettled", "enqueued", "delivered", "acknowledged", "published"];
const BLOCKED = () => `${to("connections")}?sort=blocked_on&order=desc`;
const STILL_S = 10; // how often a broker on which nothing moves is shown
const millis = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : value >= 10 || value === 0 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`);

function figure(label, note = "") {
  const value = h("div", { class: "value" }, "–");
  const below = h("div", { class: "note" }, note);
  const bar = h("i");
  const gauge = h("div", { class: "gauge hidden" }, bar);
  const node = h("div", { class: "figure" }, h("div", { class: "label" }, label), value, gauge, below);
  let shown = -1;
  return { node, set(text, remark, where) {
    say(value, text);
    if (remark === below.textContent) return;
    fill(below, where ? h("a", { href: where, class: "bad" }, remark) : remark);
    below.title = remark;
  },
    level(part) {
      const percent = Math.round(Math.min(100, Math.max(0, part * 100)));
      if (percent === shown) return; // a bar that glides is drawn many times
      shown = percent;
      gauge.className = `gauge ${part > 0.9 ? "bad" : part > 0.7 ? "warn" : ""}`;
      bar.style.width = `${percent}%`;
    } };
}

export default function overview(main) {
  let span = 600;
  const host = new Samples();
  const broker = new Samples();
  let about = {};
  const alarms = h("div", { class: "grid hidden" });
  const figures = { messages: figure("Messages"), in: figure("In"), out: figure("Out"), connections: figure("Connections"), memory: figure("Memory"), disk: figure("Disk free") };
  const rates = chart({ lines: RATES, write: rate, height: 220, label: "Messages a second: in, out, acknowledged, redelivered, dead" });
  const backlog = chart({ lines: [["messages", "messages", "in"], ["unsettled", "held", "out"]], write: short, height: 150, label: "Messages in all queues", floor: 10 });
  const turns = chart({ lines: [["turn_ms", "turn", "back"], ["store_ms", "commit", "in"]], write: millis, height: 130, label: "The longest turn and the slowest commit of each second", floor: 20 });
  const memory = chart({ lines: [["memory", "resident", "out"]], write: size, height: 130, label: "Memory of the broker", floor: 1048576, isBinary: true });
  const busiest = table({
    label: "Busiest queues",
    columns: [link("Queue", "name", (row) => to("queues", row.name)), num("Messages", "messages"), depth, stopped, flow("In /s", "enqueued"), flow("Out /s", "delivered"), num("Consumers", "consumers"), num("Groups", "groups"), num("Oldest", "oldest_at", since)],
    empty: () => hint("Nothing has moved yet. Send the first message:", 'covey message send hello "first" --group a\ncovey message browse hello'),
  });
  // Only where there is more than one of something: most brokers are alone.
  const others = h("div", { class: "hidden" });
  let leave = () => {};
  if (session.is_clustered || session.hosts.length > 1) import("./cluster.js").then(({ summary }) => { if (!others.isConnected) return; others.className = "grid wide"; leave = summary(others); }, () => {});
  const title = h("h1", "Overview");
  fill(main,
    h("div", { class: "title" }, title, h("span", { class: "acts" }, spans(span, choose))),
    alarms,
    session.default_password ? h("p", { class: "notice warn" }, "User admin still has the password that everybody knows. Change it in ", h("code", "[[user]]"), ", and reload.") : null,
    h("div", { class: "figures" }, Object.values(figures).map((one) => one.node)),
    card("Messages a second", null, rates.node),
    card("Busiest queues", h("a", { href: to("queues") }, "all queues"), busiest.node),
    h("div", { class: "grid" },
      card("Backlog", null, backlog.node),
      card("Longest turn and commit", null, turns.node),
      card("Memory", null, memory.node)),
    others);

  let hot = [];
  function show() {
    rates.show(host.data, span);
    backlog.show(host.data, span);
    turns.show(broker.data, span);
    memory.show(broker.data, span, about.memory_limit || null);
  }

  const last = (samples, name) => samples.data[name]?.at(-1) ?? 0;
  let drawnAt = 0;
  const draw = () => [rates, backlog, turns, memory].forEach((one) => one.draw());

  function tell() {
    figures.messages.set(short(last(host, "messages")), `${short(last(host, "unsettled"))} held · ${size(last(host, "bytes"))}`);
    figures.in.set(`${rate(last(host, "enqueued"))}/s`, `${rate(last(host, "published"))}/s to topics`);
    figures.out.set(`${rate(last(host, "delivered"))}/s`, `${rate(last(host, "acknowledged"))}/s settled`);
    const blocked = last(broker, "blocked");
    figures.connections.set(count(last(broker, "connections")), blocked ? `${plural(blocked, "producer")} blocked` : "none blocked", blocked && BLOCKED());
    figures.memory.set(size(last(broker, "memory")), about.memory_limit ? `alarm at ${size(about.memory_limit)}` : "no limit is set");
    if (about.memory_limit) figures.memory.level(last(broker, "memory") / about.memory_limit);
    const free = last(broker, "disk_free");
    figures.disk.set(free ? size(free) : "–", free ? `alarm below ${about.disk_shown ?? ""}` : session.is_clustered ? "PostgreSQL has them" : "nothing is stored");
    if (free && about.disk_free_min) figures.disk.level(about.disk_free_min / free);
    say(title, about.host && session.hosts.length > 1 ? `Overview of ${about.host}` : "Overview");
  }

  function alarm(one) {
    return h("div", { class: "notice bad", role: "alert" }, h("b", "Producers wait: "), `${one.text}. ${one.advice} `, h("a", { href: BLOCKED() }, "Who waits"));
  }

  async function load() {
    const read = await get("/history", { span: Math.max(span, 600) });
    host.set(read.host, span);
    broker.set(read.broker, span);
    if (read.host.times.length) setClock(read.host.times.at(-1) + 0.3);
    tell();
    show();
  }
  let timer = 0;
  function choose(seconds) {
    span = seconds;
    clearInterval(timer);
    if (span > 600) timer = setInterval(() => { if (!document.hidden) load().catch(() => {}); }, 60000);
    load().catch(() => {});
  }
  let known = "";
  const close = live("/broker", {}, {
    broker(told) {
      about = told;
      const shown = JSON.stringify([told.alarms, told.damages]);
      if (shown !== known) {
        known = shown;
        alarms.classList.toggle("hidden", !told.alarms.length && !told.damages.length);
        fill(alarms, told.alarms.map(alarm), told.damages.length ? h("div", { class: "notice bad" }, h("b", "The store is damaged: "), told.damages.slice(0, 5).join("; "), h("br"), "docs/durability.md says what can be done.") : null);
      }
      tell();
    },
    sample(told) {
      if (told.host) setClock(told.host.at + 0.3);
      const isStill = MOVING.every((name) => told.host?.[name] === last(host, name));
      if (span <= 600) { host.add(told.host); broker.add(told.broker); }
      const at = told.broker?.at ?? 0;
      if (isStill && at - drawnAt < STILL_S) return; // only the length of turns trembles, and to draw that is dear
      drawnAt = at;
      tell();
      show();
    },
    busiest(rows) { hot = rows; busiest.show(hot); },
    clock: () => busiest.show(hot),
  });
  load().catch(() => {});
  return { close() { close(); leave(); clearInterval(timer); }, draw };
}
