// trace: what happens on a queue, event by event, as long as somebody looks.

import { h, fill, say, count, push, finder, card } from "./dom.js";
import { live } from "./api.js";
import { table, words } from "./table.js";

const KEPT = 400;
const SHOWN = 100;

function time({ time_ms }) {
  const at = new Date(time_ms);
  return `${at.toLocaleTimeString("en-GB")}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function trace(content, { where }) {
  let events = [];
  let missed = 0;
  let isPaused = false;
  let frame = 0;
  const text = finder("Find events", { placeholder: "Group, consumer or event", oninput: show });
  const pause = push("Pause", () => { isPaused = !isPaused; pause.setAttribute("aria-pressed", isPaused); say(pause, isPaused ? "Go on" : "Pause"); show(); }, "small");
  const note = h("span", { class: "soft", role: "status" });
  const grid = table({ label: "Events, the latest first", key: (row) => row.number, columns: [
    { label: "Time", show: time }, words("Event", "event"), words("Group", "group", "name"),
    { label: "Message", show: (row) => row.seq || "" }, { label: "Consumer", show: (row) => row.consumer || "" },
  ], empty: () => "Nothing has happened since you came, or nothing that you look for." });
  fill(content, card("Trace", [note, text, pause], grid.node));
  grid.show([]);
  function show() {
    if (isPaused) return;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const wanted = text.value.toLowerCase();
      grid.show(events.filter((one) => `${one.event} ${one.group} ${one.consumer} ${one.seq}`.toLowerCase().includes(wanted)).slice(0, SHOWN));
      if (events.length) say(note, `${count(events[0].number)} events${missed ? `, ${count(missed)} came too fast to be told` : ""}`);
    });
  }
  const close = live(`${where}/trace`, {}, {
    trace(page) {
      missed += page.missed;
      events = [...page.events.reverse(), ...events].slice(0, KEPT);
      show();
    },
  });
  return { close() { close(); cancelAnimationFrame(frame); } };
}
