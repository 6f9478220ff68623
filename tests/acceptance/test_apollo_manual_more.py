"""The Apollo STOMP manual from its browsing subscriptions on: every example frame, as it stands."""

from __future__ import annotations

from typing import Literal

import pytest

from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    """Somebody who sends."""
    return world.connect()


@pytest.fixture
def other(world: World) -> Client:
    """Somebody else, who mostly reads."""
    return world.connect()


# Browsing Subscriptions.


def test_a_browser_reads_without_consuming_and_hears_the_end(
    world: World, client: Client, other: Client
) -> None:
    client.publish("/queue/foo", "one", "two")
    other.say("""
        SUBSCRIBE
        id:mysub
        browser:true
        destination:/queue/foo

        ^@
    """)
    one, two, end = other.take_all()
    assert (one.body, two.body) == (b"one", b"two")
    assert {name: end[name] for name in ("subscription", "destination", "message-id")} == {
        "subscription": "mysub",
        "destination": "",
        "message-id": "",
    }
    assert end["browser"] == "end"
    assert world.depth("/queue/foo") == 2
    client.publish("/queue/foo", "three")
    assert other.bodies() == []


def test_browser_end_false_stays_and_sends_no_end(client: Client, other: Client) -> None:
    client.publish("/queue/foo", "one")
    other.subscribe("/queue/foo", browser="true", browser_end="false")
    client.publish("/queue/foo", "two")
    assert other.bodies() == ["one", "two"]


# Queue Message Sequences.


def test_include_seq_names_the_header_that_holds_the_number(client: Client, other: Client) -> None:
    other.say("""
        SUBSCRIBE
        id:mysub
        destination:/queue/foo
        include-seq:seq

        ^@
    """)
    client.publish("/queue/foo", "Hello\n", "World\n")
    hello, world = other.take_all()
    assert (hello["subscription"], hello["destination"], hello["seq"]) == (
        "mysub",
        "/queue/foo",
        "1",
    )
    assert (world["seq"], world.body) == ("2", b"World\n")


def test_from_seq_gives_only_that_number_and_later_ones(client: Client, other: Client) -> None:
    client.publish("/queue/foo", *[str(number) for number in range(1, 13)])
    other.say("""
        SUBSCRIBE
        id:mysub
        destination:/queue/foo
        from-seq:10

        ^@
    """)
    assert other.bodies() == ["10", "11", "12"]


def test_from_seq_minus_one_gives_only_what_comes_later(client: Client, other: Client) -> None:
    client.publish("/queue/foo", "old")
    other.subscribe("/queue/foo", from_seq="-1")
    client.publish("/queue/foo", "new")
    assert other.bodies() == ["new"]


@pytest.mark.parametrize("number", ["1", "0", "-1"])
@pytest.mark.parametrize("destination", ["/queue/foo.*", "/queue/foo,/queue/bar"])
def test_from_seq_with_wildcard_or_composite_closes_the_connection(
    client: Client, destination: str, number: str
) -> None:
    client.subscribe(destination, from_seq=number)
    assert "from-seq" in client.error()["message"]


# Using Queue Browsers to Implement Durable Topic Subscriptions.

REPLAY_EXAMPLE = """
    SUBSCRIBE
    id:mysub
    destination:/queue/foo
    browser:true
    browser-end:false
    include-seq:seq
    from-seq:{start}

    ^@
"""


def test_browsers_that_keep_their_number_see_everything_once(world: World, client: Client) -> None:
    client.publish("/queue/foo", "one", "two")
    first, second = world.connect(), world.connect()
    first.say(REPLAY_EXAMPLE.format(start=0))
    second.say(REPLAY_EXAMPLE.format(start=0))
    assert second.bodies() == ["one", "two"]
    last = first.take_all()[-1]["seq"]
    first.lose()
    client.publish("/queue/foo", "three")
    assert second.bodies() == ["three"]
    first = world.connect()
    first.say(REPLAY_EXAMPLE.format(start=int(last) + 1))
    assert first.bodies() == ["three"]


def test_a_browser_may_start_at_the_tail(client: Client, other: Client) -> None:
    client.publish("/queue/foo", "one")
    other.say(REPLAY_EXAMPLE.format(start=-1))
    client.publish("/queue/foo", "two")
    assert other.bodies() == ["two"]


def test_a_normal_consumer_cleans_up_behind_browsers(
    world: World, client: Client, other: Client
) -> None:
    other.say(REPLAY_EXAMPLE.format(start=0))
    client.publish("/queue/foo", "one")
    client.subscribe("/queue/foo")
    assert (client.bodies(), other.bodies()) == (["one"], ["one"])
    assert world.depth("/queue/foo") == 0


# Exclusive Subscriptions.

EXCLUSIVE_EXAMPLE = """
    SUBSCRIBE
    id:mysub
    exclusive:true
    destination:/queue/foo
    ack:client-individual

    ^@
"""


def test_one_exclusive_subscription_gets_all_and_another_takes_over(
    world: World, client: Client
) -> None:
    first, second = world.connect(), world.connect()
    first.say(EXCLUSIVE_EXAMPLE)
    second.say(EXCLUSIVE_EXAMPLE)
    client.publish("/queue/foo", *"1234")
    received = first.take_all()
    assert len(received) == 4
    assert second.bodies() == []
    first.ack(received[1])
    first.lose()
    assert second.bodies() == ["1", "3", "4"]


# Message Groups.


def test_a_message_group_stays_with_one_consumer(world: World, client: Client) -> None:
    readers = [world.connect(), world.connect()]
    for reader in readers:
        reader.subscribe("/queue/PO.REQUEST", ack="client-individual")
    for number in range(20):
        client.send(
            "SEND",
            {"destination": "/queue/PO.REQUEST", "message_group": f"hiram{number % 10}"},
            f"PO{number}",
        )
    groups = [{message["message_group"] for message in reader.take_all()} for reader in readers]
    assert groups[0].isdisjoint(groups[1])
    assert len(groups[0] | groups[1]) == 10


def test_the_message_frame_of_the_group_example_is_not_for_clients_to_send(client: Client) -> None:
    client.say("""
        MESSAGE
        destination:/queue/PO.REQUEST
        message_group:hiram

        PO145
        ^@
    """)
    assert "MESSAGE" in client.error()["message"]


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
