// timeline: who had the hottest groups when, a line of coloured stretches for each group.

import { h, say, now, short, clock } from "./dom.js";
import { sharpen } from "./chart.js";
import { ownerColour } from "./groupmap.js";

export function timeline(span = 600) {
  const node = h("div", { class: "timeline" });
  const rows = new Map();
  let told = [];

  function show(groups) {
    told = groups;
    const wanted = new Set(groups.map((one) => one.group));
    for (const [name, row] of rows) if (!wanted.has(name)) { row.parts.forEach((part) => part.remove()); rows.delete(name); }
    for (const one of groups) {
      let row = rows.get(one.group);
      if (!row) {
        const canvas = h("canvas", { role: "img" });
        row = { canvas, count: h("span", { class: "num soft" }), parts: [] };
        row.parts = [h("span", { class: "who", title: one.group }, one.group), canvas, row.count];
        rows.set(one.group, row);
      }
      row.parts.forEach((part) => node.append(part));
      say(row.count, short(one.messages));
    }
    draw();
  }

  function draw() {
    const end = now();
    for (const one of told) {
      const { canvas } = rows.get(one.group);
      if (!canvas.isConnected) continue;
      const { pen, width, height } = sharpen(canvas);
      const x = (at) => Math.max(0, width - ((end - at) / span) * width);
      one.owners.forEach(([at, owner], place) => {
        const stop = one.owners[place + 1]?.[0] ?? end;
        if (stop < end - span || !owner) return;
        pen.fillStyle = ownerColour(owner);
        pen.fillRect(x(at), 0, Math.max(1, x(stop) - x(at)), height);
      });
      const last = one.owners.at(-1);
      const who = last?.[1] ? `consumer ${last[1]}${last[2] ? ` (${last[2]})` : ""} since ${clock(last[0])}` : "nobody";
      canvas.setAttribute("aria-label", `${one.group}: ${one.owners.length} owners, now ${who}`);
      canvas.title = `now ${who}`;
    }
  }
  return { node, show, draw };
}
