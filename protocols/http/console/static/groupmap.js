// groupmap: every group of a queue as a tile. Its area is what waits, its colour the owner, and
// marks say why it does not move. Thousands of tiles are drawn on one canvas, as rows come in.
//
// A tile's area grows in steps of the logarithm, and tiles are ordered by step and name. They are
// laid out anew every two seconds at most; until then a group that is gone leaves its place empty.
// So a tile stays where it is while its group works, and the eye can follow it. The largest are
// first, at the top left (a squarified treemap: Bruls, Huizing and van Wijk, 2000).

import { h, colour } from "./dom.js";
import { sharpen } from "./chart.js";

const PARKED = 8; // marks, as live.py writes them
const SPILLED = 16;
const FULL = 32;
const DRAINING = 3;
const PLACE = 7;
const FLASH_MS = 700;
const GLIDE_MS = 350;
const LAY_MS = 2000;
const GLIDING_MAX = 1500; // more tiles jump to their places

/** Of a row: [name, messages, unsettled, owner, marks, blocked since, owned since]. */
export const group = (row) => ({ row, name: row[0], messages: row[1], unsettled: row[2], owner: row[3], blocked: row[5], owned: row[6] });
export const isParked = (row) => Boolean(row[4] & PARKED);
export const isDraining = (row) => (row[4] & PLACE) === DRAINING;
export const isSpilled = (row) => Boolean(row[4] & SPILLED);
export const isFull = (row) => Boolean(row[4] & FULL) && row[2] === 0;
export const isBlocked = (row) => row[5] > 0 || isParked(row) || isDraining(row);

const OWNERS = ["#4a7fb5", "#4f9d69", "#a874a8", "#d59a35", "#35979c", "#8f7158", "#cf7595", "#6f7fd0", "#8c9c35", "#c47c4c", "#5d8c80", "#9168b5"];

/** An owner's colour: the same as long as the consumer lives, far from its neighbours'. */
export const ownerColour = (owner) => (owner ? OWNERS[(owner - 1) % OWNERS.length] : colour("idle"));

const step = (messages) => Math.floor(Math.log2(messages + 1) * 2);

export function groupMap({ hover, choose }) {
  const canvas = h("canvas", { role: "img", "aria-label": "Groups", tabindex: "-1" });
  const node = h("div", { class: "map" }, canvas);
  const tiles = new Map();
  let ordered = [];
  let laid = "";
  let isStale = true;
  let movedAt = 0;
  let frame = 0;
  let timer = 0;
  let under = null;
  let pattern = null;

  function show(rows) {
    const time = performance.now();
    const seen = new Set();
    for (const row of rows) {
      seen.add(row[0]);
      let tile = tiles.get(row[0]);
      if (!tile) {
        tile = { row, step: step(row[1]), rect: null, from: null, flash: tiles.size ? time : 0, ring: 0 };
        tiles.set(row[0], tile);
        isStale = true;
        continue;
      }
      if (tile.row !== row) {
        if (tile.row[1] !== row[1] || tile.row[2] !== row[2]) tile.flash = time;
        if (tile.row[3] !== row[3]) tile.ring = time;
        if (Math.abs(step(row[1]) - tile.step) > 1) isStale = true; // one step more or less is no news
        tile.row = row;
      }
    }
    if (tiles.size !== seen.size) { isStale = true; for (const name of tiles.keys()) if (!seen.has(name)) tiles.delete(name); }
    canvas.setAttribute("aria-label", `${rows.length} groups, drawn as tiles; the table below has the same`);
    ask();
  }

  /** A few tiles are laid out at once, and the first of all: nobody loses sight of them. */
  const rest = () => (ordered.length ? (ordered.length < 40 ? 300 : LAY_MS) : 0);

  function lay(width, height, time) {
    const key = `${width} ${height}`;
    if (laid === key && !(isStale && time - movedAt > rest())) return;
    isStale = false;
    for (const tile of tiles.values()) if (Math.abs(step(tile.row[1]) - tile.step) > 1) tile.step = step(tile.row[1]);
    ordered = [...tiles.values()].sort((one, other) => other.step - one.step || (one.row[0] < other.row[0] ? -1 : 1));
    const glides = laid === key && ordered.length <= GLIDING_MAX && matchMedia("(prefers-reduced-motion: no-preference)").matches;
    laid = key;
    const weights = ordered.map((tile) => 1.32 ** tile.step);
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const scale = (width * height) / (sum || 1);
    squarify(ordered, weights.map((weight) => weight * scale), { x: 0, y: 0, w: width, h: height }, (tile, rect) => {
      tile.from = glides ? tile.rect && present(tile, time) : null;
      tile.rect = rect;
    });
    movedAt = time;
  }

  function present(tile, time) {
    const part = Math.min(1, (time - movedAt) / GLIDE_MS);
    if (!tile.from || part >= 1) return tile.rect;
    const ease = 1 - (1 - part) ** 3;
    const between = (name) => tile.from[name] + (tile.rect[name] - tile.from[name]) * ease;
    return { x: between("x"), y: between("y"), w: between("w"), h: between("h") };
  }

  function draw(time) {
    frame = 0;
    clearTimeout(timer);
    if (!canvas.isConnected || document.hidden) return;
    const { pen, width, height } = sharpen(canvas);
    if (!width) return;
    lay(width, height, time);
    const hatch = hatching(pen);
    let isMoving = time - movedAt < GLIDE_MS && ordered.some((tile) => tile.from);
    pen.textBaseline = "top";
    for (const tile of ordered) {
      if (tiles.get(tile.row[0]) !== tile) continue; // it is gone, and its place is empty
      const rect = present(tile, time);
      paint(pen, tile, rect, time, hatch);
      if (time - tile.flash < FLASH_MS || time - tile.ring < FLASH_MS) isMoving = true;
    }
    canvas.dataset.tiles = tiles.size;
    if (under && tiles.has(under.row[0])) outline(pen, present(under, time), colour("text"), 2);
    if (isMoving) ask(ordered.length > GLIDING_MAX ? 300 : 60);
    else if (isStale) ask(Math.max(60, rest() - (time - movedAt)));
  }

  function paint(pen, tile, rect, time, hatch) {
    const gap = rect.w > 12 && rect.h > 12 ? 1.5 : rect.w > 4 ? 0.6 : 0.25;
    const [x, y, w, h2] = [rect.x + gap / 2, rect.y + gap / 2, rect.w - gap, rect.h - gap];
    if (w <= 0 || h2 <= 0) return;
    const [, messages, unsettled, owner, , blocked] = tile.row;
    const paintColour = ownerColour(owner);
    pen.fillStyle = paintColour;
    pen.globalAlpha = owner ? 0.42 : 0.3;
    pen.fillRect(x, y, w, h2);
    pen.globalAlpha = 1;
    if (unsettled && messages) { // what is being worked at, as a part of what is there
      const part = Math.max(2, h2 * Math.min(1, unsettled / messages));
      pen.fillRect(x, y + h2 - part, w, part);
    }
    const flash = 1 - (time - tile.flash) / FLASH_MS;
    if (flash > 0) { pen.globalAlpha = flash * 0.35; pen.fillStyle = paintColour; pen.fillRect(x, y, w, h2); pen.globalAlpha = 1; }
    if (isParked(tile.row)) { pen.fillStyle = hatch; pen.fillRect(x, y, w, h2); outline(pen, rect, colour("warn"), w > 8 ? 2 : 1); }
    else if (isDraining(tile.row)) { pen.setLineDash([4, 3]); outline(pen, rect, colour("text"), w > 8 ? 1.5 : 1); pen.setLineDash([]); }
    else if (blocked) outline(pen, rect, colour("bad"), w > 8 ? 1.5 : 1);
    const ring = 1 - (time - tile.ring) / FLASH_MS;
    if (ring > 0) { pen.globalAlpha = ring; outline(pen, rect, colour("text"), 2.5); pen.globalAlpha = 1; }
    if (isSpilled(tile.row) && w > 9) { pen.fillStyle = colour("text"); pen.fillRect(x + w - 6, y + 2, 4, 4); }
    if (w > 44 && h2 > 17) words(pen, tile.row, x, y, w, h2);
  }

  function words(pen, row, x, y, w, h2) {
    const big = w > 130 && h2 > 60;
    pen.font = `${big ? 600 : 500} ${big ? 14 : 11}px system-ui, sans-serif`;
    pen.fillStyle = colour("text");
    pen.fillText(fit(pen, row[0], w - 12), x + 6, y + 4);
    if (h2 > 33) {
      pen.font = `${big ? 13 : 11}px system-ui, sans-serif`;
      pen.globalAlpha = 0.85;
      pen.fillText(String(row[1]), x + 6, y + (big ? 23 : 18));
      pen.globalAlpha = 1;
    }
  }

  function fit(pen, text, width) {
    if (pen.measureText(text).width <= width) return text;
    // Names of groups mostly differ at their ends.
    let size = Math.max(1, Math.floor((text.length * width) / pen.measureText(text).width) - 1);
    while (size > 1 && pen.measureText(`…${text.slice(-size)}`).width > width) size -= 1;
    return `…${text.slice(-size)}`;
  }

  function outline(pen, rect, stroke, thick) {
    pen.strokeStyle = stroke;
    pen.lineWidth = thick;
    pen.strokeRect(rect.x + thick / 2 + 0.5, rect.y + thick / 2 + 0.5, rect.w - thick - 1, rect.h - thick - 1);
  }

  function hatching(pen) {
    if (pattern?.stroke === colour("hatch")) return pattern.fill;
    const cell = document.createElement("canvas");
    cell.width = cell.height = 8;
    const small = cell.getContext("2d");
    small.strokeStyle = colour("hatch");
    small.lineWidth = 2;
    small.beginPath();
    for (const at of [-4, 4, 12]) { small.moveTo(at - 4, 12); small.lineTo(at + 8, 0); }
    small.stroke();
    pattern = { stroke: colour("hatch"), fill: pen.createPattern(cell, "repeat") };
    return pattern.fill;
  }

  function ask(after = 0) {
    clearTimeout(timer); // what has come does not wait for a glow to fade
    if (after) timer = setTimeout(ask, after);
    else frame ||= requestAnimationFrame(draw);
  }

  function at(event) {
    const time = performance.now();
    for (const tile of ordered) {
      const rect = tile.rect && present(tile, time);
      if (rect && event.offsetX >= rect.x && event.offsetX < rect.x + rect.w && event.offsetY >= rect.y && event.offsetY < rect.y + rect.h) return tile;
    }
    return null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const found = at(event);
    if (found !== under) { under = found; ask(); }
    hover(found?.row ?? null, event);
  });
  canvas.addEventListener("pointerleave", (event) => { under = null; ask(); hover(null, event); });
  canvas.addEventListener("click", (event) => { const found = at(event); if (found) choose(found.row); });
  new ResizeObserver(() => { laid = ""; ask(); }).observe(canvas);
  return { node, show, draw: () => ask(), reset() { laid = ""; ask(); } };
}

/** Lay areas, the largest first, into a rectangle, as nearly square as can be. */
function squarify(tiles, areas, room, place) {
  let start = 0;
  let { x, y, w, h: high } = room;
  while (start < tiles.length) {
    const side = Math.min(w, high);
    let end = start + 1;
    let sum = areas[start];
    let worst = ratio(areas[start], areas[start], sum, side);
    while (end < tiles.length) {
      const next = ratio(areas[start], areas[end], sum + areas[end], side);
      if (next > worst) break;
      sum += areas[end];
      worst = next;
      end += 1;
    }
    const thick = side > 0 ? sum / side : 0;
    let along = 0;
    for (let at = start; at < end; at += 1) {
      const length = thick > 0 ? areas[at] / thick : 0;
      place(tiles[at], w >= high ? { x, y: y + along, w: thick, h: length } : { x: x + along, y, w: length, h: thick });
      along += length;
    }
    if (w >= high) { x += thick; w -= thick; } else { y += thick; high -= thick; }
    start = end;
  }
}

function ratio(largest, smallest, sum, side) {
  const square = side * side;
  const total = sum * sum;
  return Math.max((square * largest) / total, total / (square * smallest));
}
