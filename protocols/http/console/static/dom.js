// dom: elements without markup. Nothing here, or anywhere in the console, turns a text into HTML:
// names come from clients, and a name is a text whatever it looks like.

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden", "indeterminate"]);

/** Make an element: h("a", {href: "#/", onclick: f, class: "x"}, "text", child, ...), or h("p", "text"). */
export function h(tag, ...children) {
  const node = document.createElement(tag);
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  if (tag === "button" && attributes.onclick) node.type = "button"; // one without is a form's own
  add(node, children);
  return node;
}

/** Append what is there: texts, elements, lists of them; null and false are nothing. */
function add(node, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** Put these in the place of all that an element holds. */
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** A button: what stands on it, what it does, how it looks. */
export const push = (label, onclick, look) => h("button", { class: look, onclick }, label);

/** A page's heading, with what can be done at the right of it. */
export const heading = (title, ...acts) => h("div", { class: "title" }, h("h1", title), h("span", { class: "acts" }, acts));

/** A field to find something with, and a place for what went wrong. */
export const finder = (label, more) => h("input", { type: "search", "aria-label": label, placeholder: label, ...more });
export const trouble = () => h("p", { class: "soft", role: "alert" });

/** A card: its heading, what can be done at the right of it, and what it shows. */
export const panel = (label, ...content) => h("section", { class: "card", "aria-label": label }, content);
export const card = (title, acts, ...content) => panel(title, h("header", h("h2", title), acts && h("span", { class: "acts" }, acts)), content);

/** What an empty place says: a sentence, and what could be pasted to fill it. */
export const hint = (text, paste) => [h("p", text), paste && h("pre", paste)];

/** What is known of something: [[label, text or element], ...], without those that are empty. */
export const facts = (rows) => h("dl", { class: "facts" }, rows.filter(([, value]) => (value ?? "") !== "").map(([label, value]) => [h("dt", label), h("dd", value)]));

/** Buttons of which one is pressed: [[label, value], ...]; a pressed one is let go if `none` is a value. */
export function choice(label, options, chosen, choose, { look = "choice", none } = {}) {
  const buttons = options.map(([text, value]) => push(text, () => { chosen = chosen === value && none !== undefined ? none : value; mark(); choose(chosen); }));
  const mark = () => buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(options[at][1] === chosen)));
  mark();
  return h("div", { class: look, role: "group", "aria-label": label }, buttons);
}

/** Put a hint beside the pointer, where the window has room for it. */
export function beside(tip, { clientX: x, clientY: y }) {
  tip.style.left = `${Math.max(4, x + 16 + tip.offsetWidth > innerWidth ? x - tip.offsetWidth - 12 : x + 16)}px`;
  tip.style.top = `${Math.min(y + 14, innerHeight - tip.offsetHeight - 8)}px`;
}

/** Set a text only if it differs: the browser has nothing to do otherwise. */
export function say(node, text) {
  const shown = String(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** Draw one of the little pictures of the rail. */
export function icon(path) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const attributes = { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) picture.setAttribute(name, value);
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", path);
  picture.append(line);
  return picture;
}

// How values are written for people.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1,234 in full; 12.3K where there is little room. */
export const count = (value) => WHOLE.format(Math.round(value ?? 0));
export const short = (value) => (Math.abs(value ?? 0) < 10000 ? count(value) : SHORT.format(value));

/** A rate: 0, 0.4, 12, 1.2K. */
export function rate(value) {
  const given = value ?? 0;
  if (given === 0) return "0";
  return given < 10 ? given.toFixed(1) : short(given);
}

/** Bytes: 312 B, 4.1 MiB. */
export function size(bytes) {
  let value = bytes ?? 0;
  let unit = 0;
  while (value >= 1024 && unit < 5) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

/** A time that has passed: 0.4 s, 12 s, 3 m 20 s, 12 m, 2 h 5 m, 4 d 3 h. */
export function age(seconds) {
  const given = Math.max(0, seconds ?? 0);
  if (given < 10) return `${given.toFixed(1)} s`;
  const whole = Math.floor(given);
  if (whole < 60) return `${whole} s`;
  if (whole < 600) return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** How long ago a time of day was, by the broker's clock; after a minute in steps of ten seconds. */
export function since(at) {
  const passed = at ? now() - at : 0;
  return at ? age(passed < 60 ? passed : passed - (passed % 10)) : "";
}

let ahead = 0;
/** Hear what time it is where the broker runs. */
export function setClock(at) { ahead = at - Date.now() / 1000; }
export const now = () => Date.now() / 1000 + ahead;

export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");
export const plural = (number, word, many = `${word}s`) => `${count(number)} ${number === 1 ? word : many}`;

/** The virtual host that is looked at; "" is the first one. */
export const scope = { host: "" };

/** A place in the console, as a link: to("queues", name). */
export const to = (...parts) => `#/${scope.host && `@${encodeURIComponent(scope.host)}/`}${parts.map(encodeURIComponent).join("/")}`;

/** Where one is: #/queues/orders/messages?from=7; of another virtual host: #/@b.example/queues */
export function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const host = parts[0]?.startsWith("@") ? parts.shift().slice(1) : "";
  return { host, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Change some fields of the address's query, and stay on the page; a quiet change is not told to the page. */
export function setQuery(fields, isQuiet = false) {
  const { parts, query } = parse();
  const merged = Object.entries({ ...query, ...fields }).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(merged).toString();
  const hash = `${to(...parts)}${text ? `?${text}` : ""}`;
  if (isQuiet) history.replaceState(null, "", hash);
  else location.hash = hash;
}

/** The value of one of the style's colours. */
const colours = new Map();
export function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}
export const forgetColours = () => colours.clear();
