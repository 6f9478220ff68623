// users: who may log in, what they may do, and whether X may do Y.

import { h, fill, age, push, hint, card, heading } from "./dom.js";
import { ask, get, path, session } from "./api.js";
import { table, num, words, acts } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";

const VERBS = ["send", "consume", "browse", "create", "destroy", "manage", "connect"];
const list = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

export default function users(main) {
  // What the file has is the file's; what was set at run time lies over it and can go again.
  const isAdmin = session.roles.includes("admin");
  const remover = (kind, word) => acts((row) => (isAdmin && row.origin !== "file" ? push("Remove", () => confirm({ title: `Remove ${row.name}?`, text: `${word} ${row.name}, which was set at run time, goes; what the file says of it holds again.`, button: `Remove ${row.name}`, act: () => ask("DELETE", `/${kind}${path(row.name)}`).then(load), done: `${word} ${row.name} is removed.` }), "small danger") : ""), (row) => row.name + row.origin);
  const setter = (kind, word, text, fields, body) => isAdmin && push(`Set a ${word}`, () => form({ title: `Set a ${word}`, button: "Set", text, fields,
    act: async (given) => { await ask("PUT", `/${kind}${path(given.name)}`, { body: body(given) }); toast(`${word[0].toUpperCase()}${word.slice(1)} ${given.name} is set.`); load(); } }), "small");
  const people = table({ label: "Users", columns: [
    words("User", "name", "name"),
    { label: "Roles", show: (row) => row.roles.join(", ") },
    words("From", "origin", "prose"), remover("users", "User"),
  ] });
  const rules = table({ label: "Permissions", columns: [
    words("Rule", "name", "tight"),
    { label: "Who", show: (row) => row.who.join(", ") },
    { label: "May", show: (row) => row.may.join(", ") },
    words("On", "on"), remover("permissions", "Permission"),
  ], empty: () => hint("There is no rule: every user may do everything but manage.", '[[permission]]\nwho = ["worker"]\nmay = ["send", "consume"]\non = "queue:orders.**"') });
  const browsers = table({ label: "Browsers that are signed in", columns: [
    words("User", "user", "name"), words("From", "remote"), num("For", "age_s", age), num("Idle", "idle_s", age),
    acts((row) => push("Sign out", () => end(row), "small danger")),
  ], empty: () => hint("None.") });
  const end = (row) => confirm({ title: `Sign ${row.user} out?`, text: `The browser of ${row.user} at ${row.remote} has to sign in again.`, button: "Sign out", act: () => ask("DELETE", `/sessions${path(row.name)}`).then(load), done: `${row.user} is signed out.` });

  const who = h("select", { "aria-label": "User" });
  const verb = h("select", { "aria-label": "Verb" }, VERBS.map((one) => h("option", one)));
  const on = h("input", { "aria-label": "Destination", placeholder: "/queue/orders, /topic/prices; empty: the broker", class: "grow" });
  const answer = h("p", { role: "status", class: "soft" }, "The answer names the rule that decides.");
  async function check(event) {
    event.preventDefault();
    try {
      const told = await get("/permissions/check", { user: who.value, verb: verb.value, on: on.value });
      answer.className = "";
      fill(answer, h("span", { class: `badge ${told.allowed ? "good" : "bad"}` }, told.allowed ? "Yes" : "No"), ` ${told.user} ${told.allowed ? "may" : "may not"} ${told.verb} ${told.on}: ${told.because}.`);
    } catch (trouble) { fill(answer, trouble.message); }
  }
  const name = { name: "name", label: "Name", required: true };
  fill(main, heading("Users and permissions"),
    card("May somebody do something?", null, h("form", { class: "row", onsubmit: check }, "May", who, verb, on, h("button", { class: "primary" }, "Ask")), answer),
    h("div", { class: "grid" },
      card("Users", setter("users", "user", "It holds at once, over what the file says. Who has that name logs in again.",
        [name, { name: "password", label: "Password", type: "password", required: true }, { name: "roles", label: "Roles", hint: "staff, admin" }],
        (given) => ({ password: given.password, roles: list(given.roles) })), people.node),
      card("Permissions", setter("permissions", "permission", "Once there is a rule, everything is denied that no rule allows.",
        [name, { name: "who", label: "Who", hint: "shop, role:staff, *", required: true }, { name: "may", label: "May", hint: "send, consume", required: true }, { name: "on", label: "On", value: "**" }],
        (given) => ({ who: list(given.who), may: list(given.may), on: given.on })), rules.node)),
    card("Browsers that are signed in", null, browsers.node));
  async function load() {
    const [all, allowed, seen] = await Promise.all([get("/users"), get("/permissions"), get("/sessions")]);
    people.show(all.items);
    rules.show(allowed.items);
    browsers.show(seen.items);
    const chosen = who.value || session.user;
    fill(who, all.items.map((row) => h("option", { selected: row.name === chosen }, row.name)));
  }
  load().catch((error) => { if (error.status !== 401) fill(answer, error.message); });
  return {};
}
