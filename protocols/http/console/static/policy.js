// policy: what a queue does with its messages, and where each of these values comes from.

import { h, fill } from "./dom.js";
import { get } from "./api.js";
import { table } from "./table.js";

export function policy(content, { where }) {
  const grid = table({
    label: "Policy", key: (row) => row.key,
    columns: [
      { label: "Setting", kind: "name", show: (row) => row.key },
      { label: "Value", kind: "mono", show: (row) => (row.value === null ? "–" : Array.isArray(row.value) ? row.value.join(", ") : String(row.value)) },
      { label: "From", kind: "prose", show: (row) => row.origin },
    ],
    empty: () => h("p", {}, "Nothing is known of it."),
  });
  fill(content, h("section", { class: "card", "aria-label": "Policy" }, h("header", {}, h("h2", {}, "Policy, and where each value comes from")), grid.node));
  get(`${where}/policy`).then((read) => grid.show(read.items), (error) => fill(content, h("p", { class: "notice warn" }, error.message)));
  return {};
}
