"""Definitions: out and in again."""

from __future__ import annotations

import time

from covey.core.naming.destination import Destination, Kind
from covey.core.selector import compile_selector
from tests.protocols.http.support import World

PATH = "/api/v1/definitions"
GROUPED = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


def declared() -> World:
    world = World()
    world.ask("PUT", "/api/v1/queues/a%2Fb", json={"arguments": GROUPED})
    world.ask("PUT", "/api/v1/queues/plain", json={"arguments": {"qpid.max_count": 5}})
    world.send("only.used")
    topics = (Destination(Kind.TOPIC, "t.*", is_pattern=True), Destination(Kind.TOPIC, "x y"))
    selector = compile_selector("a > 1")
    session = world.session()
    world.broker.make_durable(session, "d%2Fe", topics, selector, time.monotonic())
    world.broker.drop(session, time.monotonic())
    return world


def test_what_is_exported_makes_the_same_again() -> None:
    exported = declared().ask("GET", PATH)
    assert [queue["name"] for queue in exported.json()["queues"]] == ["a%2Fb", "plain"]
    assert "secret" not in exported.text
    other = World()
    done = other.ask("POST", PATH, content=exported.content)
    assert done.status_code == 200, done.text
    assert done.json()["users_left_alone"] == 2
    assert other.get(PATH) == exported.json()
    assert set(other.host.durables) == {"d%2Fe"}


def test_an_import_may_be_repeated_and_changes_what_exists() -> None:
    world = declared()
    document = world.get(PATH)
    assert world.ask("POST", PATH, json=document).status_code == 200
    assert world.get(PATH) == document
    document["queues"][1]["arguments"]["qpid.max_count"] = 9
    world.ask("POST", PATH, json=document)
    assert world.host.queues["plain"].settings.quota_messages == 9


def test_a_refused_entry_is_named() -> None:
    world = World()
    bad = {"subscriptions": [{"name": "d", "destinations": ["/topic/a"], "selector": "a >"}]}
    answer = world.ask("POST", PATH, json=bad)
    assert answer.status_code == 400
    assert answer.json()["text"].startswith("subscription d: selector")
    bad = {"subscriptions": [{"name": "d", "destinations": ["/queue/a"]}]}
    assert "is not one" in world.ask("POST", PATH, json=bad).json()["text"]
    assert world.ask("POST", PATH, json={"version": 2}).status_code == 400
    assert not world.broker.sessions
