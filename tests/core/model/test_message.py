"""Message: its weight is what every limit of memory counts, so a large head is no way past them."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.settings import Settings, StoreSettings
from covey.core.errors import RefusedError
from covey.core.model.message import HEAD_FREE, Message, Neutral
from covey.core.storage.overload import MESSAGE_COST
from covey.protocols.amqp.messages.mapping import encode_neutral
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.http.messages import HttpMessage
from covey.protocols.stomp.message import from_neutral
from tests.core.double import Room, letter, places
from tests.core.storage.sqlite.support import House, Note, small_windows

HEAD = 1_000_000


def heavy(body: bytes = b"", *, persistent: bool = False) -> Note:
    note = Note(body, persistent=persistent)
    note.weight += HEAD
    return note


def test_bodies_leave_memory_for_large_heads_too(tmp_path: Path) -> None:
    house = House(tmp_path, small_windows(HEAD, 2 * HEAD))
    for number in range(10):
        house.publish("a", heavy(b"%d" % number, persistent=number % 2 == 0))
        house.rest()
    storage_state = house.queue("a").storage_state
    assert storage_state.out >= 7
    assert storage_state.resident == (10 - storage_state.out) * (HEAD + 1)
    reader = house.reader("a")
    house.rest()
    assert [entry.content.neutral().body for entry in reader.entries] == [
        b"%d" % number for number in range(10)
    ]
    for entry in list(reader.unsettled.values()):
        house.settle(entry)
    house.rest()
    assert storage_state.resident == 0
    house.store.close()


def test_what_is_on_its_way_to_the_disk_counts_with_its_head(tmp_path: Path) -> None:
    settings = Settings(store=StoreSettings(unwritten_max=2 * (HEAD + MESSAGE_COST)))
    house = House(tmp_path, settings)
    for _ in range(4):
        house.publish("a", heavy(persistent=True))
    assert "the disk is behind" in house.session.blocked_on
    house.rest()
    assert not house.session.is_blocked
    assert house.broker.commits.overload.unwritten == 0
    house.store.close()


def test_a_reader_of_a_topic_that_does_not_keep_up_stops_its_senders() -> None:
    room = Room()
    reader = room.enter().read("/topic/a", credit=0)
    sender = room.enter()
    assert reader.queue is not None
    for name in ("1", "2"):
        sender.send("/topic/a", name, weight=room.broker.limits.topic_batch * 100)
    assert sender.session.is_blocked


def test_a_transaction_counts_heads() -> None:
    room = Room(limits={"tx_bytes_max": HEAD})
    sender = room.enter()
    transaction = room.broker.transactions.begin(sender.session, "t")
    with pytest.raises(RefusedError, match="tx_bytes_max"):
        transaction.send(places("/queue/a"), letter("x", weight=HEAD + 1))


def test_delayed_messages_count_with_their_heads() -> None:
    room = Room(limits={"delayed_memory_max": HEAD})
    sender = room.enter()
    with pytest.raises(RefusedError, match="delayed_memory_max"):
        sender.send("/queue/a", "x", due_ms=200_000, weight=HEAD + 1)


def test_a_due_message_leaves_no_weight_behind() -> None:
    room = Room()
    room.enter().send("/queue/a", "x", due_ms=int((room.now + 10) * 1000), weight=HEAD)
    delayed = room.broker.host.queue("a").timers.delayed
    assert delayed.resident == HEAD
    room.wait(20.0)
    assert delayed.resident == 0 and room.depth("a") == 1


def stomp(neutral: Neutral) -> Message:
    return from_neutral(neutral, "/queue/a", None)


def amqp(neutral: Neutral) -> Message:
    return AmqpMessage.decode(encode_neutral(neutral, wall_ms=0), 0)


@pytest.mark.parametrize("make", [stomp, amqp, HttpMessage])
def test_a_head_counts_in_every_protocol_once_it_is_large(make: type[HttpMessage]) -> None:
    small = make(Neutral(body=b"body", properties={"a": "b"}))
    assert small.weight == small.size == 4
    large = make(Neutral(body=b"body", properties={"a": "b" * HEAD_FREE}))
    assert large.size == 4 and HEAD_FREE + 4 < large.weight < 2 * HEAD_FREE
