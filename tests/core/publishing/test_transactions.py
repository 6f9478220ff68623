"""Transactions by name: begun once, ended once, so many at a time.

Transactions: all at the commit or nothing, and whose a delivery is meanwhile.
"""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management.reload import reconfigure
from covey.core.model.entry import PENDING, Outcome
from covey.core.publishing.transactions import Transaction
from tests.core.double import HeldStore, Room, letter, places
from tests.core.support import depth


def test_a_name_is_begun_once_and_ended_once() -> None:
    room = Room()
    broker, session = room.broker, room.enter().session
    transaction = broker.transactions.begin(session, "t")
    assert broker.transactions.running_or_new(session, "t") is transaction
    with pytest.raises(RefusedError, match="running already"):
        broker.transactions.begin(session, "t")
    broker.transactions.abort(session, "t", room.now)
    with pytest.raises(RefusedError, match="no transaction t"):
        broker.transactions.commit(session, "t", room.now)


def test_a_session_has_so_many_open_at_a_time() -> None:
    room = Room()
    broker, session = room.broker, room.enter().session
    session.transactions_max = 1
    broker.transactions.begin(session, "1")
    with pytest.raises(RefusedError, match="transactions_max"):
        broker.transactions.begin(session, "2")
    broker.transactions.abort(session, "1", room.now)
    broker.transactions.begin(session, "2")


def test_reloaded_limits_hold_for_the_next_one() -> None:
    room = Room()
    broker, session = room.broker, room.enter().session
    reconfigure([broker], Settings.model_validate({"broker": {"tx_operations_max": 1}}), room.now)
    begun = broker.transactions.begin(session, "t")
    begun.send((), letter("1"))
    with pytest.raises(RefusedError, match="tx_operations_max"):
        begun.send((), letter("2"))


def test_operations_and_bytes_are_limited() -> None:
    transaction = Transaction(2, 10)
    transaction.send((), letter("1", size=5))
    with pytest.raises(RefusedError, match="tx_bytes_max"):
        transaction.send((), letter("2", size=6))
    transaction = Transaction(1, 10)
    transaction.send((), letter("1"))
    with pytest.raises(RefusedError, match="tx_operations_max"):
        transaction.send((), letter("2"))


def test_a_settled_delivery_stays_acquired_until_the_commit() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)  # a second time is ignored
    assert (room.depth("a"), reader.unsettled) == (1, {})
    room.broker.transactions.commit(person.session, "t", room.now)
    assert room.depth("a") == 0


def test_after_an_abort_a_delivery_is_its_consumers_again() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    room.broker.transactions.abort(person.session, "t", room.now)
    assert list(reader.unsettled) == [1]
    person.settle(reader)
    assert room.depth("a") == 0


def test_after_an_abort_a_gone_consumers_delivery_returns_to_its_place() -> None:
    room = Room()
    person, other = room.enter(), room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    person.send("/queue/a", "2")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    room.broker.unsubscribe(person.session, "s", room.now)
    room.broker.transactions.abort(person.session, "t", room.now)
    assert other.read("/queue/a").names == ["1", "2"]


def test_a_refused_commit_undoes_the_settlements_too() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    transaction.send(places("/dsub/nowhere"), letter("x"))
    with pytest.raises(RefusedError, match="nowhere"):
        room.broker.transactions.commit(person.session, "t", room.now)
    assert list(reader.unsettled) == [1]
    assert person.session.transactions == {}


def test_who_held_all_it_may_hold_gets_more_once_one_is_settled_in_a_transaction() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    reader.unsettled_max = 1
    person.send("/queue/a", "1")
    person.send("/queue/a", "2")
    assert len(reader.entries) == 1
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    room.broker.run(room.now)
    assert len(reader.entries) == 2


@pytest.mark.parametrize("nak_limit", [0, 1])
@pytest.mark.parametrize("is_freed", [True, False])
@pytest.mark.parametrize("way", ["commit", "abort", "drop"])
def test_what_was_settled_of_a_queue_that_is_deleted_hinders_nothing(
    way: str, is_freed: bool, nak_limit: int
) -> None:
    """Else the rest of the transaction would belong to it for ever."""
    dying = QueueSettings(id="a", nak_limit=nak_limit, dlq="dead")
    room = Room(dying, QueueSettings())
    person = room.enter()
    for number in range(3):
        person.send("/queue/a", f"a{number}", group="g")
        person.send("/queue/b", f"b{number}", group="g")
    readers = [person.read("/queue/a", "a"), person.read("/queue/b", "b")]
    broker, session = room.broker, person.session
    begun = broker.transactions.begin(session, "t")
    outcomes = [Outcome.ACCEPTED, Outcome.FAILED, Outcome.REJECTED]
    for reader in readers:
        for entry, outcome in zip(list(reader.unsettled.values()), outcomes, strict=True):
            begun.settle(entry, outcome, room.now)
    broker.jobs.portion = 1000 if is_freed else 1
    broker.host.delete_queue("a", "an operator wants it")
    if way == "commit":
        broker.transactions.commit(session, "t", room.now)
    elif way == "abort":
        broker.transactions.abort(session, "t", room.now)
    else:
        broker.drop(session, room.now)
    while broker.jobs.is_busy:
        broker.go_on(room.now)
    other = room.enter().read("/queue/b", "b")
    kept = readers[1].unsettled if way != "drop" else {}
    left = {"commit": 1, "abort": 3, "drop": 3}[way]
    assert len(kept) + len(other.unsettled) == left
    assert "dead" not in broker.host.queues or depth(broker.host.queues["dead"]) == (
        1 if way == "commit" else 0
    )


@pytest.mark.parametrize("ttl", [0, 1])
def test_a_commit_on_disk_shows_nothing_of_a_queue_that_is_deleted(ttl: int) -> None:
    store = HeldStore()
    room = Room(store=store)
    person = room.enter()
    person.send("/queue/a", "1", group="g", persistent=True, expires_ms=ttl)
    (entry,) = room.broker.host.queues["a"].state.index
    room.broker.host.delete_queue("a", "an operator wants it")
    store.write()
    room.broker.run(room.now)
    assert entry.state != PENDING
