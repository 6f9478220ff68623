"""The Apollo STOMP manual on destinations and selectors: every example frame, as it stands."""

from __future__ import annotations

from typing import Literal

import pytest

from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, World

# Temporary Destinations.


def test_a_temporary_queue_carries_an_answer_back(world: World, client: Client) -> None:
    service = world.connect()
    service.subscribe("/queue/PO.REQUEST", id="foo")
    client.say("""
        SUBSCRIBE
        id:mysub
        destination:/temp-queue/example

        ^@
        SEND
        destination:/queue/PO.REQUEST
        reply-to:/temp-queue/example

        PO145
        ^@
    """)
    request = service.take()
    number = client.session.core.id
    assert request["reply-to"] == f"/queue/temp.default.{number}.example"
    assert request.block.count(b"reply-to:") == 1
    service.publish(request["reply-to"], "done")
    answer = client.take()
    assert (answer["subscription"], answer.body) == ("mysub", b"done")


def test_nobody_else_can_subscribe_to_a_temporary_destination(world: World, client: Client) -> None:
    client.subscribe("/temp-queue/example")
    thief = world.connect()
    thief.subscribe(f"/queue/temp.default.{client.session.core.id}.example")
    assert thief.error()["covey-code"] == "denied"


# Destination Wildcards.

NASDAQ_IBM = "/topic/PRICE.STOCK.NASDAQ.IBM"
NYSE_SUNW = "/topic/PRICE.STOCK.NYSE.SUNW"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/topic/PRICE.**", ["IBM", "SUNW", "gold", "4"]),
        ("/topic/PRICE.STOCK.**", ["IBM", "SUNW", "4"]),
        ("/topic/PRICE.STOCK.NASDAQ.*", ["IBM", "4"]),
        ("/topic/PRICE.STOCK.*.IBM", ["IBM"]),
        ("/topic/PRICE.STOCK.*.I*", ["IBM"]),
        ("/topic/PRICE.STOCK.*.*{[0-9]}", ["4"]),
        (NASDAQ_IBM, ["IBM"]),
    ],
)
def test_the_price_examples_match_as_listed(
    client: Client, other: Client, pattern: str, expected: list[str]
) -> None:
    other.subscribe(pattern)
    client.publish(NASDAQ_IBM, "IBM")
    client.publish(NYSE_SUNW, "SUNW")
    client.publish("/topic/PRICE.METAL.LONDON.gold", "gold")
    client.publish("/topic/PRICE.STOCK.NASDAQ.ABC4", "4")
    client.publish("/topic/OTHER.STOCK.NASDAQ.IBM", "other")
    assert other.bodies() == expected


def test_a_wildcard_in_a_send_is_refused(client: Client) -> None:
    client.publish("/topic/PRICE.*", "x")
    assert "wildcards" in client.error()["message"]


# Composite Destinations.


def test_a_composite_send_reaches_two_queues_and_a_topic(client: Client, other: Client) -> None:
    other.subscribe("/topic/c", id="c")
    client.say("""
        SEND
        destination:/queue/a,/queue/b,/topic/c

        Composites rock!
        ^@
    """)
    other.subscribe("/queue/a,/queue/b", id="ab")
    received = other.take_all()
    assert [message.body for message in received] == [b"Composites rock!\n"] * 3
    assert sorted(message["subscription"] for message in received) == ["ab", "ab", "c"]


# Message Selectors.


def test_the_selector_example_compares_headers_of_text(client: Client, other: Client) -> None:
    other.say("""
        SUBSCRIBE
        id:sub0
        selector:type = 'car' AND color = 'blue' AND weight > 2500
        destination:/topic/foo

        ^@
    """)
    client.publish("/topic/foo", "yes", type="car", color="blue", weight="3000")
    client.publish("/topic/foo", "light", type="car", color="blue", weight="900")
    client.publish("/topic/foo", "red", type="car", color="red", weight="3000")
    client.publish("/topic/foo", "none")
    assert other.bodies() == ["yes"]


# Destination Name Restrictions.


def test_characters_of_the_manual_and_percent_escapes_name_a_queue(
    client: Client, other: Client
) -> None:
    other.subscribe("/queue/a_-~: ().%2F%C3%A9")
    client.publish("/queue/a_-~: ()." + "%2f%c3%a9", "same")
    client.publish("/queue/a_-~: ()." + "/%C3%A9", "a slash as in the examples")
    assert other.bodies() == ["same", "a slash as in the examples"]


@pytest.mark.parametrize(
    ("strict_names", "refused"), [("manual", "é#%"), (True, "/é#%"), (False, "")]
)
def test_other_raw_characters_are_refused_as_strict_names_says(
    strict_names: Literal["manual"] | bool, refused: str
) -> None:
    world = World(stomp=StompSettings(strict_names=strict_names))
    for character in "/é#%":
        client = world.connect()
        client.publish(f"/queue/a{character}b", "x", receipt="r")
        if character not in refused:
            assert client.receipts() == ["r"]
            continue
        error = client.error()
        assert f"'{character}' at position 2 must be written as %" in error["message"]
        assert (error["covey-code"], error["receipt-id"]) == ("invalid", "r")


def test_subscription_ids_groups_and_a_reply_to_of_other_systems_may_have_any_character(
    client: Client, other: Client
) -> None:
    other.subscribe("/queue/a", id="é#@")
    client.publish("/queue/a", "x", reply_to="mail:joe@example.com#é", message_group="é#")
    assert "joe@example.com" in other.take()["reply-to"]
