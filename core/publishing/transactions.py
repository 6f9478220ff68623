# Compiled by mypyc: see setup.py.
"""Transactions: sends and settlements that happen together or not at all.

Until the commit a sent message is in no queue and no group. A settled delivery still counts as its
consumer's: the group's owner and counts do not change. An entry that was settled in an open
transaction belongs to the transaction, so it stays there when its consumer leaves, and nobody else
may settle it. After an abort the entry is the consumer's again. It returns to its place if the
consumer is gone, or if its client cannot name the delivery any more (`is_final`).

A client may ask for an answer to each operation. No operation is done before the commit, so the
answers wait in the transaction, too. An abort drops them.

`Transactions` begins and ends transactions, by the names that clients give them. A name belongs to
one session. It is begun once, ended once, and free again after that. A commit that finds a queue
full waits as a whole. The session keeps the transaction until all of it is done. Sends and
settlements are carried out in one turn, so they are one batch of the store. A transaction with more
operations than a portion, or with a message to a topic that fills more queues, is carried out in
portions (`core.publishing.long_work`), and is one batch, too.

A transaction may have a fence, by which a repeated commit is recognised (`fences`). A transaction
with a fence is always carried out in one turn, so it is never begun and not yet remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.config.settings import BrokerSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.jobs.job import Job, Jobs, Steps
from covey.core.model.entry import ACQUIRED, Entry, Outcome
from covey.core.publishing.fences import Fence, Fences
from covey.core.publishing.long_work import COMMIT, LongWork
from covey.core.publishing.publishing import Publishing
from covey.core.publishing.waiting_work import Work
from covey.core.session import Session

if TYPE_CHECKING:
    from covey.core.model.consumer import Consumer, Source
    from covey.core.model.message import Message
    from covey.core.naming.destination import Destination


class Settlement:
    """A delivery settled in a transaction, and where it came from."""

    __slots__ = ("consumer", "entry", "is_final", "outcome", "reason", "source")

    def __init__(
        self, entry: Entry, consumer: Consumer, source: Source, outcome: Outcome, reason: str
    ) -> None:
        self.entry = entry
        self.consumer = consumer
        self.source = source
        self.outcome = outcome
        self.reason = reason
        self.is_final = False  # the client has forgotten the delivery: it can never settle it again


class Transaction:
    """What a client did under one transaction id."""

    def __init__(self, operations_max: int, bytes_max: int) -> None:
        self.operations_max = operations_max
        self.bytes_max = bytes_max
        self.sends: list[tuple[tuple[Destination, ...], Message]] = []
        self.settlements: list[Settlement] = []
        self.answers: list[bytes] = []  # for the client, as its protocol writes them
        self.size = 0

    def send(self, targets: tuple[Destination, ...], message: Message) -> None:
        """Keep a message for the commit."""
        self._count(message.weight)
        self.sends.append((targets, message))

    def settle(
        self, entry: Entry, outcome: Outcome, now: float, reason: str = ""
    ) -> Settlement | None:
        """Keep a settlement for the commit; the entry belongs to the transaction from now on.

        Return None if there is nothing to settle.
        """
        consumer = entry.holder
        if entry.state != ACQUIRED or consumer is None or consumer.queue is None:
            return None
        self._count(0)
        consumer.unsettled.pop(entry.seq, None)
        consumer.queue.heard(consumer, now)
        if len(consumer.unsettled) + 1 == consumer.unsettled_max:
            consumer.queue.credit_changed(consumer)  # until now it held as many as it may
        consumer.queue.record(EventKind.ENLIST, entry)
        settlement = Settlement(entry, consumer, consumer.queue, outcome, reason)
        self.settlements.append(settlement)
        return settlement

    def answer(self, answer: bytes) -> None:
        """Keep an answer that the client gets once the commit is safe."""
        if len(self.answers) >= self.operations_max:
            raise self._too_many("answers")
        self._weigh(len(answer))
        self.answers.append(answer)

    def commit_settlements(self, now: float) -> None:
        """Carry the settlements out."""
        for settlement in self.settlements:
            settlement.source.settle(settlement.entry, settlement.outcome, now, settlement.reason)
        self.settlements.clear()

    def aborting(self, time: Callable[[], float]) -> Steps:
        """Undo everything; a delivery is its consumer's again, or returns to its place.

        `time` tells the present: there may be much to undo, and deadlines start again here.
        """
        self.sends.clear()
        self.answers.clear()
        settlements, self.settlements = self.settlements, []
        for settlement in settlements:
            entry = settlement.entry
            now = time()
            if settlement.consumer.is_gone or settlement.is_final:
                settlement.source.settle(entry, Outcome.FAILED, now)
            elif entry.state == ACQUIRED:
                settlement.consumer.unsettled[entry.seq] = entry
                settlement.source.heard(settlement.consumer, now)
                settlement.source.record(EventKind.DELIST, entry)
            yield 1

    def _count(self, size: int) -> None:
        if len(self.sends) + len(self.settlements) >= self.operations_max:
            raise self._too_many("operations")
        self._weigh(size)

    def _too_many(self, what: str) -> RefusedError:
        text = f"the transaction has {self.operations_max} {what} already,"
        return RefusedError(f"{text} the most that tx_operations_max allows", "limit")

    def _weigh(self, size: int) -> None:
        self.size += size
        if self.size > self.bytes_max:
            raise RefusedError(
                f"the transaction holds more than {self.bytes_max} bytes,"
                " the most that tx_bytes_max allows",
                "limit",
            )


class Abort(Job):
    """A transaction is undone."""

    def __init__(self, session: Session, name: str, transaction: Transaction) -> None:
        count = len(transaction.settlements)
        super().__init__("abort", f"transaction {name}", session, count)
        self.name = name
        self.transaction = transaction

    def steps(self) -> Steps:
        """Give back one delivery after the other."""
        yield from self.transaction.aborting(lambda: self.now)


class Transactions:
    """How transactions begin and end."""

    def __init__(
        self, publishing: Publishing, clock: Clock, limits: BrokerSettings, jobs: Jobs
    ) -> None:
        self.limits = limits
        self._jobs = jobs
        self._publishing = publishing
        self._clock = clock
        self._fences = Fences(publishing.commits.ledger, clock)

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
        """Return a transaction; as in Apollo, it is begun now if the client never sent BEGIN."""
        return session.transactions.get(name) or self.begin(session, name)

    def commit(
        self,
        session: Session,
        name: str,
        now: float,
        done: Callable[[], None] | None = None,
        refused: Callable[[RefusedError], None] | None = None,
        after: Steps | None = None,
        fence: Fence | None = None,
    ) -> None:
        """Carry a transaction out; raises RefusedError, and aborts it, if a send is refused.

        `done` is called once the transaction is safe. A full queue delays all of it. A long one is
        done in portions: `refused` is called if it is refused after the first portion. `after` are
        the protocol's own steps, done once all is safe. If `fence` was passed before, nothing is
        sent again, and the transaction counts as done.
        """
        transaction = self.running(session, name)
        self._clock.turn(now)
        host = session.host.id
        count = len(transaction.sends) + len(transaction.settlements)
        if count > self._jobs.portion and fence is None:
            self._commit_in_portions(session, name, transaction, done, refused, after)
            return

        def finish() -> None:
            del session.transactions[name]
            transaction.commit_settlements(session.host.now)
            if fence is not None and not self._fences.has_passed(host, fence):
                self._fences.pass_by(host, fence)

        def undo() -> None:
            del session.transactions[name]
            self._jobs.begin(Abort(session, name, transaction))

        def end() -> None:
            if after is not None:
                for _ in after:
                    pass
            if done is not None:
                done()

        def is_passed() -> bool:
            return fence is not None and self._fences.has_passed(host, fence)

        told = None if done is None and after is None else end
        asked = None if fence is None else is_passed
        sends = transaction.sends
        try:
            if fence is not None and transaction.settlements:
                raise RefusedError("a transaction with a fence has sends only", "invalid")
            self._publishing.publish_all(Work(session, sends, told, undo, finish, is_passed=asked))
        except RefusedError:
            undo()
            raise

    def _commit_in_portions(
        self,
        session: Session,
        name: str,
        transaction: Transaction,
        done: Callable[[], None] | None,
        refused: Callable[[RefusedError], None] | None,
        after: Steps | None,
    ) -> None:
        work = Work(session, transaction.sends)
        settlements = transaction.settlements
        target = f"transaction {name}"
        commit = LongWork(work, self._publishing, COMMIT, target, settlements, after)

        def end() -> None:
            if commit.is_done or commit.flaw is not None:
                session.transactions.pop(name, None)
            if commit.is_done and done is not None:
                self._publishing.promises.after(session, done)
            elif commit.flaw is not None:
                self._jobs.begin(Abort(session, name, transaction))
                if refused is not None:
                    refused(commit.flaw)

        self._jobs.begin(commit, is_waited_for=True)
        if commit.is_over and commit.flaw is not None:
            session.transactions.pop(name, None)
            self._jobs.begin(Abort(session, name, transaction))
            raise commit.flaw
        commit.then(end)

    def abort(self, session: Session, name: str, now: float) -> Abort:
        """Undo a transaction; the job is over when all of it is undone."""
        transaction = self.running(session, name)
        del session.transactions[name]
        self._clock.turn(now)
        abort = Abort(session, name, transaction)
        self._jobs.begin(abort, is_waited_for=True)
        return abort

    def undoing(self, session: Session, name: str) -> Abort | None:
        """Return the job that undoes a transaction, None if it is over."""
        jobs = self._jobs.of(session)
        found = [job for job in jobs if isinstance(job, Abort) and job.name == name]
        return found[0] if found else None
