// cluster: the brokers that share a database, who serves which virtual host, and how to steer them.
// Without a cluster: the virtual hosts, the workers that serve them, and how to have more.

import { h, fill, push, card, hint, rate, age, clock, plural, to, heading, trouble } from "./dom.js";
import { get, path, post, session } from "./api.js";
import { table, num, words, link, acts } from "./table.js";
import { confirm, form, perform, toast } from "./dialogs.js";

const CLUSTER = '[store]\nkind = "postgres"\ndsn = "host=db1,db2 dbname=covey user=covey target_session_attrs=read-write"\n\n[cluster]\nforward = "broker-a:61700"';

/** Ask for something now, and every so many milliseconds while the page is seen. */
function renew(where, every, wrong, show) {
  const load = () => get(where).then((read) => { fill(wrong); show(read); }, (error) => { if (error.status !== 401) fill(wrong, error.message); });
  const timer = setInterval(() => { if (!document.hidden) load(); }, every);
  load();
  return { close: () => clearInterval(timer) };
}

const badge = (look, text) => h("span", { class: `badge ${look}` }, text);
const owner = (name) => name ?? badge("bad", "nobody");
/** The overview of a virtual host; the first one has no name in addresses. */
function hostLink(id) {
  const at = session.hosts.findIndex((host) => host.id === id);
  return at > 0 ? `#/@${encodeURIComponent(session.hosts[at].name)}/` : "#/";
}

const hostsTable = () => table({ label: "Virtual hosts", key: (row) => row.id, columns: [
  link("Virtual host", "id", (row) => hostLink(row.id)),
  { label: session.is_clustered ? "Broker" : "Worker", optional: true, isHidden: () => !session.is_clustered && session.workers < 2, told: (row) => String(row.served_by), node: (row) => owner(row.served_by) },
  num("Queues", "queues"), num("Messages", "messages"), num("Held", "unsettled"), num("In /s", "enqueued", rate), num("Out /s", "delivered", rate), num("Connections", "connections"),
] });

const nodesTable = (...more) => table({ label: "Brokers", key: (row) => row.node, columns: [
  words("Broker", "node", "name"), words("Address", "address"), words("Version", "version"),
  { label: "State", told: (row) => String(row.draining), node: (row) => (row.draining ? badge("warn", "drains") : badge("good", "serves")) },
  ...["Virtual hosts", "Messages", "Connections"].map((label, at) => ({ label, kind: "num", show: (row) => row.load[["spaces", "messages", "connections"][at]] })),
  num("Up for", "up_s", age), { label: "Configuration", kind: "mono", show: (row) => row.config_digest.slice(0, 8) }, ...more,
] });

/** What is wrong with a cluster, in words. */
function troubles({ spaces, nodes }) {
  const differs = (name) => new Set(nodes.map((node) => node[name])).size > 1;
  const free = spaces.filter((space) => !space.owner).map((space) => space.space);
  return [
    free.length ? `Nobody serves ${free.join(", ")}: its clients wait.` : "",
    nodes.length < 2 ? "This broker is alone: if it dies, nobody takes over." : "",
    differs("config_digest") ? "The configurations differ: files are to be the same but for node, addresses, certificates and directories." : "",
    differs("version") ? "The versions differ: an upgrade is under way, or was left half done." : "",
  ].filter(Boolean);
}

function nodesPage(main) {
  let nodes = [];
  let told = "";
  const notices = h("div", { class: "notices", role: "status" });
  const wrong = trouble();
  const hosts = table({ label: "Virtual hosts", key: (row) => row.space, columns: [
    link("Virtual host", "space", (row) => hostLink(row.space)),
    { label: "Broker", told: (row) => `${row.owner} ${row.moves_to}`, node: (row) => [owner(row.owner), row.moves_to && row.moves_to !== row.owner && [" ", badge("warn", `moves to ${row.moves_to}`)]] },
    num("Epoch", "epoch"),
    { label: "Since", kind: "num", show: (row) => (row.since ? clock(Date.parse(row.since) / 1000) : "") },
    num("Lease left", "lease_left_s", age), num("Messages", "messages"), num("Connections", "connections"),
    acts((row) => nodes.length > 1 && push("Move", () => move(row), "small"), (row) => `${row.owner} ${nodes.length}`),
  ] });
  const brokers = nodesTable(acts((row) => (row.draining ? push("Let it serve", () => perform(() => drained(row, false), `Broker ${row.node} may serve again.`), "small")
    : nodes.length > 1 && push("Drain", () => drain(row), "small danger")), (row) => `${row.draining} ${nodes.length}`));
  const move = (row) => form({ title: `Move ${row.space}?`, button: `Move ${row.space}`, text: `Another broker serves it from then on, until that one dies. ${plural(row.connections ?? 0, "connection")} will end, and the clients connect again.`,
    fields: [{ name: "node", label: "To broker", options: nodes.filter((node) => node.node !== row.owner && !node.draining).map((node) => node.node) }],
    act: async (given) => { await post(`/cluster/spaces${path(row.space)}/move`, given); toast(`${row.space} moves to ${given.node}.`); } });
  const drained = (row, draining) => post(`/cluster/nodes${path(row.node)}/drain`, { draining });
  const drain = (row) => confirm({ title: `Drain ${row.node}?`, text: `Broker ${row.node} gives away ${plural(row.load.spaces, "virtual host")} and takes none until it is started again, or let serve. ${plural(row.load.connections, "connection")} will end, and the clients connect again.`, button: `Drain ${row.node}`, act: () => drained(row, true), done: `Broker ${row.node} drains.` });
  fill(main, heading("Cluster"), notices, card("Virtual hosts", null, hosts.node, wrong), card("Brokers", null, brokers.node));
  return renew("/cluster", 2000, wrong, (read) => {
    nodes = read.nodes;
    const found = troubles(read);
    if (String(found) !== told) fill(notices, found.map((text) => h("p", { class: "notice warn" }, text)));
    told = String(found);
    hosts.show(read.spaces);
    brokers.show(nodes);
  });
}

function alonePage(main) {
  const hosts = hostsTable();
  const wrong = trouble();
  fill(main, heading("Cluster", badge("", session.workers > 1 ? plural(session.workers, "worker") : "one process")),
    card("Virtual hosts", null, hosts.node, wrong),
    h("div", { class: "grid" },
      card("More cores", null, hint("A virtual host is served by one process. Several processes share the virtual hosts of one set of ports:", "covey serve --workers 4")),
      card("More machines", null, hint("This broker is no part of a cluster. Brokers that share a PostgreSQL take over for each other (docs/cluster.md):", CLUSTER))));
  return renew("/hosts", 2000, wrong, (read) => hosts.show(read.items));
}

export default (main) => (session.is_clustered ? nodesPage : alonePage)(main);

/** What an overview shows of it: all virtual hosts, and the brokers if there are several. */
export function summary(place) {
  const [hosts, brokers, wrong] = [hostsTable(), nodesTable(), trouble()];
  fill(place, card("Virtual hosts", h("a", { href: to("cluster") }, "cluster"), hosts.node, wrong), session.is_clustered && card("Brokers", null, brokers.node));
  const parts = [renew("/hosts", 5000, wrong, (read) => hosts.show(read.items)), session.is_clustered && renew("/cluster", 5000, wrong, (read) => brokers.show(read.nodes))];
  return () => parts.forEach((one) => one && one.close());
}
