"""Receipts: none before its frame is safe, all in the order of their frames."""

from __future__ import annotations

import pytest

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


def test_who_has_nothing_on_its_way_to_the_disk_waits_for_nobody() -> None:
    store = HeldStore()
    world = World(store=store)
    busy, client = world.connect(), world.connect()
    client.publish("/queue/b", "there")
    client.publish("/queue/c", "there")
    store.write()
    busy.feed(persistent(0))
    client.subscribe("/queue/b", ack="client-individual", receipt="subscribed")
    assert client.take("RECEIPT")["receipt-id"] == "subscribed"
    client.ack(client.take(), receipt="acknowledged")
    client.publish("/queue/c", "more", receipt="sent")
    client.subscribe("/queue/never-seen", id="new", receipt="a new queue")
    client.send("BEGIN", {"transaction": "t", "receipt": "begun"})
    client.publish("/queue/c", "in it", transaction="t", receipt="gathered")
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    client.send("DISCONNECT", {"receipt": "bye"})
    given = ["acknowledged", "sent", "a new queue", "begun", "gathered", "committed"]
    assert client.receipts() == [*given, "bye"]
    assert busy.receipts() == []


def test_a_receipt_waits_for_what_its_own_connection_sent_before_without_one() -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    client.publish("/queue/a", "first")
    store.write()
    client.publish("/queue/a", "kept", persistent="true")
    client.publish("/queue/a", "not kept", receipt="later")
    client.send("BEGIN", {"transaction": "t"})
    client.publish("/queue/a", "in it", transaction="t", receipt="gathered")
    client.send("DISCONNECT", {"receipt": "bye"})
    assert client.receipts() == []
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["later", "gathered", "bye"]


def test_a_message_that_cannot_be_seen_yet_has_no_receipt_though_it_is_not_persistent() -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    client.publish("/queue/new", "x", receipt="seen")
    assert client.receipts() == [], "its number is not reserved yet"
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["seen"]


def test_a_durable_subscription_is_confirmed_once_it_is_on_disk_whoever_made_it() -> None:
    store = HeldStore()
    world = World(store=store)
    clients = [world.connect(), world.connect()]
    for client in clients:
        client.subscribe("/topic/t", id="d", persistent="true", receipt="durable")
        assert client.receipts() == []
    store.write()
    world.wait(0.0)
    assert [client.receipts() for client in clients] == [["durable"], ["durable"]]


@pytest.mark.parametrize("last", [frame("UNSUBSCRIBE", {"id": "s"}), b"NONSENSE\n\n\0"])
def test_a_browse_that_is_over_before_it_begins_has_no_end_of_its_own(last: bytes) -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect()
    client.publish("/queue/a", "x", persistent="true")
    client.subscribe("/queue/none.*", browser="true")
    client.feed(last)
    store.write()
    world.wait(0.0)
    assert [received.command for received in client.inbox] in ([], ["ERROR"])
