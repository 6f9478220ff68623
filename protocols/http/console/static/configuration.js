// configuration: the settings that hold and where each is from; and what was declared, out and in.

import { h, fill, plural } from "./dom.js";
import { get, post } from "./api.js";
import { table } from "./table.js";
import { confirm, form, toast } from "./dialogs.js";

const text = (value) => (value === null ? "–" : Array.isArray(value) ? `[${value.join(", ")}]` : String(value));

export function configuration(main) {
  let rows = [];
  const box = h("input", { type: "search", "aria-label": "Find settings", placeholder: "Find settings", oninput: () => show() });
  const only = h("input", { type: "checkbox", onchange: () => show() });
  const grid = table({ label: "Settings", key: (row) => row.key, columns: [
    { label: "Setting", kind: "name", show: (row) => row.key },
    { label: "Value", kind: "mono", show: (row) => text(row.value) },
    { label: "From", kind: "prose", show: (row) => row.origin },
  ], empty: () => h("p", {}, "No setting has that in its name.") });
  const report = h("div");
  fill(main, h("div", { class: "title" }, h("h1", {}, "Configuration"), h("span", { class: "acts" }, h("button", { type: "button", class: "primary", onclick: reload }, "Reload"))),
    report,
    h("section", { class: "card", "aria-label": "Settings" }, h("header", {}, box, h("label", { class: "check" }, only, "only what was given")), grid.node));
  function show() {
    const wanted = box.value.toLowerCase();
    grid.show(rows.filter((row) => row.key.toLowerCase().includes(wanted) && (!only.checked || row.origin !== "default")));
  }
  async function load() {
    const read = await get("/configuration");
    rows = read.items;
    if (read.warnings.length) fill(report, read.warnings.map((one) => h("p", { class: "notice warn" }, one)));
    show();
  }
  function reload() {
    return confirm({ title: "Read the configuration again?", text: "Files, conf.d and environment are read again. All of it holds from then on; if anything is wrong, nothing changes. Users whose password or roles have changed have to log in again.", button: "Reload",
      act: async () => {
        const told = await post("/configuration/reload");
        const part = (label, lines) => (lines.length ? [h("h2", {}, label), h("ul", {}, lines.map((line) => h("li", {}, line)))] : null);
        await load();
        fill(report, h("div", { class: "notice", role: "status" }, told.changes.length + told.kept.length + told.needs_restart.length === 0 ? "Nothing has changed." : [part("Changed", told.changes), part("Kept, since messages stand against it", told.kept), part("Waits for a restart", told.needs_restart)]));
      } });
  }
  load().catch((error) => { if (error.status !== 401) fill(report, h("p", { class: "notice warn" }, error.message)); });
  return {};
}

export function definitions(main) {
  const shown = h("pre", { class: "body", tabindex: "0" }, "…");
  let document_ = null;
  const file = h("input", { type: "file", accept: "application/json,.json", "aria-label": "Definitions to import", class: "hidden", onchange: async () => { const given = file.files[0]; if (given) offer(await given.text()); file.value = ""; } });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Definitions"), h("span", { class: "acts" },
    h("button", { type: "button", onclick: save }, "Export"), h("button", { type: "button", onclick: () => file.click() }, "Import a file"), h("button", { type: "button", onclick: paste }, "Paste"), file)),
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
    confirm({ title: "Import these definitions?", text: `${plural(count(wanted.queues), "queue")} and ${plural(count(wanted.subscriptions), "subscription")} are made, or changed to what the document says. Nothing is deleted. Users are left alone.`, button: "Import",
      act: async () => { const answer = await post("/definitions", wanted); await load(); return answer; }, done: (answer) => `${plural(answer.changed.length, "entry").replace("entrys", "entries")} imported.` });
  }
  async function load() { document_ = await get("/definitions"); fill(shown, JSON.stringify(document_, null, 2)); }
  load().catch((error) => { if (error.status !== 401) fill(shown, error.message); });
  return {};
}
