"""Operator actions: every operation that changes something is one line of the log, every way in."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from covey.config.queues import QueueSettings
from covey.core.events.audit import FAILED
from covey.core.management.overlay import overlay_of
from covey.protocols.amqp.links.management import ENTITY_OPERATIONS, Management
from covey.protocols.http.routes import API, ROUTES
from covey.protocols.http.routing import Need
from tests.doubles import Endless, Listener
from tests.e2e.support import BrokerProcess, running_broker
from tests.e2e.ways import JOE, Line, Ways
from tests.protocols.amqp.peer import Peer
from tests.protocols.http.support import ADMIN

ASKING: Final = ("TYPES", "ATTRIBUTES", "OPERATIONS", "ANNOTATIONS", "MGMT-NODES")
LOOKING: Final = ("PEEK-GROUP", "SHOW-MESSAGES")
READING: Final = {"EXPORT", "QUERY", "READ", "TRACE", *LOOKING, *(f"GET-{what}" for what in ASKING)}
HTTP_REMOTE: Final = "127.0.0.1:5000"
DEFINED: Final = {
    "version": 1,
    "queues": [{"name": "new", "arguments": {}}, {"name": "q", "arguments": {}}],
    "subscriptions": [{"name": "d2", "destinations": ["/topic/t"], "selector": ""}],
}


@dataclass(frozen=True)
class Told:
    """What a line says of an action: what was done to which thing, at which cost."""

    action: str
    kind: str
    name: str
    count: int | None = None

    def line(self, protocol: str, user: str = "admin") -> Line:
        found: Line = {
            "event": "operator_action",
            "level": "info",
            "user": user,
            "protocol": protocol,
            "action": self.action,
            "kind": self.kind,
            "host": "default",
            "name": self.name,
            "result": "ok",
            "count": self.count,
        }
        return {key: value for key, value in found.items() if value not in ("", None)}


# A method and path of the API, and what its line says; `{consumer}` is filled in.
HTTP: Final[dict[tuple[str, str], Told]] = {
    ("PUT", "/queues/new"): Told("declare", "queue", "new"),
    ("PATCH", "/queues/q"): Told("change", "queue", "q"),
    ("DELETE", "/queues/q"): Told("delete", "queue", "q", 2),
    ("POST", "/queues/q/purge"): Told("purge", "queue", "q", 2),
    ("POST", "/queues/q/pause"): Told("pause", "queue", "q"),
    ("POST", "/queues/q/resume"): Told("resume", "queue", "q"),
    ("POST", "/queues/q/rebalance"): Told("rebalance", "queue", "q"),
    ("POST", "/queues/q/consumers/{consumer}/retire"): Told("retire", "consumer", "q/{consumer}"),
    ("POST", "/queues/q/groups/g/close"): Told("close", "group", "q/g"),
    ("POST", "/queues/q/groups/g/park"): Told("park", "group", "q/g"),
    ("POST", "/queues/q/groups/g/unpark"): Told("unpark", "group", "q/g"),
    ("POST", "/queues/q/groups/g/move"): Told("move", "group", "q/g", 2),
    ("POST", "/queues/q/groups/g/purge"): Told("purge", "group", "q/g", 2),
    ("POST", "/queues/q/groups/g/dead-letter"): Told("dead-letter", "group", "q/g", 2),
    ("POST", "/queues/q/groups/g/retry"): Told("retry", "group", "q/g", 0),
    ("POST", "/queues/q/retry"): Told("retry", "queue", "q", 0),
    ("POST", "/queues/q/messages/move"): Told("move", "queue", "q", 1),
    ("POST", "/queues/q/messages/delete"): Told("purge", "queue", "q", 1),
    ("POST", "/queues/q/messages/dead-letter"): Told("dead-letter", "queue", "q", 1),
    ("POST", "/queues/q/messages/retry"): Told("retry", "queue", "q", 0),
    ("PUT", "/topics/new"): Told("declare", "topic", "new"),
    ("DELETE", "/topics/t"): Told("delete", "topic", "t"),
    ("DELETE", "/subscriptions/d"): Told("delete", "subscription", "d", 0),
    ("DELETE", "/connections/{connection}"): Told("close", "connection", "{connection}"),
    ("DELETE", "/jobs/1"): Told("stop", "job", "1"),
    ("PUT", "/users/u"): Told("change", "user", "u"),
    ("DELETE", "/users/u"): Told("delete", "user", "u"),
    ("PUT", "/permissions/p"): Told("change", "permission", "p"),
    ("DELETE", "/permissions/p"): Told("delete", "permission", "p"),
    ("PUT", "/policies/x"): Told("change", "policy", "x"),
    ("DELETE", "/policies/x"): Told("delete", "policy", "x"),
    ("DELETE", "/sessions/{session}"): Told("close", "session", "{session}"),
    ("POST", "/definitions"): Told("import", "broker", ""),
}
# The server itself puts these on record: tests/protocols/http/console and the signal's test below.
BY_THE_SERVER: Final = {f"{API}/configuration/reload"}
# What only a broker of a cluster can do, asked of one that is in none.
IN_A_CLUSTER: Final[dict[str, tuple[str, dict[str, object], str]]] = {
    f"{API}/cluster/spaces/{{name}}/move": ("/cluster/spaces/s/move", {"node": "b"}, "space"),
    f"{API}/cluster/nodes/{{name}}/drain": ("/cluster/nodes/b/drain", {}, "node"),
}
BODIES: Final[dict[str, object]] = {
    "/queues/new": {"arguments": {}},
    "/queues/q": {"arguments": {}},
    "/queues/q/groups/g/move": {"to": "elsewhere"},
    "/queues/q/messages/move": {"seqs": [1], "to": "elsewhere"},
    "/queues/q/messages/delete": {"seqs": [1]},
    "/queues/q/messages/dead-letter": {"seqs": [1]},
    "/queues/q/messages/retry": {"seqs": [1]},
    "/users/u": {"roles": ["r"]},
    "/permissions/p": {"who": ["x"], "may": ["send"]},
    "/policies/x": {"settings": {"quota_messages": 1}},
}

RUN_TIME: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "user": ("u", {"password": "a"}),
    "permission": ("p", {"who": ["x"], "may": ["send"]}),
    "policy": ("x", {"quota_messages": 2}),
}
NEW: Final[dict[str, dict[str, object]]] = {
    "user": {"password": "b"},
    "permission": {"who": ["x"], "may": ["send"]},
    "policy": {"quota_messages": 3},
}

# A type and operation of `$management`, what is asked for, and what its line says.
MANAGED: Final[dict[tuple[str, str], tuple[dict[str, str], Told]]] = {
    ("broker", "IMPORT"): ({"document": "{}"}, Told("import", "broker", "")),
    ("queue", "CREATE"): ({"name": "new"}, Told("declare", "queue", "new")),
    ("queue", "UPDATE"): ({"name": "/queue/q"}, Told("change", "queue", "q")),
    ("queue", "DELETE"): ({"name": "q"}, Told("delete", "queue", "q", 2)),
    ("queue", "PURGE"): ({"name": "queue://q"}, Told("purge", "queue", "q", 2)),
    ("queue", "PAUSE"): ({"name": "q", "way": "in"}, Told("pause", "queue", "q")),
    ("queue", "RESUME"): ({"name": "/queue/q"}, Told("resume", "queue", "q")),
    ("queue", "REBALANCE"): ({"name": "q"}, Told("rebalance", "queue", "q")),
    ("queue", "CLOSE-GROUP"): ({"name": "q", "group": "g"}, Told("close", "group", "q/g")),
    ("queue", "PARK"): ({"name": "q", "group": "g"}, Told("park", "group", "q/g")),
    ("queue", "UNPARK"): ({"name": "q", "group": "g"}, Told("unpark", "group", "q/g")),
    ("queue", "MOVE-GROUP"): (
        {"name": "q", "group": "g", "to": "elsewhere"},
        Told("move", "group", "q/g", 2),
    ),
    ("queue", "PURGE-GROUP"): ({"name": "q", "group": "g"}, Told("purge", "group", "q/g", 2)),
    ("queue", "DEAD-LETTER-GROUP"): (
        {"name": "q", "group": "g"},
        Told("dead-letter", "group", "q/g", 2),
    ),
    ("queue", "MOVE-MESSAGES"): (
        {"name": "q", "to": "elsewhere"},
        Told("move", "queue", "q", 1),
    ),
    ("queue", "DELETE-MESSAGES"): ({"name": "q"}, Told("purge", "queue", "q", 1)),
    ("queue", "DEAD-LETTER-MESSAGES"): ({"name": "q"}, Told("dead-letter", "queue", "q", 1)),
    ("queue", "RETRY"): ({"name": "q"}, Told("retry", "queue", "q", 0)),
    ("topic", "CREATE"): ({"name": "new"}, Told("declare", "topic", "new")),
    ("topic", "DELETE"): ({"name": "t"}, Told("delete", "topic", "t")),
    ("subscription", "DELETE"): ({"name": "d"}, Told("delete", "subscription", "d", 0)),
    ("job", "DELETE"): ({"name": "1"}, Told("stop", "job", "1")),
    ("user", "CREATE"): ({"name": "new"}, Told("declare", "user", "new")),
    ("user", "UPDATE"): ({"name": "u"}, Told("change", "user", "u")),
    ("user", "DELETE"): ({"name": "u"}, Told("delete", "user", "u")),
    ("permission", "CREATE"): ({"name": "new"}, Told("declare", "permission", "new")),
    ("permission", "UPDATE"): ({"name": "p"}, Told("change", "permission", "p")),
    ("permission", "DELETE"): ({"name": "p"}, Told("delete", "permission", "p")),
    ("policy", "CREATE"): ({"name": "new"}, Told("declare", "policy", "new")),
    ("policy", "UPDATE"): ({"name": "x"}, Told("change", "policy", "x")),
    ("policy", "DELETE"): ({"name": "x"}, Told("delete", "policy", "x")),
    ("connection", "DELETE"): (
        {"name": "{connection}"},
        Told("close", "connection", "{connection}"),
    ),
    ("consumer", "RETIRE"): (
        {"name": "q/{consumer}"},
        Told("retire", "consumer", "q/{consumer}"),
    ),
}


class World:
    """A broker with one of everything that can be changed."""

    def __init__(self) -> None:
        self.ways = Ways()
        host = self.ways.host
        for kind, (name, fields) in RUN_TIME.items():
            overlay_of(self.ways.broker).put(kind, name, fields, time.monotonic())
        for _ in range(2):
            self.ways.http.send("q", "g")
        host.queues["q"].apply(QueueSettings(dlq="dead"))
        host.topic("t")
        host.make_durable("d")
        self.session = self.ways.http.read("q", credit=0)
        self.session.client = Listener()
        self.ways.http.broker.jobs.begin(Endless())
        (consumer,) = host.queues["q"].state.consumers
        self.names = {"consumer": str(consumer), "connection": str(self.session.id)}
        admin = self.ways.broker.users.known("admin")
        assert admin is not None
        sessions = self.ways.http.app.console.sessions
        sessions.begin(admin, time.monotonic())
        (signed_in,) = sessions.describe(time.monotonic())
        self.names["session"] = str(signed_in["name"])

    def filled(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def told(self, told: Told) -> Told:
        return Told(told.action, told.kind, self.filled(told.name), told.count)

    def lines(self) -> list[Line]:
        """Return the lines about actions, without what differs from one connection to another."""
        return [
            {key: value for key, value in line.items() if key != "remote"}
            for line in self.ways.of("operator_action")
        ]

    def ask(self, method: str, path: str, login: tuple[str, str] = ADMIN) -> int:
        given: dict[str, Any] = {}
        if path == "/definitions":
            given["json"] = DEFINED
        elif method != "DELETE" and path in BODIES:
            given["json"] = BODIES[path]
        return self.ways.ask(method, self.filled(path), login, **given)

    def manage(self, row: tuple[str, str], login: tuple[str, str] = ADMIN) -> int:
        kind, operation = row
        properties = {key: self.filled(value) for key, value in MANAGED[row][0].items()}
        body: dict[str, object] = {"seqs": [1]} if operation.endswith("-MESSAGES") else {}
        if kind in NEW and operation != "DELETE":
            body = {"arguments": NEW[kind]}
        return self.ways.manage(operation, body, login, type=f"covey.{kind}", **properties)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("row", HTTP, ids=" ".join)
def test_what_is_changed_over_http_is_one_line(world: World, row: tuple[str, str]) -> None:
    assert world.ask(*row) < 300
    told = world.told(HTTP[row])
    lines = [line for line in world.lines() if line["action"] == told.action]
    assert lines == [told.line("http")]
    assert {line["remote"] for line in world.ways.of("operator_action")} == {HTTP_REMOTE}


def test_an_import_is_told_with_all_that_it_made_and_changed(world: World) -> None:
    assert world.ask("POST", "/definitions") == 200
    expected = (
        Told("declare", "queue", "new"),
        Told("change", "queue", "q"),
        Told("declare", "subscription", "d2"),
        Told("import", "broker", ""),
    )
    assert world.lines() == [told.line("http") for told in expected]


@pytest.mark.parametrize("row", MANAGED, ids=" ".join)
def test_what_is_changed_by_management_is_one_line(world: World, row: tuple[str, str]) -> None:
    assert world.manage(row) < 300
    assert world.lines() == [world.told(MANAGED[row][1]).line("amqp 1.0")]


@pytest.mark.parametrize("row", HTTP, ids=" ".join)
def test_what_is_refused_over_http_is_one_line_too(world: World, row: tuple[str, str]) -> None:
    assert world.ask(*row, login=JOE) == 403
    (line,) = world.lines()
    told = world.told(HTTP[row])
    assert (line["user"], line["action"], line["kind"]) == ("joe", told.action, told.kind)
    assert (line.get("name", ""), line["result"], line["level"]) == (
        told.name,
        "refused",
        "warning",
    )
    assert line["reason"].startswith("user joe may not manage ")


@pytest.mark.parametrize("row", MANAGED, ids=" ".join)
def test_what_is_refused_by_management_is_one_line_too(world: World, row: tuple[str, str]) -> None:
    assert world.manage(row, JOE) == 403
    (line,) = world.lines()
    told = world.told(MANAGED[row][1])
    assert (line["user"], line["action"], line.get("name", "")) == (
        "joe",
        told.action,
        told.name,
    )
    assert (line["result"], line["level"]) == ("refused", "warning")


def test_every_way_to_change_something_has_a_row_here(world: World) -> None:
    changing = [route for route in ROUTES if route.method != "GET" and route.need is Need.MANAGE]
    assert all(route.action for route in changing)
    assert not [route for route in ROUTES if route not in changing and route.action]
    elsewhere = BY_THE_SERVER | set(IN_A_CLUSTER)
    for route in [each for each in changing if each.path not in elsewhere]:
        paths = [path for method, path in HTTP if method == route.method]
        assert any(route.matches((API + path).split("/")) for path in paths), route.path
    in_a_cluster = {(kind, "UPDATE") for _, _, kind in IN_A_CLUSTER.values()}
    assert set(MANAGED) | in_a_cluster == {
        (kind, name) for kind, names in ENTITY_OPERATIONS.items() for name in set(names) - READING
    }
    known = set(Management(world.ways.amqp().engine.nodes.admin).operations)
    assert known == READING | {operation for _, operation in MANAGED}


def test_what_is_not_there_is_refused_with_the_reason(world: World) -> None:
    assert world.ways.ask("POST", "/queues/none/groups/g/park") == 404
    (line,) = world.lines()
    assert (line["result"], line["reason"]) == ("refused", "there is no queue none")


@pytest.mark.parametrize("path", IN_A_CLUSTER)
def test_what_only_a_cluster_can_do_is_refused_elsewhere_and_is_one_line(
    world: World, path: str
) -> None:
    place, body, kind = IN_A_CLUSTER[path]
    assert world.ways.ask("POST", place, json=body) >= 400
    (line,) = world.lines()
    assert (line["action"], line["result"]) == ("change", "refused")
    assert line["kind"] == kind


def test_what_fails_is_told_as_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a fault of the broker's own would: the queue's index is gone.
    monkeypatch.setattr(world.ways.host.queues["q"].state, "index", None)
    assert world.ways.ask("POST", "/queues/q/purge") == 500
    (line,) = world.lines()
    assert (line["result"], line["level"]) == (FAILED, "warning")
    assert line["reason"].startswith("AttributeError: ")


# Ways of clients.


def test_an_address_that_makes_and_deletes_a_queue_is_two_lines(world: World) -> None:
    peer = world.ways.amqp()
    sender = peer.sender("made; {create: always, delete: always}")
    peer.send(sender, "x")
    sender.close()
    peer.pump()
    expected = (Told("declare", "queue", "made"), Told("delete", "queue", "made", 1))
    assert world.lines() == [told.line("amqp 1.0") for told in expected]
    assert {line["remote"] for line in world.ways.of("operator_action")} == {"test"}


def test_a_durable_subscription_that_a_client_ends_is_one_line(world: World) -> None:
    peer = world.ways.amqp()
    link = peer.receiver("/topic/t", name="own", durable=True)
    assert world.lines() == []
    link.close()
    peer.pump()
    assert world.lines() == [Told("delete", "subscription", "peer.own", 0).line("amqp 1.0")]


def test_so_it_is_over_stomp(world: World) -> None:
    said = world.ways.stomp(
        "SUBSCRIBE\nid:s\ndestination:/topic/t\npersistent:true",
        "UNSUBSCRIBE\nid:s\npersistent:true\nreceipt:1",
    )
    assert b"RECEIPT\nreceipt-id:1" in said
    assert world.lines() == [Told("delete", "subscription", "s", 0).line("stomp 1.2")]
    assert world.ways.of("operator_action")[0]["remote"] == "192.0.2.9:7"


def test_what_comes_and_goes_with_its_user_is_no_action(world: World) -> None:
    peer: Peer = world.ways.amqp()
    peer.send(peer.sender("first-use"), "x")
    peer.receiver(None, dynamic=True)
    world.ways.stomp("SUBSCRIBE\nid:s\ndestination:/queue/another", "UNSUBSCRIBE\nid:s")
    peer.lose()
    assert world.lines() == []


# A broker that runs.


def actions(broker: BrokerProcess, count: int) -> list[Line]:
    """Return the lines about actions once there are so many; the test's time limit bounds it."""
    while True:
        found = [line for line in logged(broker) if line["event"] == "operator_action"]
        if len(found) >= count:
            return found
        time.sleep(0.01)


def logged(broker: BrokerProcess) -> list[Line]:
    """Return the whole lines of the log."""
    lines = broker.log.rpartition("\n")[0].splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_a_signal_to_read_the_configuration_is_one_line(tmp_path: Path) -> None:
    with running_broker(tmp_path, config="[broker]\nid = 'one'\n") as broker:
        broker.process.send_signal(signal.SIGHUP)
        (done,) = actions(broker, 1)
        (tmp_path / "covey.toml").write_text("[broker]\nnonsense = 1\n")
        broker.process.send_signal(signal.SIGHUP)
        refused = actions(broker, 2)[1]
        with broker.client() as client:
            client.sync()
        logins = [line for line in logged(broker) if line["event"] == "logged_in"]
        assert [line["user"] for line in logins] == ["admin"]
        assert "connection_opened" not in broker.log
    assert (done["user"], done["protocol"], done["action"]) == ("SIGHUP", "signal", "reload")
    assert (done["kind"], done["name"], done["result"]) == ("broker", "one", "ok")
    assert refused["result"] == "refused"
    assert "nonsense" in refused["reason"]
