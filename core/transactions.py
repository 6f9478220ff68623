"""Transactions: those that clients have open, by the names they gave them.

A name is a session's own, is begun once and ended once, and is free again at the end. A commit
that finds a queue full waits as a whole; the transaction is its session's until all of it is done.
Sends and settlements are carried out in one turn, so they are one batch of the store.
"""

from __future__ import annotations

from collections.abc import Callable

from covey.config.settings import BrokerSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.parking import Work
from covey.core.publishing import Publishing
from covey.core.session import Session
from covey.core.transaction import Transaction


class Transactions:
    """How transactions begin and end."""

    def __init__(self, publishing: Publishing, clock: Clock, limits: BrokerSettings) -> None:
        self.limits = limits
        self._publishing = publishing
        self._clock = clock

    def begin(self, session: Session, name: str) -> Transaction:
        """Start a transaction under a name that is not in use."""
        if name in session.transactions:
            raise RefusedError(f"transaction {name} is running already", "exists")
        if 0 < session.transactions_max <= len(session.transactions):
            raise RefusedError(
                f"the connection has {session.transactions_max} open transactions already,"
                " the most that transactions_max allows",
                "limit",
            )
        transaction = Transaction(self.limits.tx_operations_max, self.limits.tx_bytes_max)
        session.transactions[name] = transaction
        return transaction

    def running(self, session: Session, name: str) -> Transaction:
        """Return a transaction that was begun."""
        transaction = session.transactions.get(name)
        if transaction is None:
            raise RefusedError(f"there is no transaction {name}", "not-found")
        return transaction

    def running_or_new(self, session: Session, name: str) -> Transaction:
        """Return a transaction, started now if the client never said BEGIN (as Apollo does)."""
        return session.transactions.get(name) or self.begin(session, name)

    def commit(
        self, session: Session, name: str, now: float, done: Callable[[], None] | None = None
    ) -> None:
        """Carry a transaction out; raises RefusedError, and aborts it, if a send is refused.

        `done` is called once it is safe; a full queue delays all of it.
        """
        transaction = self.running(session, name)
        self._clock.turn(now)

        def finish() -> None:
            del session.transactions[name]
            transaction.commit_settlements(session.host.now)

        def undo() -> None:
            del session.transactions[name]
            transaction.abort(session.host.now)

        try:
            self._publishing.start(Work(session, transaction.sends, done, undo, finish))
        except RefusedError:
            undo()
            raise

    def abort(self, session: Session, name: str, now: float) -> None:
        """Undo a transaction."""
        transaction = self.running(session, name)
        del session.transactions[name]
        self._clock.turn(now)
        transaction.abort(now)

    def abort_all(self, session: Session, now: float) -> None:
        """Undo what a session that goes has left open."""
        for transaction in list(session.transactions.values()):
            transaction.abort(now)
        session.transactions.clear()
