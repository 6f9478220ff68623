// chart: lines over time on a canvas, drawn by ourselves: a few hundred points, two or three times a
// page, once a second. A sharp pixel grid, few ticks, a cross-hair that tells the values.

import { h, fill, say, colour, clock, now, beside, choice } from "./dom.js";

/** Make a canvas as sharp as the screen; returns its context and its size. */
export function sharpen(canvas) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const wide = Math.round(width * scale);
  const high = Math.round(height * scale);
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/** Short lines without axes, for a row of a table: [[values, colour], ...], the first one filled. */
export function spark(canvas, lines) {
  const { pen, width, height } = sharpen(canvas);
  for (const [values, name] of lines) {
    if (!values || values.length < 2) continue;
    const top = Math.max(...values, 1);
    const step = width / (values.length - 1);
    const y = (value) => height - 2 - (value / top) * (height - 5);
    pen.beginPath();
    values.forEach((value, at) => (at ? pen.lineTo(at * step, y(value)) : pen.moveTo(0, y(value))));
    pen.strokeStyle = pen.fillStyle = colour(name);
    pen.lineWidth = 1.4;
    pen.stroke();
    if (name !== lines[0][1]) continue;
    pen.lineTo(width, height);
    pen.lineTo(0, height);
    pen.globalAlpha = 0.12;
    pen.fill();
    pen.globalAlpha = 1;
  }
}

/** Round a scale's top up to 1, 2 or 5 times a power of ten, or the like in units of 1,024. */
function roundUp(value, isBinary) {
  const unit = isBinary ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
  const power = unit * 10 ** Math.floor(Math.log10(value / unit));
  for (const step of [1, 2, 2.5, 5, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

const BOTTOM = 18;
const STILL_PX = 6; // a picture on which nothing changes is drawn anew when it has moved so far
const MOVING_PX = 4; // and one on which something does
const CHANGE_PX = 2; // in height
const REACHES = [60, 120, 300, 600, 1800, 3600, 10800, 43200]; // seconds shown while there is no more to show
const FONT = "11px system-ui, sans-serif";

/**
 * A chart of several lines. `lines`: [[name, label, colour], ...], `write` writes a value.
 * `show(data, span)` draws {times: [...], name: [...]} over the last `span` seconds.
 */
export function chart({ lines: given, write, height = 190, label, floor = 1, isBinary = false }) {
  const lines = given.map(([name, words, paint]) => ({ name, label: words, colour: paint }));
  const canvas = h("canvas", { role: "img", "aria-label": label });
  canvas.style.height = `${height}px`;
  const values = new Map(lines.map((line) => [line.name, h("b", "–")]));
  const keys = h("div", { class: "keys" }, lines.map((line) => {
    const mark = h("i");
    mark.style.setProperty("--c", `var(--${line.colour})`);
    return h("span", { class: "key" }, mark, line.label, values.get(line.name));
  }));
  const tip = h("div", { class: "tip hidden" });
  const node = h("div", { class: "chart" }, keys, canvas, tip);
  let data = { times: [] };
  let span = 600;
  let reach = 600; // of it, what there are samples of
  let pointer = null;
  let bound = null; // a line that is not to be reached
  let drawn = null; // what of, when, how wide, how many pixels a unit has, the newest values

  function draw() {
    if (!canvas.isConnected) return;
    const { pen, width, height: high } = sharpen(canvas);
    const plot = { left: 46, right: width - 4, top: 8, bottom: high - BOTTOM };
    const end = now();
    reach = Math.min(span, REACHES.find((one) => end - (data.times[0] ?? 0) <= one) ?? span);
    const x = (at) => plot.right - ((end - at) / reach) * (plot.right - plot.left);
    const seen = data.times.findIndex((at) => at >= end - reach - 1);
    const first = seen < 0 ? data.times.length : seen;
    let most = floor;
    for (const line of lines) for (const value of (data[line.name] ?? []).slice(first)) if (value > most) most = value;
    if (bound && bound < most * 8) most = Math.max(most, bound * 1.05);
    const top = roundUp(most, isBinary);
    pen.font = FONT;
    plot.left = Math.ceil(Math.max(...[0, top / 2, top].map((value) => pen.measureText(write(value)).width))) + 12;
    const y = (value) => plot.bottom - (value / top) * (plot.bottom - plot.top);
    axes(pen, plot, top, y, end, x);
    if (bound && bound <= top) across(pen, plot, y(bound));
    for (const line of lines.toReversed()) stroke(pen, data[line.name] ?? [], first, x, y, line, plot, lines.length === 1);
    drawn = { data, span, bound, at: end, width, scale: (plot.bottom - plot.top) / top, values: lines.map(newest) };
    if (pointer !== null) hair(pen, plot, x, y, end, first);
  }

  const newest = (line) => (data[line.name] ?? []).at(-1) ?? 0;

  /** Drawing is dear, and most seconds change nothing that could be seen. */
  function isNews() {
    if (!drawn || drawn.data !== data || drawn.span !== span || drawn.bound !== bound) return true;
    const moved = ((now() - drawn.at) * drawn.width) / reach;
    const isChanged = lines.some((line, at) => Math.abs(newest(line) - drawn.values[at]) * drawn.scale >= CHANGE_PX);
    return moved < 0 || moved >= (isChanged ? MOVING_PX : STILL_PX);
  }

  function axes(pen, plot, top, y, end, x) {
    pen.fillStyle = colour("soft");
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(top * part)) + 0.5;
      pen.beginPath(); pen.moveTo(plot.left, at); pen.lineTo(plot.right, at); pen.stroke();
      pen.fillText(write(top * part), plot.left - 7, at);
    }
    pen.textBaseline = "alphabetic";
    for (const part of [1, 0.5, 0]) {
      pen.textAlign = part === 1 ? "left" : part ? "center" : "right";
      const back = reach * part;
      const text = part === 0 ? "now" : back >= 7200 ? `${Math.round(back / 3600)} h ago` : back >= 120 ? `${Math.round(back / 60)} min ago` : `${Math.round(back)} s ago`;
      pen.fillText(text, x(end - back), plot.bottom + 14);
    }
  }

  function across(pen, plot, at) {
    pen.strokeStyle = colour("bad");
    pen.setLineDash([4, 4]);
    pen.beginPath(); pen.moveTo(plot.left, at); pen.lineTo(plot.right, at); pen.stroke();
    pen.setLineDash([]);
  }

  function stroke(pen, row, first, x, y, line, plot, filled) {
    if (row.length - first < 1) return;
    pen.save();
    pen.beginPath();
    pen.rect(plot.left, 0, plot.right - plot.left, plot.bottom + 1);
    pen.clip();
    pen.beginPath();
    const begin = Math.max(0, first - 1);
    for (let at = begin; at < row.length; at += 1) {
      const place = x(data.times[at]);
      if (at === begin) pen.moveTo(place, y(row[at]));
      else pen.lineTo(place, y(row[at]));
    }
    pen.strokeStyle = colour(line.colour);
    pen.lineWidth = 1.7;
    pen.lineJoin = "round";
    pen.stroke();
    if (filled) {
      pen.lineTo(x(data.times.at(-1)), plot.bottom);
      pen.lineTo(x(data.times[begin]), plot.bottom);
      pen.globalAlpha = 0.1;
      pen.fillStyle = colour(line.colour);
      pen.fill();
    }
    pen.restore();
  }

  function hair(pen, plot, x, y, end, first) {
    const wanted = end - ((plot.right - pointer.offsetX) / (plot.right - plot.left)) * reach;
    let found = -1;
    for (let at = first; at < data.times.length; at += 1) {
      if (found < 0 || Math.abs(data.times[at] - wanted) < Math.abs(data.times[found] - wanted)) found = at;
    }
    tip.classList.toggle("hidden", found < 0);
    if (found < 0) return;
    const place = x(data.times[found]);
    pen.strokeStyle = colour("strong");
    pen.beginPath(); pen.moveTo(place, plot.top); pen.lineTo(place, plot.bottom); pen.stroke();
    for (const line of lines) {
      pen.fillStyle = colour(line.colour);
      pen.beginPath(); pen.arc(place, y(data[line.name][found]), 3, 0, 7); pen.fill();
    }
    fill(tip, h("div", { class: "soft" }, clock(data.times[found])), lines.map((line) =>
      h("div", `${line.label}: `, h("b", write(data[line.name][found])))));
    beside(tip, pointer);
  }

  canvas.addEventListener("pointermove", (event) => { pointer = event; draw(); });
  canvas.addEventListener("pointerleave", () => { pointer = null; tip.classList.add("hidden"); draw(); });
  new ResizeObserver(draw).observe(canvas);
  function show(given, seconds, most) {
    data = given;
    span = seconds;
    if (most !== undefined) bound = most;
    for (const line of lines) say(values.get(line.name), write(newest(line)));
    if (isNews()) draw();
  }
  return { node, show, draw };
}

/** Columns of samples, kept for as long as a span. */
export class Samples {
  most = 600;
  data = { times: [] };
  set(read, span) { this.data = read; this.most = span > 600 ? 1440 : 600; }
  add(sample) {
    if (!sample || sample.at <= (this.data.times.at(-1) ?? 0)) return false;
    for (const [name, value] of Object.entries(sample)) {
      const column = (this.data[name === "at" ? "times" : name] ??= []);
      column.push(value);
      if (column.length > this.most) column.splice(0, column.length - this.most);
    }
    return true;
  }
}

/** What moves, as lines: every page of rates has the same colours. */
export const RATES = [["enqueued", "in", "in"], ["delivered", "out", "out"], ["acknowledged", "acknowledged", "ack"], ["returned", "redelivered", "back"], ["dead", "dead", "dead"]];

/** Buttons that choose the time to look back. */
export const spans = (chosen, choose) => choice("Time to look back", [["1 min", 60], ["10 min", 600], ["1 h", 3600], ["24 h", 86400]], chosen, choose);
