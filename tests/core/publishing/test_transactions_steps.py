"""Transactions: all at the commit or nothing, and whose a delivery is meanwhile."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.publishing.transactions import Transaction
from tests.core.double import Room, letter, places


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
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)  # a second time is ignored
    assert (room.depth("a"), reader.unsettled) == (1, {})
    room.broker.transactions.commit(person.session, "t", room.now)
    assert room.depth("a") == 0


def test_after_an_abort_a_delivery_is_its_consumers_again() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
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
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
    room.broker.unsubscribe(person.session, "s", room.now)
    room.broker.transactions.abort(person.session, "t", room.now)
    assert other.read("/queue/a").names == ["1", "2"]


def test_a_refused_commit_undoes_the_settlements_too() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
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
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
    room.broker.run(room.now)
    assert len(reader.entries) == 2
