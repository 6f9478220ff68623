// configuration: the settings that hold and where each is from; policies that are set at run time.

import { h, fill, push, hint, card, heading, finder } from "./dom.js";
import { ask, get, path, post } from "./api.js";
import { table, words, acts } from "./table.js";
import { confirm, control, form, perform, toast } from "./dialogs.js";

/** What a value of a setting is written as. */
const written = (value) => (value === null ? "–" : Array.isArray(value) ? value.join(", ") || "[]" : String(value));

/** Settings, each with the place it is from; a queue's policy looks the same. */
export const settingsTable = (label) => table({ label, key: (row) => row.key, columns: [
  words("Setting", "key", "name"), { label: "Value", kind: "mono", show: (row) => written(row.value) }, words("From", "origin", "prose"),
], empty: () => hint("No setting has that in its name.") });

/** Settings of a policy one by one: {groups: {strategy: "lru"}} is ["groups.strategy", "lru"]. */
const flat = (settings, before = "") => Object.entries(settings).flatMap(([name, value]) => (value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${before}${name}.`) : [[before + name, value]]));

/** And back again. */
function nested(pairs) {
  const found = {};
  for (const [name, value] of pairs) {
    const parts = name.split(".");
    let at = found;
    for (const part of parts.slice(0, -1)) at = at[part] ??= {};
    at[parts.at(-1)] = value;
  }
  return found;
}

/**
 * A form's part for the settings of a policy: a field for each that is given, with what it means,
 * and a list to add others from. `read` gives what is set, null for what was taken away.
 */
function editor(all, given) {
  const known = new Map(all.map((one) => [one.key, one]));
  const fields = new Map(); // how each one is read
  const place = h("div", { class: "grid" });
  const more = h("select", { "aria-label": "Add a setting", onchange() { add(more.value).focus(); } });
  function add(key, value = known.get(key).default) {
    const { kind, options, help } = known.get(key);
    const looks = kind === "boolean" ? { options: ["true", "false"] } : options.length ? { options } : { type: kind === "number" ? kind : "text" };
    const controls = new Map();
    const field = control({ name: key, label: key, help, value: String(value ?? ""), ...looks }, controls);
    const line = h("div", { class: "setting" }, field, h("button", { type: "button", class: "small", "aria-label": `Take ${key} away`, onclick() { fields.delete(key); line.remove(); offer(); } }, "×"));
    fields.set(key, () => { const text = controls.get(key)(); return kind === "number" ? Number(text) : kind === "boolean" ? text === "true" : text || null; });
    place.append(line);
    offer();
    return field.querySelector("input, select");
  }
  const offer = () => fill(more, h("option", { value: "" }, "Add a setting …"), all.filter(({ key }) => !fields.has(key)).map(({ key }) => h("option", key)));
  offer();
  for (const [key, value] of given) add(key, value);
  return { parts: [place, more], read: () => nested([...given.map(([key]) => [key, null]), ...[...fields].map(([key, read]) => [key, read()])]) };
}

/** The policies of queues: those of the file, and those that were set at run time and lie over them. */
function policies(changed) {
  const grid = table({ label: "Policies", columns: [
    words("Queues", "name", "name"),
    { label: "Settings", kind: "mono lines", show: (row) => flat(row.settings).map(([name, value]) => `${name} = ${written(value)}`).join("\n") || "as the defaults say" },
    words("From", "origin", "prose"),
    acts((row) => [push("Change", () => set(row), "small"), " ", row.origin !== "file" && push("Remove", () => remove(row), "small danger")], JSON.stringify),
  ], empty: () => hint("No policy is set: every queue is as the defaults say.", '[[queue]]\nid = "orders.**"\nquota_messages = 100000\ndlq = "dlq.*"') });
  async function set(row) {
    const read = await perform(() => get("/configuration/schema"));
    if (!read) return;
    const settings = editor(read.items, row ? flat(row.settings) : []);
    await form({ title: row ? `Change the policy of ${row.name}` : "Set a policy", button: "Set",
      text: "It holds at once for every queue that matches, over what the file says, also after a restart.",
      fields: [...(row ? [] : [{ name: "name", label: "Queues", required: true, hint: "orders.**", help: "a name, or a pattern: * is one word, ** any number of them" }]), ...settings.parts],
      act: async (given) => { const name = row?.name ?? given.name; await ask("PUT", `/policies${path(name)}`, { body: { settings: settings.read() } }); toast(`Policy ${name} is set.`); await load(); changed(); } });
  }
  const remove = (row) => confirm({ title: `Remove the policy of ${row.name}?`, text: `What was set at run time for ${row.name} goes. Its queues are as the file says, or as the defaults do.`, button: `Remove ${row.name}`, act: async () => { await ask("DELETE", `/policies${path(row.name)}`); await load(); changed(); }, done: `Policy ${row.name} is removed.` });
  async function load() { grid.forget(); grid.show((await get("/policies", { limit: 1000 })).items); }
  load().catch(() => {});
  return { load, node: card("Policies", push("Set a policy", () => set(null), "small"), grid.node) };
}

export default function configuration(main) {
  let rows = [];
  const box = finder("Find settings", { oninput: () => show() });
  const only = h("input", { type: "checkbox", onchange: () => show() });
  const grid = settingsTable("Settings");
  const report = h("div", { class: "hidden" });
  const told = (...children) => { report.classList.remove("hidden"); fill(report, children); };
  const rules = policies(() => load());
  fill(main, heading("Configuration", push("Reload", reload, "primary")),
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
