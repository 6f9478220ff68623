// cluster: which broker serves which virtual host, and ways to move one or to drain a broker.

import { h, fill, count, age } from "./dom.js";
import { get, post, path } from "./api.js";
import { form, perform } from "./dialogs.js";
import { table } from "./table.js";

const EVERY_MS = 1000; // as often as a broker looks itself

export default function cluster(main) {
  let nodes = [];
  const error = h("p", { class: "soft", role: "alert" });
  const spaces = table({
    label: "Virtual hosts", key: (row) => row.space, empty: () => [h("p", {}, "There is no virtual host.")],
    columns: [
      { label: "Virtual host", kind: "name", show: (row) => row.space },
      { label: "Served by", told: (row) => row.owner ?? "", node: (row) => row.owner ?? h("span", { class: "badge bad" }, "nobody") },
      { label: "For", kind: "num", show: (row) => (row.owner && row.since ? age(Date.now() / 1000 - Date.parse(row.since) / 1000) : "") },
      { label: "Lease left", kind: "num", show: (row) => (row.owner ? age(row.lease_left_s) : "") },
      { label: "Owners so far", kind: "num", show: (row) => count(row.epoch) },
      { label: "Messages", kind: "num", show: (row) => (row.messages === null ? "" : count(row.messages)) },
      { label: "Connections", kind: "num", show: (row) => (row.connections === null ? "" : count(row.connections)) },
      { label: "", kind: "acts", told: (row) => row.space, node: (row) => h("button", { class: "small", onclick: () => move(row) }, "Move") },
    ],
  });
  const brokers = table({
    label: "Brokers", key: (row) => row.node, empty: () => [h("p", {}, "No broker is alive.")],
    columns: [
      { label: "Broker", kind: "name", show: (row) => row.node },
      { label: "State", told: (row) => String(row.draining), node: (row) => (row.draining ? h("span", { class: "badge warn" }, "drains") : "serves") },
      { label: "Address for others", show: (row) => row.address },
      { label: "Version", show: (row) => row.version },
      { label: "Configuration", told: (row) => row.config_digest + isOdd(row), node: (row) => (isOdd(row) ? h("span", { class: "badge warn" }, `${row.config_digest} differs`) : row.config_digest) },
      { label: "", kind: "acts", told: (row) => row.node + row.draining, node: (row) => h("button", { class: "small", onclick: () => drain(row) }, row.draining ? "Let it serve" : "Drain") },
    ],
  });
  const isOdd = (row) => row.config_digest !== nodes[0]?.config_digest;
  fill(main, h("div", { class: "title" }, h("h1", {}, "Cluster")),
    h("section", { class: "card", "aria-label": "Virtual hosts" }, spaces.node, error),
    h("section", { class: "card", "aria-label": "Brokers" }, brokers.node));

  async function load() {
    try {
      const read = await get("/cluster");
      nodes = read.nodes;
      fill(error);
      spaces.show(read.spaces);
      brokers.show(nodes);
    } catch (trouble) { if (trouble.status !== 401) fill(error, trouble.message); }
  }
  const move = (row) => form({
    title: `Move ${row.space}`, text: "Its clients are told, and connect again.", button: "Move",
    fields: [{ name: "node", label: "To", options: nodes.map((one) => one.node).filter((one) => one !== row.owner) }],
    act: async ({ node }) => { await post(`/cluster/spaces${path(row.space)}/move`, { node }); load(); },
  });
  const drain = (row) => perform(
    async () => { await post(`/cluster/nodes${path(row.node)}/drain`, { draining: !row.draining }); load(); },
    row.draining ? `${row.node} may serve again.` : `${row.node} gives away what it serves.`,
  );
  load();
  const timer = setInterval(() => { if (!document.hidden) load(); }, EVERY_MS);
  return { close() { clearInterval(timer); } };
}
