"""Receipts: none before its frame is safe, all in the order of their frames."""

from __future__ import annotations

from tests.core.double import HeldStore
from tests.protocols.stomp.support import World, frame


def persistent(number: int) -> bytes:
    return frame("SEND", {"destination": "/queue/a", "persistent": "true", "receipt": f"r{number}"})


def test_receipts_of_a_batch_leave_together_once_it_is_safe_and_not_before() -> None:
    store = HeldStore()
    world = World(store=store)
    client, other = world.connect(), world.connect()
    store.write()
    client.feed(b"".join(map(persistent, range(3))))
    other.feed(persistent(7))
    client.feed(persistent(3))
    assert client.receipts() == other.receipts() == []
    assert client.engine.receipts.pending == 4
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["r0", "r1", "r2", "r3"]
    assert other.receipts() == ["r7"]
    assert client.engine.receipts.pending == 0


def test_receipts_keep_the_order_of_their_frames_whatever_the_verb() -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    store.write()
    begin = frame("BEGIN", {"transaction": "t", "receipt": "begun"})
    odd = persistent(2).replace(b"receipt:r2", b"receipt:a\\cb")
    client.feed(persistent(0) + begin + persistent(1) + odd + persistent(3))
    assert client.receipts() == []
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["r0", "begun", "r1", "a:b", "r3"]


def test_a_receipt_for_what_is_safe_already_leaves_at_once() -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    client.publish("/queue/a", "x")
    store.write()
    world.wait(0.0)
    client.publish("/queue/a", "y", receipt="now")
    assert client.receipts() == ["now"]


def test_after_a_failure_of_the_store_no_receipt_leaves() -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    store.write()
    client.feed(persistent(1))
    store.finished(store.tickets.pop(), OSError("the disk is gone"))
    client.feed(persistent(2))
    store.write()
    world.wait(0.0)
    assert client.receipts() == []
