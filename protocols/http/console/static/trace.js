// trace: what happens on a queue, event by event, as long as somebody looks.

import { h, fill, say, count } from "./dom.js";
import { live, session } from "./api.js";

const SHOWN = 400;

export function trace(content, { where }) {
  let events = [];
  let missed = 0;
  let paused = false;
  const body = h("tbody");
  const text = h("input", { type: "search", "aria-label": "Find events", placeholder: "Group, consumer or event", oninput: () => show() });
  const pause = h("button", { class: "small", "aria-pressed": "false", onclick: () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); say(pause, paused ? "Go on" : "Pause"); show(); } }, "Pause");
  const note = h("span", { class: "soft", role: "status" }, "Nothing has happened since you came.");
  fill(content, h("section", { class: "card", "aria-label": "Trace" },
    h("header", {}, h("h2", {}, "Trace"), note, h("span", { class: "acts" }, text, pause)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, h("table", { class: "data stack" }, h("caption", { class: "sr" }, "Events, the latest first"),
      h("thead", {}, h("tr", {}, ["Time", "Event", "Group", "Message", "Consumer"].map((label) => h("th", { scope: "col" }, label)))), body))));
  function line(one) {
    const time = new Date(one.time_ms);
    const cells = [`${time.toLocaleTimeString("en-GB")}.${String(time.getMilliseconds()).padStart(3, "0")}`, one.event, one.group, one.seq || "", one.consumer || ""];
    return h("tr", {}, cells.map((cell, at) => h("td", { class: at === 2 ? "name" : "", "data-label": ["Time", "Event", "Group", "Message", "Consumer"][at] }, String(cell))));
  }
  let frame = 0;
  function show() {
    if (paused || frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      const wanted = text.value.toLowerCase();
      const found = wanted ? events.filter((one) => `${one.event} ${one.group} ${one.consumer} ${one.seq}`.toLowerCase().includes(wanted)) : events;
      body.replaceChildren(...found.slice(0, SHOWN / 4).map(line));
      if (events.length) say(note, `${count(events[0].number)} events${missed ? `, ${count(missed)} came too fast to be told` : ""}`);
    });
  }
  const close = live(`${where}/trace`, { host: session.host }, {
    trace(page) {
      missed += page.missed;
      events = [...page.events.reverse(), ...events].slice(0, SHOWN);
      show();
    },
  });
  return { close() { close(); cancelAnimationFrame(frame); } };
}
