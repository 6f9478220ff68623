"""Listing: search, order and pages, by everybody who may see some of it."""

from __future__ import annotations

import time

import pytest

from covey.core.naming.destination import Destination, Kind
from tests.protocols.http.support import USERS, World, make_settings


@pytest.fixture
def world() -> World:
    world = World()
    for name, count in (("b.one", 1), ("a.two", 3), ("c.ONE", 2)):
        for number in range(count):
            world.send(name, f"g{number}")
    return world


def names(world: World, query: str, kind: str = "queues") -> list[str]:
    return [row["name"] for row in world.get(f"/api/v1/{kind}?{query}")["items"]]


def test_queues_are_sorted_by_any_of_their_numbers_or_their_names(world: World) -> None:
    assert names(world, "") == ["b.one", "a.two", "c.ONE"]
    assert names(world, "sort=name") == ["a.two", "b.one", "c.ONE"]
    assert names(world, "sort=name&order=desc") == ["c.ONE", "b.one", "a.two"]
    assert names(world, "sort=messages") == ["a.two", "c.ONE", "b.one"]
    assert names(world, "sort=messages&order=asc") == ["b.one", "c.ONE", "a.two"]
    assert names(world, "sort=groups&limit=1") == ["a.two"]


def test_a_search_does_not_look_at_case_and_pages_count_what_was_found(world: World) -> None:
    told = world.get("/api/v1/queues?search=One&sort=name&limit=1&offset=1")
    assert ([row["name"] for row in told["items"]], told["total"]) == (["c.ONE"], 2)


def test_an_order_or_attribute_that_does_not_exist_is_refused(world: World) -> None:
    answer = world.ask("GET", "/api/v1/queues?sort=colour")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert "messages" in answer.json()["text"]
    assert world.ask("GET", "/api/v1/queues?sort=name&order=up").status_code == 400


def test_portions_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.protocols.http.listing.PORTION", 3)
    monkeypatch.setattr("covey.protocols.http.answer.PORTION", 2)
    world = World()
    for number in (5, 3, 9, 1, 7, 2, 8, 0, 6, 4):
        world.host.queue(f"q{number}")
    assert names(world, "sort=name&offset=4&limit=4") == ["q4", "q5", "q6", "q7"]
    assert names(world, "sort=name&order=desc&limit=2") == ["q9", "q8"]
    assert names(world, "offset=8") == ["q6", "q4"]


def test_who_manages_some_sees_those_and_no_others() -> None:
    keeper = {"name": "keeper", "password": "k"}
    rules = [{"who": ["keeper"], "may": ["manage"], "on": "queue:my.*"}]
    world = World(make_settings(user=[*USERS, keeper], permission=rules))
    for name in ("my.a", "other", "my.b"):
        world.host.queue(name)
    told = world.ask("GET", "/api/v1/queues?search=m", ("keeper", "k")).json()
    assert ([row["name"] for row in told["items"]], told["total"]) == (["my.a", "my.b"], 2)
    assert world.ask("GET", "/api/v1/topics", ("keeper", "k")).status_code == 403


def test_topics_subscriptions_and_connections_are_found_by_their_words(world: World) -> None:
    for name in ("prices.eu", "prices.us"):
        world.host.topic(name)
    assert names(world, "search=EU", "topics") == ["prices.eu"]
    session = world.session()
    session.client_id = "till-7"
    topic = Destination(Kind.TOPIC, "prices.eu")
    world.broker.make_durable(session, "ledger", (topic,), None, time.monotonic())
    assert names(world, "search=prices", "subscriptions") == ["ledger"]
    assert names(world, "search=till", "connections") == [str(session.id)]
    other = world.session("zoe")
    assert names(world, "sort=user&order=desc", "connections")[0] == str(other.id)


def test_a_connection_tells_what_it_reads_and_how_much_it_may_hold(world: World) -> None:
    reader = world.read("a.two")
    path = f"/api/v1/connections/{reader.id}/consumers"
    (row,) = world.get(path)["items"]
    assert (row["source"], row["connection"]) == ("a.two", str(reader.id))
    assert row["unsettled_max"] >= row["unsettled"]
    assert world.get(f"{path}?offset=1") == {"items": [], "total": 1}


def test_a_topic_tells_what_may_be_done_with_it() -> None:
    rules = [{"who": ["keeper"], "may": ["manage"], "on": "topic:**"}]
    users = [*USERS, {"name": "keeper", "password": "k"}]
    world = World(make_settings(user=users, permission=rules))
    world.host.topic("prices.eu")
    answer = world.ask("GET", "/api/v1/topics", ("keeper", "k"))
    assert [row["rights"] for row in answer.json()["items"]] == [["manage"]]
