"""The Apollo STOMP manual on logins and messages: every example frame, as it stands."""

from __future__ import annotations

from covey.config.connectors import UserHeaderSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, World

CONNECT_EXAMPLE = """
    CONNECT

    login:admin
    passcode:password

    ^@
"""


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
