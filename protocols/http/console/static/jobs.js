// jobs: long work that is done in portions, how far it is, and a way to stop it.

import { h, push, count, age, hint } from "./dom.js";
import { ask, path } from "./api.js";
import { num, words, acts } from "./table.js";
import { confirm } from "./dialogs.js";
import { listPage } from "./lists.js";

function progress(row) {
  const bar = h("i");
  const percent = `${row.total ? Math.min(100, Math.round((100 * row.done) / row.total)) : 0}`;
  bar.style.width = `${percent}%`;
  return h("div", { role: "progressbar", "aria-label": `${row.verb} ${row.target}`, "aria-valuenow": percent }, h("div", { class: "gauge" }, bar));
}

export default function jobs(main, parts, query) {
  const page = listPage({
    main, query, title: "Jobs", where: "/jobs", first: "", plain: true, every: 2000,
    columns: [
      { label: "Job", kind: "name", show: (row) => `${row.verb} ${row.target}` },
      { label: "Progress", told: (row) => `${row.done} ${row.total}`, node: progress },
      { label: "Done", kind: "num", show: (row) => `${count(row.done)} of ${count(row.total)}` },
      num("For", "age_s", age), words("By", "user"),
      acts((row) => (row.stoppable ? push("Stop", () => stop(row), "small danger") : "")),
    ],
    empty: () => hint("Nothing runs now. A purge, a move or a deletion of very many messages is done in portions, and is shown here meanwhile."),
  });
  const stop = (row) => confirm({ title: `Stop ${row.verb} ${row.target}?`, text: `What is done stays done: ${count(row.done)} of ${count(row.total)}.`, button: "Stop", act: () => ask("DELETE", `/jobs${path(row.name)}`).then(page.load), done: "The job is stopped." });
  return page;
}
