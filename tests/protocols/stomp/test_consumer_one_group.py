"""A subscription to one group (`covey-group`), as a STOMP client meets it."""

from __future__ import annotations

import pytest

from tests.protocols.stomp.support import World

NOTICE = "covey-group-done"


def test_the_next_group_comes_whole_then_a_notice_and_the_subscription_is_over() -> None:
    world = World()
    client = world.connect()
    for group in "abab":
        client.publish("/queue/q", group, JMSXGroupID=group)
    asked = {"covey-group": "*next", "ack": "client-individual"}
    client.subscribe("/queue/q", id="1", **asked)
    first, second = client.take_all()
    assert (first.body, second.body) == (b"a", b"a")
    client.ack(first)
    assert client.take_all() == []
    client.ack(second)
    notice = client.take()
    assert (notice[NOTICE], notice["subscription"], notice.body) == ("a", "1", b"")
    assert client.session.core.subscriptions == {}
    client.subscribe("/queue/q", id="1", **asked)  # its id is free again
    assert [message.body for message in client.take_all()] == [b"b", b"b"]


def test_an_unsubscribe_that_crosses_the_notice_does_no_harm() -> None:
    world = World()
    client = world.connect()
    client.publish("/queue/q", "x", JMSXGroupID="a")
    client.subscribe("/queue/q", id="1", **{"covey-group": "*next"})
    assert [NOTICE in one.headers for one in client.take_all()] == [False, True]
    client.send("UNSUBSCRIBE", {"id": "1", "receipt": "r"})
    assert client.take("RECEIPT")["receipt-id"] == "r"
    client.send("UNSUBSCRIBE", {"id": "2"})
    assert "no subscription 2" in client.take("ERROR")["message"]


def test_a_named_group_is_exclusive_and_whoever_loses_it_is_told() -> None:
    world = World()
    other = world.connect()
    other.subscribe("/queue/q", ack="client-individual")
    mine = world.connect()
    mine.subscribe("/queue/q", ack="client-individual", **{"covey-group": "a"})
    for group in "aba":
        other.publish("/queue/q", group, JMSXGroupID=group)
    assert [message.body for message in mine.take_all()] == [b"a", b"a"]
    assert [message.body for message in other.take_all()] == [b"b"]
    shown = world.queue("/queue/q").state.consumers.values()
    assert [one.group for one in shown] == ["", "a"]


@pytest.mark.parametrize(
    ("destination", "headers", "told"),
    [
        ("/queue/q", {"covey-group": ""}, "covey-group names no group"),
        ("/queue/q", {"covey-group": "a", "selector": "x = 1"}, "a selector does not go with it"),
        ("/queue/q", {"covey-group": "a", "browser": "true"}, "a browser does not go with it"),
        ("/queue/q.*", {"covey-group": "a"}, "one group reads one queue"),
        ("/topic/t", {"covey-group": "a"}, "one group reads one queue"),
        ("/queue/q,/queue/r", {"covey-group": "*next"}, "one group reads one queue"),
    ],
)
def test_odd_wishes_are_refused_by_name(
    destination: str, headers: dict[str, str], told: str
) -> None:
    client = World().connect()
    client.send("SUBSCRIBE", {"id": "1", "destination": destination, **headers})
    assert told in client.take("ERROR")["message"]
