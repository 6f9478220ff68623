"""Receipts: none before its frame is safe, all in the order of their frames."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import StompSettings
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
    assert client.session.receipts.pending == 4
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["r0", "r1", "r2", "r3"]
    assert other.receipts() == ["r7"]
    assert client.session.receipts.pending == 0


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
    store.listener.finished(store.tickets.pop(), OSError("the disk is gone"))
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
    assert client.receipts() == ["later", "bye"], "the transaction is never committed"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_what_a_transaction_holds_is_confirmed_when_its_commit_is_safe(version: str) -> None:
    store = HeldStore()
    world = World(store=store)
    client = world.connect(version)
    client.publish("/queue/a", "first", "second")
    client.publish("/queue/c", "there")
    client.subscribe("/queue/a", ack="client")
    store.write()
    world.wait(0.0)
    first, second = client.take_all()
    client.publish("/queue/b", "x", transaction="t", persistent="true", receipt="sent")
    client.ack(second, transaction="t", receipt="acknowledged")
    client.ack(first, transaction="t", receipt="covered")
    client.publish("/queue/c", "meanwhile", receipt="others do not wait")
    assert client.receipts() == ["others do not wait"]
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    assert client.inbox == []
    store.write()
    world.wait(0.0)
    assert client.receipts() == ["sent", "acknowledged", "covered", "committed"]
    assert client.session.receipts.pending == 0


def test_a_commit_that_asks_for_nothing_still_confirms_what_it_commits() -> None:
    client = World().connect()
    client.publish("/queue/a", "x", transaction="t", receipt="sent")
    client.send("COMMIT", {"transaction": "t"})
    assert client.receipts() == ["sent"]


def test_after_an_abort_nothing_of_the_transaction_is_confirmed() -> None:
    client = World().connect()
    client.publish("/queue/a", "x", transaction="t", receipt="sent")
    client.send("ABORT", {"transaction": "t", "receipt": "aborted"})
    client.send("BEGIN", {"transaction": "t"})
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    assert client.receipts() == ["aborted", "committed"]


def test_a_commit_that_waits_for_room_confirms_when_it_is_done() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=1),))
    client, reader = world.connect(), world.connect()
    client.publish("/queue/small", "one")
    client.publish("/queue/small", "two", transaction="t", receipt="sent")
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    assert client.receipts() == []
    reader.subscribe("/queue/small")
    assert client.receipts() == ["sent", "committed"]


def test_a_transaction_may_hold_more_receipts_than_may_be_pending() -> None:
    world = World(stomp=StompSettings(receipts_max=3))
    client = world.connect()
    for number in range(10):
        client.publish("/queue/a", "x", transaction="t", receipt=str(number))
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    client.publish("/queue/a", "y", receipt="next")
    assert client.receipts() == [*map(str, range(10)), "committed", "next"]


def test_how_many_receipts_a_transaction_holds_has_a_limit() -> None:
    world = World(limits={"tx_operations_max": 3})
    client = world.connect()
    client.publish("/queue/a", "x")
    client.subscribe("/queue/a", ack="client")
    message = client.take()
    for number in range(4):  # only the first of them is an operation
        client.ack(message, transaction="t", receipt=str(number))
    error = client.error()
    assert "tx_operations_max" in error["message"]
    assert (error["covey-code"], error["receipt-id"]) == ("limit", "3")


def test_how_long_the_receipts_of_a_transaction_are_has_a_limit() -> None:
    client = World(limits={"tx_bytes_max": 1000}).connect()
    for _ in range(2):
        client.publish("/queue/a", "x", transaction="t", receipt="r" * 600)
    assert "tx_bytes_max" in client.error()["message"]


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
