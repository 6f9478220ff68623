"""The Apollo STOMP manual on subscriptions: every example frame, as it stands."""

from __future__ import annotations

import pytest

from tests.protocols.stomp.support import Client, World

# Subscription Flow Control.


def test_credit_5_0_gives_at_most_five_messages_without_an_ack(
    client: Client, other: Client
) -> None:
    other.say("""
        SUBSCRIBE
        id:mysub
        destination:/queue/foo
        credit:5,0

        ^@
    """)
    client.publish("/queue/foo", *"1234567")
    received = other.take_all()
    assert [message.body for message in received] == [b"1", b"2", b"3", b"4", b"5"]
    other.ack(received[0])
    assert other.bodies() == ["6"]


# Topic Durable Subscriptions.

DURABLE_EXAMPLE = """
    SUBSCRIBE
    id:mysub
    persistent:true
    destination:/topic/foo

    ^@
"""
DESTROY_EXAMPLE = """
    UNSUBSCRIBE
    id:mysub
    persistent:true

    ^@
"""


def test_a_durable_subscription_queues_while_its_client_is_away(
    world: World, client: Client
) -> None:
    reader = world.connect()
    reader.say(DURABLE_EXAMPLE)
    reader.send("DISCONNECT")
    client.publish("/topic/foo", "one", "two")
    reader = world.connect()
    reader.say(DURABLE_EXAMPLE)
    assert reader.bodies() == ["one", "two"]


def test_a_plain_unsubscribe_only_detaches(client: Client, other: Client) -> None:
    other.say(DURABLE_EXAMPLE)
    other.send("UNSUBSCRIBE", {"id": "mysub"})
    client.publish("/topic/foo", "kept")
    other.say(DURABLE_EXAMPLE)
    assert other.bodies() == ["kept"]


def test_unsubscribe_with_persistent_destroys_it(client: Client, other: Client) -> None:
    other.say(DURABLE_EXAMPLE)
    other.say(DESTROY_EXAMPLE)
    client.publish("/topic/foo", "lost")
    other.say(DURABLE_EXAMPLE)
    assert other.bodies() == []
    client.send("UNSUBSCRIBE", {"id": "mysub", "persistent": "true"})  # attached elsewhere
    assert "mysub" not in client.world.broker.host.durables


def test_a_durable_subscription_is_addressed_by_dsub(client: Client, other: Client) -> None:
    other.say(DURABLE_EXAMPLE)
    other.send("UNSUBSCRIBE", {"id": "mysub"})
    client.say("""
        SEND
        destination:/dsub/mysub

        hello durable sub!
        ^@
    """)
    client.say("""
        SUBSCRIBE
        id:0
        destination:/dsub/mysub

        ^@
    """)
    message = client.take()
    assert (message["subscription"], message.body) == ("0", b"hello durable sub!\n")


def test_two_connections_share_a_durable_subscription(client: Client, other: Client) -> None:
    client.say(DURABLE_EXAMPLE)
    other.say(DURABLE_EXAMPLE)
    client.publish("/topic/foo", *"1234")
    mine, yours = client.bodies(), other.bodies()
    assert sorted(mine + yours) == list("1234")
    assert len(mine) == len(yours) == 2


def test_a_second_connection_with_another_destination_updates_it(
    client: Client, other: Client
) -> None:
    client.say(DURABLE_EXAMPLE)
    other.subscribe("/topic/bar", id="mysub", persistent="true", credit="0,0")
    client.publish("/topic/foo", "old")
    client.publish("/topic/bar", "new")
    assert client.bodies() == ["new"]


def test_a_second_connection_with_another_selector_updates_it(
    client: Client, other: Client
) -> None:
    client.say(DURABLE_EXAMPLE)
    other.subscribe(
        "/topic/foo", id="mysub", persistent="true", credit="0,0", selector="colour = 'red'"
    )
    client.publish("/topic/foo", "no", colour="blue")
    client.publish("/topic/foo", "yes", colour="red")
    assert client.bodies() == ["yes"]


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
