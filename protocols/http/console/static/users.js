// users: who may log in, what they may do, and whether X may do Y.

import { h, fill, age } from "./dom.js";
import { ask, get, path, session } from "./api.js";
import { table } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";

const VERBS = ["send", "consume", "browse", "create", "destroy", "manage", "connect"];

export default function users(main) {
  const people = table({ label: "Users", key: (row) => row.name, columns: [
    { label: "User", kind: "name", show: (row) => row.name },
    { label: "Roles", show: (row) => row.roles.join(", ") },
    { label: "From", kind: "prose", show: (row) => row.origin ?? "" },
    { label: "", kind: "acts", told: (row) => row.name + row.origin, node: (row) => remover("users", "User", row) },
  ], empty: () => h("p", {}, "There are none.") });
  const rules = table({ label: "Permissions", key: (row) => row.name, columns: [
    { label: "Rule", show: (row) => row.name },
    { label: "Who", kind: "name", show: (row) => row.who.join(", ") },
    { label: "May", show: (row) => row.may.join(", ") },
    { label: "On", show: (row) => row.on },
    { label: "", kind: "acts", told: (row) => row.name + row.origin, node: (row) => remover("permissions", "Permission", row) },
  ], empty: () => [h("p", {}, "There is no rule: every user may do everything but manage."), h("pre", {}, '[[permission]]\nwho = ["worker"]\nmay = ["send", "consume"]\non = "queue:orders.**"')] });
  const browsers = table({ label: "Browsers that are signed in", key: (row) => row.name, columns: [
    { label: "User", kind: "name", show: (row) => row.user },
    { label: "From", show: (row) => row.remote },
    { label: "For", kind: "num", show: (row) => age(row.age_s) },
    { label: "Idle", kind: "num", show: (row) => age(row.idle_s) },
    { label: "", kind: "acts", told: (row) => row.name, node: (row) => h("button", { class: "small danger", onclick: () => end(row) }, "Sign out") },
  ], empty: () => h("p", {}, "None.") });
  const who = h("select", { "aria-label": "User" });
  const verb = h("select", { "aria-label": "Verb" }, VERBS.map((one) => h("option", {}, one)));
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
  // What the file has is the file's; what was set at run time lies over it and can go again.
  const isAdmin = session.roles.includes("admin");
  const list = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);
  const remover = (kind, word, row) => (isAdmin && row.origin !== "file" ? h("button", { class: "small danger", onclick: () => confirm({ title: `Remove ${row.name}?`, text: `${word} ${row.name}, which was set at run time, goes; what the file says of it holds again.`, button: `Remove ${row.name}`, act: async () => { await ask("DELETE", `/${kind}${path(row.name)}`); load(); }, done: `${word} ${row.name} is removed.` }) }, "Remove") : h("span"));
  const setter = (label, options) => (isAdmin ? h("span", { class: "acts" }, h("button", { class: "small", onclick: () => form(options) }, label)) : null);
  const setUser = { title: "Set a user", button: "Set", text: "It holds at once, over what the file says. Who has that name logs in again.", fields: [{ name: "name", label: "Name", required: true }, { name: "password", label: "Password", type: "password", required: true }, { name: "roles", label: "Roles", hint: "staff, admin" }],
    act: async (given) => { await ask("PUT", `/users${path(given.name)}`, { body: { password: given.password, roles: list(given.roles) } }); toast(`User ${given.name} is set.`); load(); } };
  const setRule = { title: "Set a permission", button: "Set", text: "Once there is a rule, everything is denied that no rule allows.", fields: [{ name: "name", label: "Name of the rule", required: true }, { name: "who", label: "Who", hint: "shop, role:staff, *", required: true }, { name: "may", label: "May", hint: "send, consume", required: true }, { name: "on", label: "On", value: "**" }],
    act: async (given) => { await ask("PUT", `/permissions${path(given.name)}`, { body: { who: list(given.who), may: list(given.may), on: given.on } }); toast(`Permission ${given.name} is set.`); load(); } };
  const end = (row) => confirm({ title: `Sign ${row.user} out?`, text: `The browser of ${row.user} at ${row.remote} has to sign in again.`, button: "Sign out", act: async () => { await ask("DELETE", `/sessions${path(row.name)}`); load(); }, done: `${row.user} is signed out.` });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Users and permissions")),
    h("section", { class: "card", "aria-label": "May somebody do something?" }, h("header", {}, h("h2", {}, "May somebody do something?")), h("form", { class: "row", onsubmit: check }, "May", who, verb, on, h("button", { class: "primary" }, "Ask")), answer),
    h("div", { class: "grid" },
      h("section", { class: "card", "aria-label": "Users" }, h("header", {}, h("h2", {}, "Users"), setter("Set a user", setUser)), people.node),
      h("section", { class: "card", "aria-label": "Permissions" }, h("header", {}, h("h2", {}, "Permissions"), setter("Set a permission", setRule)), rules.node)),
    h("section", { class: "card", "aria-label": "Browsers" }, h("header", {}, h("h2", {}, "Browsers that are signed in")), browsers.node));
  async function load() {
    const [all, allowed, seen] = await Promise.all([get("/users"), get("/permissions"), get("/sessions")]);
    people.show(all.items);
    rules.show(allowed.items);
    browsers.show(seen.items);
    const chosen = who.value;
    fill(who, all.items.map((row) => h("option", {}, row.name)));
    if (chosen) who.value = chosen;
  }
  load().catch((error) => { if (error.status !== 401) fill(answer, error.message); });
  return {};
}
