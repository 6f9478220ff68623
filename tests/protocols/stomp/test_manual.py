"""The Apollo STOMP manual, section by section: every example frame of it, sent as it stands."""

from __future__ import annotations

import pytest

from covey.config.connectors import UserHeaderSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, World

CONNECT_EXAMPLE = """
    CONNECT

    login:admin
    passcode:password

    ^@
"""


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


# Stomp Protocol Options.


def test_the_example_connector_names_the_user_on_each_message() -> None:
    header = UserHeaderSettings(header="user", separator=",")
    settings = StompSettings(max_header_length=10000, add_user_header=(header,))
    world = World(stomp=settings)
    client = world.connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "hello")
    assert client.take()["user"] == "admin,admin"  # the user admin and the role admin


# Connecting.


def test_the_example_login_is_read_though_a_blank_line_precedes_its_headers(world: World) -> None:
    client = world.stranger()
    client.say(CONNECT_EXAMPLE)
    connected = client.take("CONNECTED")
    assert connected["version"] == "1.0"
    assert connected["host-id"] == "default"
    assert not client.engine.is_closed


# Destination Types.


def test_a_message_sent_to_a_queue_waits_there(world: World, client: Client) -> None:
    client.say("""
        SEND
        destination:/queue/a

        hello queue a
        ^@
    """)
    other = world.connect()
    other.subscribe("/queue/a")
    message = other.take()
    assert message.body == b"hello queue a\n"
    assert message["destination"] == "/queue/a"


# Topic Retained Messages.


def test_the_last_retained_message_is_sent_to_a_new_subscription(
    client: Client, other: Client
) -> None:
    client.publish("/topic/stock/IBM", "110.00", retain="set")
    client.say("""
        SEND
        destination:/topic/stock/IBM
        retain:true

        112.12
        ^@
    """)
    other.subscribe("/topic/stock/IBM")
    assert other.bodies() == ["112.12\n"]
    client.publish("/topic/stock/IBM", "113")
    assert other.bodies() == ["113"]


def test_retain_remove_has_the_topic_forget(client: Client, other: Client) -> None:
    client.publish("/topic/stock/IBM", "112.12", retain="set")
    client.publish("/topic/stock/IBM", "forget", retain="remove")
    other.subscribe("/topic/stock/IBM")
    assert other.bodies() == []


# Reliable Messaging.


def test_a_send_with_a_receipt_is_answered_with_the_manuals_receipt(client: Client) -> None:
    client.say("""
        SEND
        destination:/queue/a
        receipt:001

        hello queue a
        ^@
    """)
    assert b"RECEIPT\nreceipt-id:001\n\n\0" in client.raw
    assert client.receipts() == ["001"]


def test_what_was_not_acked_is_redelivered_to_another_client(world: World, client: Client) -> None:
    reader = world.connect()
    reader.subscribe("/queue/a", ack="client")
    client.publish("/queue/a", "one", "two")
    assert reader.bodies() == ["one", "two"]
    reader.lose()
    client.subscribe("/queue/a", ack="client")
    again = client.take_all()
    assert [message.body for message in again] == [b"one", b"two"]
    assert {message["redelivered"] for message in again} == {"true"}


# Message Expiration.


def test_a_message_whose_expiry_is_over_is_never_delivered(
    world: World, client: Client, other: Client
) -> None:
    client.say("""
        SEND
        destination:/queue/a
        expires:1308690148000

        this message will expire on Tue Jun 21 17:02:28 EDT 2011
        ^@
    """)
    other.subscribe("/queue/a")
    assert other.bodies() == []
    assert world.depth("/queue/a") == 0


def test_a_ttl_runs_from_receipt_and_adds_an_expires_header(
    world: World, client: Client, other: Client
) -> None:
    example = """
        SEND
        destination:/queue/a
        ttl:2000

        This message will expire in 2 seconds.
        ^@
    """
    client.say(example)
    other.subscribe("/queue/a")
    message = other.take()
    assert message["expires"] == str(world.wall_ms + 2000)
    other.send("UNSUBSCRIBE", {"id": "s"})
    client.say(example)
    world.wait(2.001)
    other.subscribe("/queue/a")
    assert other.bodies() == []


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
    assert "mysub" not in client.world.broker.hosts[0].durables


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


@pytest.mark.parametrize("destination", ["/queue/foo.*", "/queue/foo,/queue/bar"])
def test_from_seq_with_wildcard_or_composite_closes_the_connection(
    client: Client, destination: str
) -> None:
    client.subscribe(destination, from_seq="1")
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
    number = client.engine.the_session.id
    assert request["reply-to"] == f"/queue/temp.default.{number}.example"
    assert request.block.count(b"reply-to:") == 1
    service.publish(request["reply-to"], "done")
    answer = client.take()
    assert (answer["subscription"], answer.body) == ("mysub", b"done")


def test_nobody_else_can_subscribe_to_a_temporary_destination(world: World, client: Client) -> None:
    client.subscribe("/temp-queue/example")
    thief = world.connect()
    thief.subscribe(f"/queue/temp.default.{client.engine.the_session.id}.example")
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
    client.publish("/queue/a_-~: ()." + "/é", "lenient")
    assert other.bodies() == ["same", "lenient"]


def test_other_raw_characters_are_refused_by_strict_names() -> None:
    world = World(stomp=StompSettings(strict_names=True))
    client = world.connect()
    client.publish("/topic/stock/IBM", "112.12")
    assert "stock/IBM" in client.error()["message"]
