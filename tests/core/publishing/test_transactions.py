"""Transactions by name: begun once, ended once, so many at a time.

Transactions: all at the commit or nothing, and whose a delivery is meanwhile.
"""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management.reload import reconfigure
from covey.core.model.entry import Outcome
from covey.core.publishing.transactions import Transaction
from tests.core.double import Room, letter, places


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
