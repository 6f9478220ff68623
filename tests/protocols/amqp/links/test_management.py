"""$management: requests and answers over AMQP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from proton import Delivery, Message, ulong

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.management.describe import ATTRIBUTES
from tests.core.double import HeldStore
from tests.protocols.amqp.peer import Peer, make_broker

ADMIN = ("admin", "password")
GROUPED = {"qpid.group_header_key": "GROUP_KEY", "qpid.shared_msg_group": 1}


class Manager:
    """A client of the management node."""

    def __init__(self, broker: Broker, login: tuple[str, str] | None = ADMIN) -> None:
        self.peer = Peer(broker, container="manager", login=login)
        self.reply_to = self.peer.receiver(None, dynamic=True).remote_source.address
        self.sender = self.peer.sender("$management")
        self.told = ""  # with the last answer's status

    def ask(
        self, operation: str, body: Any = None, *, id: Any = 1, **properties: Any
    ) -> tuple[int, Any]:
        """Send a request; return status and body of the answer."""
        properties = {"operation": operation, **properties}
        request = Message(body=body, id=id, reply_to=self.reply_to, properties=properties)
        self.peer.send(self.sender, request)
        self.peer.pump()
        delivery, answer = self.peer.messages.pop()
        self.peer.settle(delivery)
        assert answer.correlation_id == id
        assert answer.properties is not None
        self.told = str(answer.properties["statusDescription"])
        return int(answer.properties["statusCode"]), answer.body

    def query(self, entity: str, body: Any = None, **properties: Any) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        status, table = self.ask(
            "QUERY",
            body or {"attributeNames": []},
            name="self",
            type="org.amqp.management",
            entityType=entity,
            **properties,
        )
        assert status == 200
        return [dict(zip(table["attributeNames"], row, strict=True)) for row in table["results"]]


@pytest.fixture
def broker() -> Broker:
    return make_broker()


@pytest.fixture
def manager(broker: Broker) -> Manager:
    return Manager(broker)


def test_a_queue_is_created_read_updated_and_deleted(broker: Broker, manager: Manager) -> None:
    named: dict[str, Any] = {"type": "covey.queue", "name": "MyMsgQueue"}
    status, made = manager.ask("CREATE", {"arguments": GROUPED}, **named)
    assert (status, made["group_header"], made["strategy"]) == (201, "GROUP_KEY", "shared")
    assert manager.ask("READ", **named) == (200, made)
    status, changed = manager.ask("UPDATE", {"arguments": {"qpid.max_count": 9}}, **named)
    assert (status, changed["arguments"]["qpid.max_count"]) == (200, 9)
    assert changed["arguments"]["qpid.group_header_key"] == "GROUP_KEY"
    assert manager.ask("DELETE", **named) == (204, {})
    assert "MyMsgQueue" not in broker.host.queues


def test_an_update_keeps_what_it_does_not_name_and_null_removes_one(manager: Manager) -> None:
    named = {"type": "covey.queue", "name": "q"}
    given = {"covey.full_policy": "block", "qpid.max_count": 5, "covey.nak_limit": 3}
    manager.ask("CREATE", {"arguments": given}, **named)
    changes = {"qpid.max_count": 100, "covey.nak_limit": None}
    _, changed = manager.ask("UPDATE", {"arguments": changes}, **named)
    assert changed["arguments"] == {"covey.full_policy": "block", "qpid.max_count": 100}


def test_an_answer_leaves_while_producers_wait_for_memory(broker: Broker, manager: Manager) -> None:
    broker.commits.overload.weigh(2, 1)
    assert manager.ask("READ", type="broker", name="default")[0] == 200


def test_a_query_shows_rows_by_offset_and_count(manager: Manager) -> None:
    for number in range(5):
        manager.ask("CREATE", {}, type="queue", name=f"q{number}")
    rows = manager.query("covey.queue", {"attributeNames": ["name", "messages", "nosuch"]})
    names = [row["name"] for row in rows if not row["name"].startswith("temp.")]
    assert names == [f"q{number}" for number in range(5)]
    assert rows[-1]["nosuch"] is None
    paged = manager.query("queue", {"attributeNames": ["name"]}, offset=2, count=2)
    assert paged == [{"name": row["name"]} for row in rows[2:4]]


@pytest.mark.parametrize("entity", ["broker", "queue", "connection", "consumer"])
def test_a_query_without_names_shows_every_attribute(manager: Manager, entity: str) -> None:
    rows = manager.query(entity)
    assert sorted(rows[0]) == sorted((*ATTRIBUTES[entity], "identity"))


def test_types_attributes_and_operations_are_shown(manager: Manager) -> None:
    types = {"org.amqp.management", *[f"covey.{name}" for name in ATTRIBUTES]}
    assert set(manager.ask("GET-TYPES")[1]) == types
    status, shown = manager.ask("get-attributes", entityType="covey.queue")
    assert status == 200 and list(shown) == ["covey.queue"]
    assert shown["covey.queue"][:3] == ["name", "identity", "type"]
    assert set(shown["covey.queue"]) == {*ATTRIBUTES["queue"], "identity"}
    operations = manager.ask("GET-OPERATIONS")[1]
    assert "PURGE" in operations["covey.queue"]
    assert "QUERY" in operations["org.amqp.management"]


def test_groups_are_shown_closed_parked_and_rebalanced(broker: Broker, manager: Manager) -> None:
    client = Peer(broker)
    sender = client.sender("q")
    client.send(sender, Message(body="1", group_id="a"))
    (group,) = manager.query("group")
    assert (group["name"], group["messages"]) == ("q/a", 1)
    assert manager.ask("CLOSE-GROUP", {"group": "a"}, name="q") == (200, {"closed": True})
    assert manager.ask("PARK", {"group": "a"}, name="q") == (200, {"parked": True})
    client.receiver("q")
    assert client.bodies() == []
    assert manager.ask("UNPARK", name="q", group="a") == (200, {"parked": False})
    client.pump()
    assert client.bodies() == ["1"]
    assert manager.ask("REBALANCE", name="q") == (200, {"moved": 0})
    assert manager.ask("RETIRE", name="q/1", type="consumer") == (200, {})
    assert manager.ask("PARK", {"group": "z"}, name="none")[0] == 404


def test_a_purge_says_how_many_went(broker: Broker, manager: Manager) -> None:
    client = Peer(broker)
    sender = client.sender("q")
    for _ in range(3):
        client.send(sender, "1")
    assert manager.ask("PURGE", type="queue", name="q") == (200, {"purged": 3})


def test_requests_are_answered_while_a_message_of_the_same_connection_waits_for_room() -> None:
    manager = Manager(make_broker(queue=({"id": "q", "quota_messages": 1},)))
    sender = manager.peer.sender("q")
    sent = [manager.peer.send(sender, str(number)) for number in range(2)]
    assert sent[1].remote_state == 0
    assert manager.ask("PURGE", type="queue", name="q") == (200, {"purged": 1})
    assert sent[1].remote_state == Delivery.ACCEPTED


def test_a_trace_tells_what_happened_since_the_last_event_known(
    broker: Broker, manager: Manager
) -> None:
    client = Peer(broker)
    sender = client.sender("q")
    manager.ask("CREATE", {}, type="queue", name="q")
    nothing = {"events": [], "last": 0, "missed": 0}
    assert manager.ask("TRACE", type="queue", name="q") == (200, nothing)
    for group in "ab":
        client.send(sender, Message(body="1", group_id=group))
    told = manager.ask("TRACE", type="queue", name="q", after=1)[1]
    (event,) = told["events"]
    assert (event["event"], event["seq"], event["group"], told["last"]) == ("enqueue", 2, "b", 2)
    assert manager.ask("TRACE", type="queue", name="q", after=-1)[0] == 400
    assert manager.ask("TRACE", type="queue", name="none")[0] == 404


def test_a_connection_is_closed_on_demand(broker: Broker, manager: Manager) -> None:
    client = Peer(broker, container="victim")
    (row,) = [row for row in manager.query("connection") if row["client_id"] == "victim"]
    assert manager.ask("DELETE", type="connection", name=row["name"])[0] == 204
    client.pump()
    assert client.conditions == ["amqp:connection:forced"]


@pytest.mark.parametrize(
    ("operation", "properties", "status"),
    [
        ("DANCE", {}, 501),
        ("", {}, 501),
        ("READ", {"type": "queue", "name": "nosuch"}, 404),
        ("READ", {"type": "planet", "name": "x"}, 400),
        ("QUERY", {"entityType": "planet"}, 400),
        ("QUERY", {"entityType": "queue", "offset": -1}, 400),
        ("GET-TYPES", {"entityType": "planet"}, 404),
        ("CREATE", {"type": "queue"}, 400),
        ("CREATE", {"type": "connection", "name": "x"}, 400),
        ("PURGE", {"name": "nosuch"}, 404),
        ("RETIRE", {"name": "nosuch"}, 400),
        ("UPDATE", {"type": "topic", "name": "x"}, 400),
    ],
)
def test_what_cannot_be_done_has_its_status(
    manager: Manager, operation: str, properties: dict[str, Any], status: int
) -> None:
    assert manager.ask(operation, **properties)[0] == status


def test_what_exists_is_a_conflict(manager: Manager) -> None:
    manager.ask("CREATE", {}, type="queue", name="q")
    assert manager.ask("CREATE", {}, type="queue", name="q")[0] == 409
    assert manager.ask("CREATE", {"qpid.nosuch": 1}, type="queue", name="r")[0] == 400


def test_a_careful_delete_is_a_conflict_on_a_queue_with_messages(
    broker: Broker, manager: Manager
) -> None:
    client = Peer(broker)
    client.send(client.sender("q"), "1")
    assert manager.ask("DELETE", {"if_empty": True}, type="queue", name="q")[0] == 409
    assert manager.ask("DELETE", type="queue", name="q")[0] == 204


def test_a_query_shows_the_groups_and_consumers_of_one_queue(
    broker: Broker, manager: Manager
) -> None:
    client = Peer(broker)
    for name in ("a", "b"):
        manager.ask("CREATE", {"arguments": GROUPED}, type="queue", name=name)
        sender = client.sender(name)
        for group in ("1", "2"):
            client.send(sender, Message("x", properties={"GROUP_KEY": group}))
    rows = manager.query("group", queue="b")
    assert [row["name"] for row in rows] == ["b/1", "b/2"]
    manager.ask("PARK", type="queue", name="b", group="2")
    client.receiver("b", credit=2)
    client.pump()
    assert [row["name"] for row in manager.query("group", queue="b", waiting=True)] == ["b/2"]
    assert len(manager.query("group", waiting=True)) == 3
    assert [row["source"] for row in manager.query("consumer", queue="b")] == ["b"]
    assert manager.ask("QUERY", {}, entityType="group", queue="nosuch")[0] == 404
    assert manager.ask("QUERY", {}, entityType="topic", queue="b")[0] == 400


def test_nobody_but_an_operator_manages(broker: Broker) -> None:
    guest = Manager(broker, login=None)
    assert guest.ask("QUERY", {"attributeNames": []}, entityType="queue")[0] == 403
    assert guest.ask("CREATE", {}, type="queue", name="q")[0] == 403


@pytest.mark.parametrize("id", [ulong(7), "text", UUID(int=5)])
def test_an_answer_carries_the_requests_id_in_its_own_type(manager: Manager, id: Any) -> None:
    assert manager.ask("GET-TYPES", id=id)[0] == 200


def test_a_request_without_a_reply_to_is_done_in_silence(broker: Broker, manager: Manager) -> None:
    properties = {"operation": "CREATE", "type": "queue", "name": "q"}
    delivery = manager.peer.send(manager.sender, Message(body={}, properties=properties))
    assert delivery.remote_state == delivery.ACCEPTED
    assert "q" in broker.host.queues


@pytest.mark.parametrize(("target", "reply_to"), [("answers", "answers"), (None, "mine")])
def test_a_link_from_the_management_node_gets_the_answers_to_its_own_name(
    broker: Broker, target: str | None, reply_to: str
) -> None:
    peer = Peer(broker, container="manager", login=ADMIN)
    link = peer.session.receiver("mine")
    link.source.address = "$management"
    if target is not None:
        link.target.address = target
    link.open()
    link.flow(10)
    peer.pump()
    assert (link.remote_source.address, peer.conditions) == ("$management", [])
    sender = peer.sender("$management")
    properties = {"operation": "GET-TYPES"}
    peer.send(sender, Message(id=ulong(7), reply_to=reply_to, properties=properties))
    peer.pump()
    (answer,) = [message for _, message in peer.messages]
    assert answer.correlation_id == 7
    assert answer.properties == {"statusCode": 200, "statusDescription": "OK"}
    link.close()
    peer.pump()
    assert not broker.host.queues


def test_two_links_from_the_management_node_have_names_of_their_own(broker: Broker) -> None:
    peer = Peer(broker)
    for name in ("a", "b"):
        link = peer.session.receiver(name)
        link.source.address = "$management"
        link.target.address = "answers"
        link.open()
        peer.pump()
    assert peer.conditions == ["amqp:not-allowed"]


def test_a_request_by_the_anonymous_relay_is_answered(broker: Broker, manager: Manager) -> None:
    relay = manager.peer.sender(None, name="relay")
    properties = {"operation": "CREATE", "type": "queue", "name": "q"}
    request = Message(
        address="$management", body={}, id=3, reply_to=manager.reply_to, properties=properties
    )
    delivery = manager.peer.send(relay, request)
    manager.peer.pump()
    assert delivery.remote_state == delivery.ACCEPTED
    (answer,) = [message for _, message in manager.peer.messages]
    body: Any = answer.body
    assert (answer.correlation_id, body["name"]) == (3, "q")
    assert list(broker.host.queues)[-1] == "q"


def test_a_long_table_comes_in_pages(manager: Manager) -> None:
    manager.peer.engine.management.values_max = 9
    for number in range(4):
        manager.ask("CREATE", {}, type="queue", name=f"q{number}")
    rows: list[Any] = []
    total = 99
    while len(rows) < total:
        asked = {"attributeNames": ["name", "type"]}
        _, table = manager.ask("QUERY", asked, entityType="queue", offset=len(rows))
        assert 0 < len(table["results"]) <= 3
        rows += table["results"]
        total = table["total"]
    assert [name for name, _ in rows if name.startswith("q")] == ["q0", "q1", "q2", "q3"]


def test_a_change_is_answered_when_it_is_on_disk_and_a_question_at_once() -> None:
    store = HeldStore()
    broker = Broker(Settings(), store)
    manager = Manager(broker)
    store.write()
    properties = {"operation": "CREATE", "type": "covey.queue", "name": "q"}
    request = Message(body={}, id=1, reply_to=manager.reply_to, properties=properties)
    manager.peer.send(manager.sender, request)
    assert manager.peer.messages == []
    assert [row["name"] for row in manager.query("queue", id=2) if row["name"] == "q"] == ["q"]
    store.write()
    manager.peer.pump()
    ((_, answer),) = manager.peer.messages
    assert answer.properties is not None
    assert (answer.correlation_id, answer.properties["statusCode"]) == (1, 201)
