"""MessageFrames: every form of a MESSAGE has the same lines in the same order.

Large bodies leave the engine without being copied, whole and in their place.
"""

from __future__ import annotations

from typing import Final

import pytest

from covey.core.host.feed import NO_LANE, Fan
from covey.core.model.entry import GONE, Entry
from covey.protocols.engine import LARGE
from covey.protocols.stomp.message import StompMessage, make_block
from covey.protocols.stomp.message_frame import MessageFrames, from_id_on
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.support import Client, World

TEXT: Final = "x" * LARGE
REST = b"\ncontent-length:1\na:b\n\nx\0\n"


def message(*headers: tuple[str, str], body: bytes = b"x") -> StompMessage:
    made = StompMessage(make_block(headers), body)
    made.id_prefix, made.id_number = b"covey-1-", 7
    return made


def entry_of(made: StompMessage) -> Entry:
    return Entry(5, made, NO_LANE, GONE)


def fan_of(*messages: StompMessage) -> Fan:
    fan = Fan()
    for made in messages:
        fan.add(made)
    return fan


def test_what_topic_subscribers_share_begins_with_the_id() -> None:
    assert from_id_on(message(("a", "b"))) == b"covey-1-7\ncontent-length:1\na:b\n\nx\0\n"


@pytest.mark.parametrize("tag", [0, 42])
def test_a_message_is_written_line_by_line_as_it_is_in_a_ready_form(tag: int) -> None:
    frames = MessageFrames("s", Version.V1_2)
    made = message(("a", "b"))
    ready = frames.write(entry_of(made), made, tag, "", made.body)
    made.given_id = "covey-1-7"
    assert frames.write(entry_of(made), made, tag, "", made.body) == ready
    ack = b"\nack:42" if tag else b""
    assert ready == b"MESSAGE\nsubscription:s\nmessage-id:covey-1-7" + ack + REST


def test_an_older_client_is_told_the_id_that_its_ack_has_to_name() -> None:
    made = message(("a", "b"))
    written = MessageFrames("s", Version.V1_1).write(
        entry_of(made), made, 42, "other-id", made.body
    )
    ids = b"message-id:other-id\ncovey-message-id:covey-1-7"  # and the sender's, for who counts
    assert written == b"MESSAGE\nsubscription:s\n" + ids + REST


def test_lines_that_only_some_messages_have_come_in_a_fixed_order() -> None:
    made = message(("a", "b"))
    made.expires_ms = 99
    entry = entry_of(made)
    entry.deliveries = 2
    frames = MessageFrames("", Version.V1_2, seq_name="n", counter_name="tries")
    extra = b"\nredelivered:true\ntries:2\nn:5\nexpires:99"
    assert (
        frames.write(entry, made, 0, "", made.body)
        == b"MESSAGE\nmessage-id:covey-1-7" + extra + REST
    )


def test_a_topics_messages_are_written_once_for_all_subscribers() -> None:
    made = message(("a", "b"))
    fan = fan_of(made, made)
    first, second = MessageFrames("s", Version.V1_2), MessageFrames("t", Version.V1_2)
    assert first.write_fan(fan) == first.write(entry_of(made), made, 0, "", made.body) * 2
    shared = fan.written
    assert second.write_fan(fan) == second.write(entry_of(made), made, 0, "", made.body) * 2
    assert fan.written is shared


def test_a_subscription_that_wants_more_has_a_topics_messages_written_one_by_one() -> None:
    fan = fan_of(message(("a", "b")))
    assert MessageFrames("s", Version.V1_1).write_fan(fan) == b""
    assert MessageFrames("s", Version.V1_2, seq_name="n").write_fan(fan) == b""


def test_a_notice_names_no_message() -> None:
    start = b"MESSAGE\nsubscription:s\ndestination:\nmessage-id:\n"
    assert MessageFrames("s", Version.V1_2).write_notice([("browser", "end")]) == (
        start + b"browser:end\n\n\0\n"
    )


# Large bodies.


def parts_of(client: Client) -> list[bytes]:
    """Take all that a client's engine has to say, part by part."""
    parts = []
    while part := client.engine.outgoing():
        parts.append(part)
    return parts


def deaf(world: World, destination: str) -> Client:
    """Connect a subscriber that takes nothing by itself."""
    client = world.connect()
    client.send("SUBSCRIBE", {"id": "s", "destination": destination})
    client.reads = False
    return client


@pytest.mark.parametrize("destination", ["/queue/q", "/topic/t"])
def test_all_readers_of_a_large_body_are_given_the_same_bytes(destination: str) -> None:
    world = World()
    readers = [deaf(world, destination) for _ in range(3)]
    sender = world.connect()
    for _ in range(3):
        sender.send("SEND", {"destination": destination}, TEXT)
    bodies = [part for reader in readers for part in parts_of(reader) if len(part) == LARGE]
    copies = 3 if destination == "/topic/t" else 1
    assert len(bodies) == 3 * copies
    assert len({id(body) for body in bodies}) == 3


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_large_and_small_bodies_keep_their_order(version: str, ack: str) -> None:
    world = World()
    reader = world.connect(**{"accept-version": version})
    reader.send("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": ack})
    reader.reads = False
    sender = world.connect()
    texts = ["a", TEXT, "b", "c", TEXT + "\n", TEXT, "d"]
    for text in texts:
        sender.send("SEND", {"destination": "/queue/q"}, text)
    reader.reads = True
    world.settle_down()
    assert [received.body.decode() for received in reader.inbox] == texts


def test_what_is_not_taken_yet_counts_as_unread() -> None:
    world = World()
    reader = deaf(world, "/queue/q")
    sender = world.connect()
    for _ in range(12):
        sender.send("SEND", {"destination": "/queue/q"}, TEXT)
    waiting = world.depth("/queue/q")
    assert waiting  # the outbox is full, so the queue keeps the rest
    assert len(reader.engine.outgoing()) < LARGE
    assert len(reader.engine.outgoing()) == LARGE
    assert world.depth("/queue/q") == waiting  # others are still in the outbox
    parts_of(reader)
    world.settle_down()
    assert world.depth("/queue/q") < waiting
