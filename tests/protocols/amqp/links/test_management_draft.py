"""$management, as the AMQP management draft has it: what everything has, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.broker.broker import Broker
from covey.core.management.describe import ATTRIBUTES
from tests.protocols.amqp.links.test_management import Manager
from tests.protocols.amqp.peer import make_broker

SELF = {"name": "self", "identity": "self", "type": "org.amqp.management"}
QUEUE: dict[str, Any] = {"type": "covey.queue", "name": "q"}


@pytest.fixture
def broker() -> Broker:
    return make_broker()


@pytest.fixture
def manager(broker: Broker) -> Manager:
    return Manager(broker)


NONE_HERE = ("group", "subscription", "job", "permission", "space", "node")


def refusal(manager: Manager, operation: str, body: Any = None, **properties: Any) -> str:
    """Return the text of an answer that is no, for what was asked."""
    assert manager.ask(operation, body, **properties)[0] == 400
    return manager.told


def test_a_query_without_a_type_shows_everything(broker: Broker, manager: Manager) -> None:
    manager.ask("CREATE", {}, **QUEUE)
    manager.ask("CREATE", {}, type="covey.topic", name="t")
    for asked in ({}, {"entityType": ""}):
        status, table = manager.ask("QUERY", {"attributeNames": []}, **asked)
        assert status == 200
        names = table["attributeNames"]
        rows = [dict(zip(names, row, strict=True)) for row in table["results"]]
        assert {row["type"] for row in rows} == {
            "org.amqp.management",
            *[f"covey.{name}" for name in ATTRIBUTES if name not in NONE_HERE],
        }
        assert table["total"] == len(rows)
        assert len({row["identity"] for row in rows}) == len(rows)


def test_a_query_of_everything_comes_in_pages(manager: Manager) -> None:
    for number in range(5):
        manager.ask("CREATE", {}, type="covey.queue", name=f"q{number}")
    asked = {"attributeNames": ["identity"]}
    whole = manager.ask("QUERY", asked)[1]
    rows: list[Any] = []
    while len(rows) < whole["total"]:
        page = manager.ask("QUERY", asked, offset=len(rows), count=3)[1]
        assert page["total"] == whole["total"] and 0 < len(page["results"]) <= 3
        rows += page["results"]
    assert rows == whole["results"]


def test_everything_has_a_name_an_identity_and_a_type(manager: Manager) -> None:
    made = manager.ask("CREATE", {}, **QUEUE)[1]
    named = {"name": "q", "identity": "covey.queue/q", "type": "covey.queue"}
    assert {name: made[name] for name in named} == named
    asked = {"attributeNames": ["identity", "type"]}
    assert {"identity": "covey.queue/q", "type": "covey.queue"} in manager.query("queue", asked)
    assert manager.ask("READ", identity="covey.queue/q")[1] == made
    assert manager.ask("READ", identity="q", type="queue")[1] == made


def test_the_management_node_can_be_read(manager: Manager) -> None:
    named = {"name": "self", "type": "org.amqp.management"}
    assert manager.ask("READ", **named) == (200, SELF)
    assert manager.query("org.amqp.management") == [SELF]
    shown = manager.ask("GET-ATTRIBUTES", entityType="org.amqp.management")[1]
    assert shown == {"org.amqp.management": ["name", "identity", "type"]}
    assert manager.ask("READ", name="other", type="org.amqp.management")[0] == 404


def test_there_are_no_annotations_and_no_other_nodes(manager: Manager) -> None:
    assert manager.ask("GET-ANNOTATIONS", entityType="queue") == (200, {"covey.queue": []})
    assert manager.ask("GET-MGMT-NODES") == (200, [])
    assert manager.ask("REGISTER")[0] == 501


@pytest.mark.parametrize(
    ("operation", "body", "properties", "text"),
    [
        ("READ", None, {"type": "queue"}, "READ without a name"),
        ("READ", None, {"name": "q"}, "READ without a type"),
        ("PURGE", None, {}, "PURGE without a name"),
        ("READ", None, {"type": "org.apple", "name": "q"}, "there is no type 'org.apple'"),
        ("QUERY", None, {"entityType": "org.x"}, "there is no type 'org.x'"),
        (
            "CREATE",
            {},
            {"type": "org.amqp.management", "name": "x"},
            "an org.amqp.management takes no CREATE",
        ),
        ("QUERY", ["name"], {}, "the body of QUERY is not a map"),
        ("QUERY", "name", {}, "the body of QUERY is not a map"),
        ("QUERY", {"attributeNames": "name"}, {}, "attributeNames is not a list"),
        ("UPDATE", ["x"], QUEUE, "the body of UPDATE is not a map"),
        ("UPDATE", {"name": "q2"}, QUEUE, "the name of q cannot be 'q2'"),
        ("UPDATE", {"type": "covey.topic"}, QUEUE, "the type of q cannot be 'covey.topic'"),
        ("UPDATE", {"identity": "7"}, QUEUE, "the identity of q cannot be '7'"),
        ("CREATE", {"size": 1}, {"type": "topic", "name": "t"}, "a topic has no size"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(
    manager: Manager, operation: str, body: Any, properties: dict[str, Any], text: str
) -> None:
    manager.ask("CREATE", {}, **QUEUE)
    assert refusal(manager, operation, body, **properties) == text


def test_an_unknown_argument_is_refused(manager: Manager) -> None:
    manager.ask("CREATE", {}, **QUEUE)
    assert "nosuch" in refusal(manager, "UPDATE", {"nosuch": 1}, **QUEUE)


def test_what_a_thing_is_called_may_be_said_again(manager: Manager) -> None:
    named = {"name": "q", "type": "covey.queue", "identity": "covey.queue/q"}
    assert manager.ask("CREATE", {"name": "q"}, type="covey.queue")[0] == 201
    assert manager.ask("UPDATE", named, **QUEUE)[0] == 200


def test_an_answer_says_what_its_status_means(manager: Manager) -> None:
    told = []
    for operation, status in (("CREATE", 201), ("READ", 200), ("DELETE", 204)):
        found, _ = manager.ask(operation, {}, **QUEUE)
        assert found == status
        told.append(manager.told)
    assert told == ["Created", "OK", "No Content"]
