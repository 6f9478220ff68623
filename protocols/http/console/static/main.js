// main: the frame around all pages: who is signed in, where one is, keys, schemes.

import { h, fill, icon, to, say, forgetColours, parse, push, scope, facts, finder } from "./dom.js";
import { ask, get, session } from "./api.js";
import { form, toast } from "./dialogs.js";

// A page's module is asked for when the page is, so that the first one comes soon; the others
// follow while nobody waits. What the first view needs stands in the document (assets.py).
const fetched = (file) => import(`./${file}.js`);
const load = (file, name = "default", ...others) => async () => { others.forEach((one) => fetched(one).catch(() => {})); return (await fetched(file))[name]; };
// What they import is asked for together with them, not after them.
const queue = load("queue", "default", "groups", "groupmap", "timeline", "messages", "trace", "queues", "lists", "configuration");
const signInForm = load("signin");
async function signIn() {
  document.title = "Sign in · Covey";
  (await signInForm())(app, begin);
}

// Name, label, picture, key after `g`, page, who may see it.
const managers = () => session.manages;
const some = (kind) => () => session.manages || session.manages_some.includes(kind);
const PLACES = [
  ["", "Overview", "M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-4H4z", "o", load("overview"), managers],
  ["queues", "Queues", "M4 6h16M4 12h16M4 18h10", "q", load("queues", "default", "lists"), some("queue")],
  ["topics", "Topics", "M5 12a7 7 0 0 1 14 0M8 12a4 4 0 0 1 8 0M12 12v8", "t", load("topics", "topics"), some("topic")],
  ["subscriptions", "Subscriptions", "M6 4h12v16l-6-4-6 4z", "s", load("topics", "subscriptions"), some("dsub")],
  ["connections", "Connections", "M9 15 15 9M8 11l-2 2a3.5 3.5 0 0 0 5 5l2-2M16 13l2-2a3.5 3.5 0 0 0-5-5l-2 2", "c", load("connections"), managers],
  ["cluster", "Cluster", "M12 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM18 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10.5 8.6 7.5 15.4M13.5 8.6l3 6.8M9 18h6", "l", load("cluster"), managers],
  ["jobs", "Jobs", "M12 7v5l3 3M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "j", load("jobs"), managers],
  ["users", "Users", "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 20c1-4 4-6 8-6s7 2 8 6", "u", load("users"), managers],
  ["configuration", "Configuration", "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4", "f", load("configuration"), managers],
  ["definitions", "Definitions", "M7 3h8l4 4v14H7zM15 3v4h4M10 12h6M10 16h6", "d", load("definitions"), managers],
];
const address = (place) => to(...(place ? [place] : []));

const app = document.getElementById("app");
let page = null;
let place = null;

// Schemes: as the system has it, unless somebody has chosen.

const dark = matchMedia("(prefers-color-scheme: dark)");
function applyScheme() {
  const chosen = localStorage.getItem("scheme");
  document.documentElement.dataset.scheme = chosen ?? (dark.matches ? "dark" : "light");
  forgetColours();
  dispatchEvent(new Event("scheme"));
}
dark.addEventListener("change", applyScheme);
function turnScheme() {
  localStorage.setItem("scheme", document.documentElement.dataset.scheme === "dark" ? "light" : "dark");
  applyScheme();
}

// The frame.

let status, main, links, search, hosts;

function frame() {
  links = PLACES.filter((one) => one[5]()).map(([name, label, picture]) =>
    h("a", { class: "item", "data-place": name }, icon(picture), label));
  status = h("span", { class: "status", role: "status" }, h("span", { class: "dot" }), h("span", ""));
  search = finder("Find a queue", { placeholder: "Find a queue  ( / )", onkeydown: find });
  main = h("main", { id: "content", tabindex: "-1" });
  // The first virtual host is meant if an address names none.
  hosts = h("select", { "aria-label": "Virtual host", class: session.hosts.length < 2 && "hidden", onchange() { scope.host = hosts.value; location.hash = address(parse().parts[0]); } },
    session.hosts.map(({ name, id }, at) => h("option", { value: at ? name : "" }, id)));
  fill(app, h("div", { class: "frame" },
    h("nav", { class: "rail", "aria-label": "Pages" },
      h("a", { class: "brand", href: "#/", "aria-label": "Covey, overview" }, h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "" }), h("span", "Covey")),
      links,
      h("p", { class: "foot" }, `${session.broker} · ${session.version}`)),
    h("div", { class: "main" },
      h("header", { class: "bar" }, search, hosts, h("span", { class: "grow" }), status,
        h("button", { class: "icon small", title: "Light or dark", "aria-label": "Light or dark", onclick: turnScheme }, "◐"),
        h("button", { class: "small", title: "Keys ( ? )", "aria-label": "Keys", onclick: help }, "?"),
        push(["Sign out ", h("span", session.user)], leave, "small")),
      main)));
}

function find(event) {
  if (event.key !== "Enter") return;
  const text = search.value.trim();
  location.hash = to("queues") + (text && `?search=${encodeURIComponent(text)}`);
  search.value = "";
  search.blur();
}

addEventListener("link", (event) => {
  if (!status) return;
  status.classList.remove("hidden");
  const [dot, text] = status.children;
  dot.className = `dot ${event.detail}`;
  say(text, event.detail === "live" ? "live" : "reconnecting …");
});

async function leave() {
  try { await ask("DELETE", "/session"); } finally { signedOut(); }
}

/** The login has ended. A form that is open keeps what was typed: who comes back goes on there. */
let isAsking = false;
async function asked() {
  if (!document.querySelector("dialog[open] :is(input, textarea, select)")) { signedOut(); return; }
  if (isAsking) return;
  isAsking = true;
  const show = await signInForm();
  const former = session.user;
  let answer = null;
  const dialog = h("dialog", { "aria-label": "Sign in", onclose() {
    dialog.remove();
    isAsking = false;
    if (answer?.user !== former) leaveForms();
    if (answer) begin(answer);
    else signedOut();
  } });
  document.body.append(dialog);
  dialog.showModal();
  show(dialog, (given) => { answer = given; dialog.close(); }, former);
}

const leaveForms = () => document.querySelectorAll("dialog").forEach((one) => one.close());

function signedOut() {
  page?.close?.();
  page = null;
  place = null;
  status = null;
  session.user = session.token = "";
  leaveForms();
  signIn();
}
addEventListener("signed-out", () => { if (session.user) asked(); });

// Where one is: #/queues/orders/messages?from=7

const pageAt = (parts) => (parts[0] === "queues" && parts.length > 1 ? queue : PLACES.find((one) => one[0] === (parts[0] ?? ""))?.[4]);

async function route() {
  if (!session.user) return;
  const { host, parts, query } = parse();
  hosts.selectedIndex = Math.max(0, session.hosts.findIndex(({ name }) => name === host));
  scope.host = hosts.value;
  const first = PLACES.find((one) => one[5]());
  const found = PLACES.find((one) => one[0] === (parts[0] ?? "") && one[5]()) ?? (parts.length ? null : first);
  const isElsewhere = host && !session.hosts.some(({ name }) => name === host);
  const key = JSON.stringify([parts, scope.host]);
  if (page?.update && key === place) { page.update(query); return; }
  place = key;
  page?.close?.();
  page = null;
  for (const link of links) {
    link.href = address(link.dataset.place);
    if (link.dataset.place === (found?.[0] ?? null)) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest" }); }
    else link.removeAttribute("aria-current");
  }
  fill(main);
  status.classList.add("hidden");
  scrollTo(0, 0);
  if (!found || isElsewhere) {
    const text = isElsewhere ? `No virtual host has the host name ${host}.` : first ? "There is nothing here, or you may not see it." : "You are signed in, but may not manage anything here. Ask for a [[permission]] to manage.";
    fill(main, h("h1", "Nothing here"), h("p", text));
    return;
  }
  document.title = `${parts.length > 1 ? `${parts[1]} · ` : ""}${found[1]} · Covey`;
  let show;
  try { show = await (parts.length ? pageAt(parts) : found[4])(); } catch {
    // The broker is away, or it is another version by now.
    fill(main, h("p", { class: "notice warn" }, "This page could not be loaded. ", push("Load it anew", () => location.reload())));
    return;
  }
  if (place === key && !page) page = show(main, parts.slice(1), parse().query) ?? {};
}
addEventListener("hashchange", route);
addEventListener("scheme", () => page?.draw?.());

// Keys.

const KEYS = [["/", "find a queue"], ["?", "these keys"], ["Esc", "leave a form, a field"], ["d", "light or dark"]];
function help() {
  const places = PLACES.filter((one) => one[5]()).map((one) => [`g ${one[3]}`, one[1].toLowerCase()]);
  form({ title: "Keys", button: "Close", text: facts([...KEYS, ...places].map(([key, text]) => [h("kbd", key), text])), act: () => true });
}

let pressed = -Infinity; // when "g" was: times begin with the page, so 0 would be one
addEventListener("keydown", (event) => {
  if (!session.user || event.ctrlKey || event.metaKey || event.altKey) return;
  // A dialog that was left keeps the focus until the next frame is drawn, so only an open one counts.
  const typing = event.target.closest("input, textarea, select, dialog[open]");
  if (typing) { if (event.key === "Escape" && !event.target.closest("dialog[open]")) event.target.blur(); return; }
  if (event.timeStamp - pressed < 1200) {
    pressed = -Infinity;
    const wanted = PLACES.find((one) => one[3] === event.key && one[5]());
    if (wanted) { location.hash = address(wanted[0]); event.preventDefault(); return; }
  }
  if (event.key === "g") pressed = event.timeStamp;
  else if (event.key === "/") { (main.querySelector("input[type=search]") ?? search).focus(); event.preventDefault(); }
  else if (event.key === "?") help();
  else if (event.key === "d") turnScheme();
});

// The beginning.

function begin(answer) {
  page?.close?.();
  page = place = null;
  Object.assign(session, answer);
  frame();
  route();
  const rest = () => [signInForm, queue, ...PLACES.map((one) => one[4])].forEach((one) => one().catch(() => {}));
  setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(rest) : rest()), 2000);
}

applyScheme();
pageAt(parse().parts)?.().catch(() => {}); // meanwhile
try {
  begin(await get("/session"));
} catch (error) {
  if (error.status !== 401) toast(error.message, true);
  signIn();
}
