// definitions: everything that was declared, out and in again. What an import would change is shown first.

import { h, fill, push, plural, card, heading } from "./dom.js";
import { get, post } from "./api.js";
import { table } from "./table.js";
import { confirm, form, perform, toast } from "./dialogs.js";

const SHOWN = 100; // steps of an import that are told one by one

/** What differs between two entries, a line each. */
function differences({ before, after }) {
  const write = (value) => (value === undefined ? "nothing" : JSON.stringify(value));
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.filter((name) => write(before?.[name]) !== write(after?.[name]))
    .map((name) => (before ? `${name}: ${write(before[name])} → ${write(after?.[name])}` : `${name} = ${write(after[name])}`)).join("\n");
}

function stepsTable(steps) {
  const grid = table({ label: "What would change", key: (step) => `${step.kind} ${step.name}`, columns: [
    { label: "Entry", kind: "name", show: (step) => `${step.kind} ${step.name}` },
    { label: "Is", told: (step) => step.action, node: (step) => h("span", { class: `badge ${{ new: "good", change: "warn" }[step.action] ?? ""}` }, step.action) },
    { label: "What", kind: "mono lines", show: (step) => step.why ?? differences(step) },
  ] });
  grid.show(steps.slice(0, SHOWN));
  return [grid.node, steps.length > SHOWN && h("p", { class: "soft" }, `and ${steps.length - SHOWN} more`)];
}

export default function definitions(main) {
  const shown = h("pre", { class: "body", tabindex: "0" }, "…");
  const file = h("input", { type: "file", accept: "application/json,.json", "aria-label": "Definitions to import", class: "hidden", onchange: async () => { const given = file.files[0]; if (given) await look(await given.text()).catch((error) => toast(error.message, true)); file.value = ""; } });
  fill(main, heading("Definitions", push("Export", save), push("Import a file", () => file.click()), push("Paste", () => paste()), file),
    card("Everything that was declared", null, shown));
  function save() {
    const address = URL.createObjectURL(new Blob([shown.textContent], { type: "application/json" }));
    h("a", { href: address, download: "covey-definitions.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  const paste = () => form({ title: "Import definitions", button: "Look at it", fields: [{ name: "text", label: "Definitions, as JSON", type: "area" }], act: (values) => look(values.text) });
  /** Ask what a document would change, and offer to do it. */
  async function look(text) {
    let wanted;
    try { wanted = JSON.parse(text); } catch { throw new Error("That is not JSON."); }
    const planned = await post("/definitions", wanted, { dry_run: true });
    setTimeout(() => offer(wanted, planned)); // when the form has gone
  }
  function offer(wanted, { steps, same }) {
    if (!steps.length) { toast(`Nothing would change: ${plural(same, "entry", "entries")} the same.`); return; }
    confirm({ title: "Import these definitions?", text: [h("p", `${plural(steps.length, "entry", "entries")} to look at, ${same} the same already. Nothing is deleted.`), stepsTable(steps)], button: "Import",
      act: async () => { const answer = await post("/definitions", wanted); await load(); return answer; }, done: (answer) => `${plural(answer.changed.length, "entry", "entries")} imported.` });
  }
  async function load() { fill(shown, JSON.stringify(await get("/definitions"), null, 2)); }
  perform(load);
  return {};
}
