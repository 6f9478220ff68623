// configuration: the settings that hold and where each is from; policies that are set at run time.

import { h, fill, push, hint, card } from "./dom.js";
import { ask, get, path, post, session } from "./api.js";
import { table, words, acts } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";
import { readArguments } from "./queues.js";

/** What a value of a setting is written as. */
const written = (value) => (value === null ? "–" : Array.isArray(value) ? value.join(", ") || "[]" : String(value));

/** Settings, each with the place it is from; a queue's policy looks the same. */
export const settingsTable = (label) => table({ label, key: (row) => row.key, columns: [
  words("Setting", "key", "name"), { label: "Value", kind: "mono", show: (row) => written(row.value) }, words("From", "origin", "prose"),
], empty: () => hint("No setting has that in its name.") });

/** Settings of a policy as lines: {groups: {strategy: "lru"}} is groups.strategy = "lru". */
const flat = (settings, before = "") => Object.entries(settings).flatMap(([name, value]) => (value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${before}${name}.`) : [[before + name, value]]));
const lines = (settings) => flat(settings).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n");

/** And back again. */
function nested(pairs) {
  const found = {};
  for (const [name, value] of Object.entries(pairs)) {
    const parts = name.split(".");
    let at = found;
    for (const part of parts.slice(0, -1)) at = at[part] ??= {};
    at[parts.at(-1)] = value;
  }
  return found;
}

/** The policies of queues: those of the file, and those that were set at run time and lie over them. */
function policies(changed) {
  const isAdmin = session.roles.includes("admin");
  const grid = table({ label: "Policies", columns: [
    words("Queues", "name", "name"),
    { label: "Settings", kind: "mono lines", show: (row) => lines(row.settings) },
    words("From", "origin", "prose"),
    acts((row) => isAdmin && [push("Change", () => set(row), "small"), " ", row.origin !== "file" && push("Remove", () => remove(row), "small danger")], JSON.stringify),
  ], empty: () => hint("No policy is set: every queue is as the defaults say.", '[[queue]]\nid = "orders.**"\nquota_messages = 100000\ndlq = "dlq.*"') });
  const set = (row) => form({ title: row ? `Change the policy of ${row.name}` : "Set a policy", button: "Set",
    text: "It holds at once for every queue that matches, over what the file says, also after a restart. What is not named stays; null takes a setting away.",
    fields: [...(row ? [] : [{ name: "name", label: "Queues", required: true, hint: "orders.**", help: "a name, or a pattern: * is one word, ** any number of them" }]),
      { name: "settings", label: "Settings", type: "area", value: row ? lines(row.settings) : "", hint: 'quota_messages = 1000\ngroups.strategy = "lru"', help: "one a line, as in [[queue]]" }],
    act: async (given) => { const name = row?.name ?? given.name; await ask("PUT", `/policies${path(name)}`, { body: { settings: nested(readArguments(given.settings)) } }); toast(`Policy ${name} is set.`); await load(); changed(); } });
  const remove = (row) => confirm({ title: `Remove the policy of ${row.name}?`, text: `What was set at run time for ${row.name} goes. Its queues are as the file says, or as the defaults do.`, button: `Remove ${row.name}`, act: async () => { await ask("DELETE", `/policies${path(row.name)}`); await load(); changed(); }, done: `Policy ${row.name} is removed.` });
  async function load() { grid.forget(); grid.show((await get("/policies", { limit: 1000 })).items); }
  load().catch(() => {});
  return { load, node: card("Policies", isAdmin && push("Set a policy", () => set(null), "small"), grid.node) };
}

export default function configuration(main) {
  let rows = [];
  const box = h("input", { type: "search", "aria-label": "Find settings", placeholder: "Find settings", oninput: () => show() });
  const only = h("input", { type: "checkbox", onchange: () => show() });
  const grid = settingsTable("Settings");
  const report = h("div", { class: "hidden" });
  const told = (...children) => { report.classList.remove("hidden"); fill(report, children); };
  const rules = policies(() => load());
  fill(main, h("div", { class: "title" }, h("h1", "Configuration"), h("span", { class: "acts" }, push("Reload", reload, "primary"))),
    report, rules.node, card("Settings", [box, h("label", { class: "check" }, only, "only what was given")], grid.node));
  function show() {
    const wanted = box.value.toLowerCase();
    grid.show(rows.filter((row) => row.key.toLowerCase().includes(wanted) && (!only.checked || row.origin !== "default")));
  }
  async function load() {
    const read = await get("/configuration");
    rows = read.items;
    if (read.warnings.length) told(read.warnings.map((one) => h("p", { class: "notice warn" }, one)));
    show();
  }
  function reload() {
    return confirm({ title: "Read the configuration again?", text: "Files, conf.d and environment are read again. All of it holds from then on; if anything is wrong, nothing changes. Users whose password or roles have changed have to log in again.", button: "Reload",
      act: async () => {
        const answer = await post("/configuration/reload");
        const parts = [["Changed", answer.changes], ["Kept, since messages stand against it", answer.kept], ["Waits for a restart", answer.needs_restart]].filter(([, found]) => found.length);
        await Promise.all([load(), rules.load()]);
        told(h("div", { class: "notice", role: "status" }, parts.length ? parts.map(([label, found]) => [h("h2", label), h("ul", found.map((line) => h("li", line)))]) : "Nothing has changed."));
      } });
  }
  load().catch((error) => { if (error.status !== 401) told(h("p", { class: "notice warn" }, error.message)); });
  return {};
}
