// configuration: the settings that hold and where each is from; policies that are set at run time;
// and what was declared, out and in.

import { h, fill, plural } from "./dom.js";
import { ask, get, path, post, session } from "./api.js";
import { table } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";
import { readArguments } from "./queues.js";

const text = (value) => (value === null ? "–" : Array.isArray(value) ? `[${value.join(", ")}]` : String(value));

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
  const grid = table({ label: "Policies", key: (row) => row.name, columns: [
    { label: "Queues", kind: "name", show: (row) => row.name },
    { label: "Settings", kind: "mono lines", show: (row) => lines(row.settings) },
    { label: "From", kind: "prose", show: (row) => row.origin },
    { label: "", kind: "acts", told: (row) => JSON.stringify(row), node: (row) => (isAdmin ? [h("button", { class: "small", onclick: () => set(row) }, "Change"), " ", row.origin === "file" ? null : h("button", { class: "small danger", onclick: () => remove(row) }, "Remove")] : h("span")) },
  ], empty: () => [h("p", {}, "No policy is set: every queue is as the defaults say."), h("pre", {}, '[[queue]]\nid = "orders.**"\nquota_messages = 100000\ndlq = "dlq.*"')] });
  const set = (row) => form({ title: row ? `Change the policy of ${row.name}` : "Set a policy", button: "Set",
    text: "It holds at once for every queue that matches, over what the file says, also after a restart. What is not named stays; null takes a setting away.",
    fields: [...(row ? [] : [{ name: "name", label: "Queues", required: true, hint: "orders.**", help: "a name, or a pattern: * is one word, ** any number of them" }]),
      { name: "settings", label: "Settings", type: "area", value: row ? lines(row.settings) : "", hint: 'quota_messages = 1000\ngroups.strategy = "lru"', help: "one a line, as in [[queue]]" }],
    act: async (given) => { const name = row?.name ?? given.name; await ask("PUT", `/policies${path(name)}`, { body: { settings: nested(readArguments(given.settings)) } }); toast(`Policy ${name} is set.`); await load(); changed(); } });
  const remove = (row) => confirm({ title: `Remove the policy of ${row.name}?`, text: `What was set at run time for ${row.name} goes. Its queues are as the file says, or as the defaults do.`, button: `Remove ${row.name}`, act: async () => { await ask("DELETE", `/policies${path(row.name)}`); await load(); changed(); }, done: `Policy ${row.name} is removed.` });
  async function load() { grid.forget(); grid.show((await get("/policies", { limit: 1000 })).items); }
  load().catch(() => {});
  return { load, node: h("section", { class: "card", "aria-label": "Policies" }, h("header", {}, h("h2", {}, "Policies of queues"), isAdmin ? h("span", { class: "acts" }, h("button", { class: "small", onclick: () => set(null) }, "Set a policy")) : null), grid.node) };
}

export function configuration(main) {
  let rows = [];
  const box = h("input", { type: "search", "aria-label": "Find settings", placeholder: "Find settings", oninput: () => show() });
  const only = h("input", { type: "checkbox", onchange: () => show() });
  const grid = table({ label: "Settings", key: (row) => row.key, columns: [
    { label: "Setting", kind: "name", show: (row) => row.key },
    { label: "Value", kind: "mono", show: (row) => text(row.value) },
    { label: "From", kind: "prose", show: (row) => row.origin },
  ], empty: () => h("p", {}, "No setting has that in its name.") });
  const report = h("div", { class: "hidden" });
  const told = (...children) => { report.classList.remove("hidden"); fill(report, ...children); };
  const rules = policies(() => load());
  fill(main, h("div", { class: "title" }, h("h1", {}, "Configuration"), h("span", { class: "acts" }, h("button", { class: "primary", onclick: reload }, "Reload"))),
    report, rules.node,
    h("section", { class: "card", "aria-label": "Settings" }, h("header", {}, h("h2", {}, "Settings"), h("span", { class: "acts" }, box, h("label", { class: "check" }, only, "only what was given"))), grid.node));
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
        const part = (label, lines) => (lines.length ? [h("h2", {}, label), h("ul", {}, lines.map((line) => h("li", {}, line)))] : null);
        await Promise.all([load(), rules.load()]);
        told(h("div", { class: "notice", role: "status" }, answer.changes.length + answer.kept.length + answer.needs_restart.length === 0 ? "Nothing has changed." : [part("Changed", answer.changes), part("Kept, since messages stand against it", answer.kept), part("Waits for a restart", answer.needs_restart)]));
      } });
  }
  load().catch((error) => { if (error.status !== 401) told(h("p", { class: "notice warn" }, error.message)); });
  return {};
}

export function definitions(main) {
  const shown = h("pre", { class: "body", tabindex: "0" }, "…");
  let document_ = null;
  const file = h("input", { type: "file", accept: "application/json,.json", "aria-label": "Definitions to import", class: "hidden", onchange: async () => { const given = file.files[0]; if (given) offer(await given.text()); file.value = ""; } });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Definitions"), h("span", { class: "acts" },
    h("button", { onclick: save }, "Export"), h("button", { onclick: () => file.click() }, "Import a file"), h("button", { onclick: paste }, "Paste"), file)),
    h("section", { class: "card", "aria-label": "Definitions" }, h("header", {}, h("h2", {}, "Everything that was declared")), shown));
  function save() {
    const address = URL.createObjectURL(new Blob([JSON.stringify(document_, null, 2)], { type: "application/json" }));
    const link = h("a", { href: address, download: "covey-definitions.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  function paste() { return form({ title: "Import definitions", button: "Look at it", fields: [{ name: "text", label: "Definitions, as JSON", type: "area" }], act: (values) => { const given = values.text; JSON.parse(given); setTimeout(() => offer(given)); } }); }
  function offer(given) {
    let wanted;
    try { wanted = JSON.parse(given); } catch { toast("That is not JSON.", true); return; }
    const count = (list) => (Array.isArray(list) ? list.length : 0);
    confirm({ title: "Import these definitions?", text: `${plural(count(wanted.queues), "queue")} and ${plural(count(wanted.subscriptions), "subscription")} are made, or changed to what the document says; so are its policies, permissions and users. Nothing is deleted.`, button: "Import",
      act: async () => { const answer = await post("/definitions", wanted); await load(); return answer; }, done: (answer) => `${plural(answer.changed.length, "entry").replace("entrys", "entries")} imported.` });
  }
  async function load() { document_ = await get("/definitions"); fill(shown, JSON.stringify(document_, null, 2)); }
  load().catch((error) => { if (error.status !== 401) fill(shown, error.message); });
  return {};
}
