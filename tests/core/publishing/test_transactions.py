"""Transactions by name: begun once, ended once, so many at a time."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management.reload import reconfigure
from tests.core.double import Room, letter


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
    reconfigure(broker, Settings.model_validate({"broker": {"tx_operations_max": 1}}), room.now)
    begun = broker.transactions.begin(session, "t")
    begun.send((), letter("1"))
    with pytest.raises(RefusedError, match="tx_operations_max"):
        begun.send((), letter("2"))
