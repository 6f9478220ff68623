// jobs: long work that is done in portions, how far it is, and a way to stop it.

import { h, count, age } from "./dom.js";
import { ask, path } from "./api.js";
import { confirm } from "./dialogs.js";
import { listPage } from "./topics.js";

function progress(row) {
  const bar = h("i");
  const part = row.total ? Math.min(1, row.done / row.total) : 0;
  bar.style.width = `${Math.round(part * 100)}%`;
  return h("div", { role: "progressbar", "aria-label": `${row.verb} ${row.target}`, "aria-valuenow": String(Math.round(part * 100)), "aria-valuemin": "0", "aria-valuemax": "100" }, h("div", { class: "gauge" }, bar));
}

export default function jobs(main, parts, query) {
  const page = listPage({
    main, query, title: "Jobs", where: "/jobs", first: "", plain: true, every: 1000,
    columns: [
      { label: "Job", kind: "name", show: (row) => `${row.verb} ${row.target}` },
      { label: "Progress", told: (row) => `${row.done} ${row.total}`, node: progress },
      { label: "Done", kind: "num", show: (row) => `${count(row.done)} of ${count(row.total)}` },
      { label: "For", kind: "num", show: (row) => age(row.age_s) },
      { label: "By", show: (row) => row.user },
      { label: "", kind: "acts", told: (row) => row.name, node: (row) => (row.stoppable ? h("button", { class: "small danger", onclick: () => stop(row) }, "Stop") : h("span")) },
    ],
    empty: () => [h("p", {}, "Nothing runs now. A purge, a move or a deletion of very many messages is done in portions, and is shown here meanwhile.")],
  });
  const stop = (row) => confirm({ title: `Stop ${row.verb} ${row.target}?`, text: `What is done stays done: ${count(row.done)} of ${count(row.total)}.`, button: "Stop", act: async () => { await ask("DELETE", `/jobs${path(row.name)}`); page.load(); }, done: "The job is stopped." });
  return page;
}
