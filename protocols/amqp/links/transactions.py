# Compiled by mypyc: see setup.py.
"""Coordinator: local transactions, declared and discharged over a control link (AMQP 1.0 part 4).

    declare            -> declared [txn-id]
    transfer           state transactional [txn-id]           -> the message waits in the core
    disposition        state transactional [txn-id, outcome]  -> the settlement waits in the core
    discharge          [txn-id, fail] -> accepted once it is safe, or rejected with the reason

The core's transaction keeps order and does all or nothing. This file knows who must be told. After
a commit the broker settles the deliveries that the peer has left unsettled. After a rollback the
peer still holds these deliveries; those that the peer has already settled go back to their queue. A
control link that ends rolls back its open transactions.

A delivery with an outcome in a transaction is the transaction's until that has ended. If the peer
settles it outside of the transaction, only the peer's part of it is over: the outcome stays that of
the transaction.

A commit is refused if a part of the transaction failed and the peer was not told by a rejection.
Examples are a refused message that came settled, two outcomes of one delivery, and the settlement
of a delivery that the peer does not hold (any more). Then the whole transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.model.message import Message
from covey.core.naming.destination import Destination
from covey.core.publishing.transactions import Settlement, Transaction
from covey.protocols.amqp.codec import decoder
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import VALUE
from covey.protocols.amqp.outcomes import (
    ACCEPTED_STATE,
    OUTCOMES,
    TRANSACTIONAL,
    State,
    declared,
    outcome_of,
    plain,
    transaction_of,
)

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

DECLARE: Final = (0x31, "amqp:declare:list")
DISCHARGE: Final = (0x32, "amqp:discharge:list")


class Provisional:
    """An outcome in a transaction, of a delivery that the peer has not settled."""

    __slots__ = ("answer", "settlement")

    def __init__(self, answer: bytes, settlement: Settlement | None) -> None:
        self.answer = answer  # with which the broker will settle it
        self.settlement = settlement  # None: there is nothing to settle, as for a browser


class OpenTransaction:
    """A transaction, its control link, and the deliveries with an outcome in it."""

    def __init__(self, name: str, control: ControlLink) -> None:
        self.name = name
        self.control = control
        self.provisional: dict[tuple[OutgoingLink, int], Provisional] = {}
        self.flaw = ""  # what failed; not "": the transaction cannot be committed

    def spoil(self, cause: str) -> None:
        """Note that a part of the transaction failed; the first cause is reported."""
        self.flaw = self.flaw or cause

    def add(
        self, link: OutgoingLink, delivery: int, outcome: State, done: Settlement | None
    ) -> None:
        """Keep the outcome of a delivery."""
        self.provisional[link, delivery] = Provisional(plain(outcome.code), done)

    def compare(self, link: OutgoingLink, delivery: int, outcome: State) -> None:
        """Note that the transaction cannot be committed if a delivery has another outcome here."""
        if self.provisional[link, delivery].answer != plain(outcome.code):
            self.spoil(f"link {link.name}: two outcomes of delivery {delivery}")

    def retire(self, link: OutgoingLink, delivery: int) -> None:
        """Called when the peer has settled a delivery: it cannot get the delivery back."""
        known = self.provisional.pop((link, delivery), None)
        if known is not None and known.settlement is not None:
            known.settlement.is_final = True


class Coordinator:
    """The open transactions of one connection."""

    def __init__(self, engine: AmqpEngine) -> None:
        assert engine.session is not None
        self.engine = engine
        self.session = engine.session
        self.open: dict[bytes, OpenTransaction] = {}
        self.ending: dict[OpenTransaction, None] = {}  # discharged, and not over yet
        self.last_number = 0

    def declare(self, control: ControlLink) -> bytes:
        """Start a transaction; return its id."""
        limit = self.engine.settings.transactions_max
        if len(self.open) >= limit:
            cause = f"the connection has {limit} open transactions already"
            raise RefusedError(cause, "limit")
        self.last_number += 1
        name = f"amqp-{self.last_number}"
        self.engine.broker.transactions.begin(self.session, name)
        self.open[name.encode()] = OpenTransaction(name, control)
        return name.encode()

    def send(self, state: State, targets: tuple[Destination, ...], message: Message) -> bytes:
        """Keep a message for the commit; return the id of its transaction."""
        id, _ = _named_in(state)
        self._core(id).send(targets, message)
        return id

    def settle(self, link: OutgoingLink, delivery: int, state: State, *, is_settled: bool) -> None:
        """Keep a settlement for the commit."""
        try:
            id, outcome = _named_in(state)
            self._enlist(self._core(id), self.open[id], link, delivery, outcome)
        except BrokerError as error:
            self.spoil(state, error.text)
            self.engine.links.close(link, error)
            return
        if is_settled:
            self._retire(link, delivery)

    def keeps(self, link: OutgoingLink, delivery: int, state: State, *, is_settled: bool) -> bool:
        """Called when the peer states an outcome outside of a transaction.

        Return True if a transaction has the delivery: then the outcome stays that of the
        transaction.
        """
        if not self.is_any:
            return False
        having = [each for each in self._all() if (link, delivery) in each.provisional]
        for opened in having if state.code in OUTCOMES else ():
            opened.compare(link, delivery, state)
        if having and is_settled:
            self._retire(link, delivery)
        return bool(having)

    @property
    def is_any(self) -> bool:
        """Return True if a transaction has begun that is not over."""
        return bool(self.open or self.ending)

    def _all(self) -> list[OpenTransaction]:
        return [*self.open.values(), *self.ending]

    def _retire(self, link: OutgoingLink, delivery: int) -> None:
        link.forget(delivery)
        for opened in self._all():
            opened.retire(link, delivery)

    def _enlist(
        self,
        transaction: Transaction,
        opened: OpenTransaction,
        link: OutgoingLink,
        delivery: int,
        outcome: State,
    ) -> None:
        """Add the outcome of a delivery to a transaction."""
        entry = link.unsettled[delivery]
        if (link, delivery) in opened.provisional:
            opened.compare(link, delivery, outcome)
        elif entry is not None and link.holds(entry):
            decided, reason = outcome_of(outcome)
            done = transaction.settle(entry, decided, self.engine.now, reason)
            opened.add(link, delivery, outcome, done)
        elif entry is not None or not link.is_browser:
            opened.spoil(f"link {link.name}: delivery {delivery} is not there to be settled")
        else:
            opened.add(link, delivery, outcome, None)

    def named_by(self, state: State) -> bytes:
        """Return the id of the open transaction that a state names; b"" if it names none."""
        id = transaction_of(state)[0] if state.code == TRANSACTIONAL else None
        return id if id in self.open else b""

    def spoil(self, state: State, cause: str) -> None:
        """Note that a part of the transaction that a state names failed, if it names one."""
        id = self.named_by(state)
        if id:
            self.open[id].spoil(cause)

    def deleted(self, target: Destination, reason: str) -> None:
        """Called when a queue was deleted: transactions that send to it cannot be committed."""
        for opened in self.open.values():
            sends = self.engine.broker.transactions.running(self.session, opened.name).sends
            if any([target in targets for targets, _ in sends]):
                opened.spoil(reason)

    def discharge(self, control: ControlLink, delivery: int, id: bytes, *, fail: bool) -> None:
        """Commit or roll back a transaction; the answer leaves when the result is safe."""
        self._core(id)
        ended = self.open.pop(id)
        if fail or ended.flaw:
            flaw = None if fail else _rolled_back(ended.flaw)
            self._roll_back(ended, lambda: _answer(control, delivery, flaw))
            return

        def done() -> None:
            del self.ending[ended]
            _answer(control, delivery)

        def refused(error: RefusedError) -> None:
            told = _rolled_back(error.text)
            self._when_undone(ended, lambda: _answer(control, delivery, told))

        self.ending[ended] = None
        commit = self.engine.broker.transactions.commit
        after = _settling(ended)
        try:
            commit(self.session, ended.name, self.engine.now, done, refused, after)
        except RefusedError as why:
            refused(why)

    def end(self, control: ControlLink) -> None:
        """Roll back the transactions that a control link has left open."""
        for id, transaction in list(self.open.items()):
            if transaction.control is control:
                del self.open[id]
                self._roll_back(transaction, _nothing)

    def _core(self, id: bytes) -> Transaction:
        transaction = self.open.get(id)
        if transaction is None:
            raise RefusedError(f"there is no transaction {id[:32]!r}", "no-transaction")
        return self.engine.broker.transactions.running(self.session, transaction.name)

    def _roll_back(self, ended: OpenTransaction, then: Callable[[], None]) -> None:
        self.ending[ended] = None
        self.engine.broker.transactions.abort(self.session, ended.name, self.engine.now)
        self._when_undone(ended, then)

    def _when_undone(self, ended: OpenTransaction, then: Callable[[], None]) -> None:
        """Make a call when the peer holds again all that it has not settled."""

        def over() -> None:
            del self.ending[ended]
            then()

        job = self.engine.broker.transactions.undoing(self.session, ended.name)
        if job is None:
            over()
        else:
            job.then(over)


class ControlLink(IncomingLink):
    """A link to the coordinator."""

    def must_wait(self, state: bytes) -> bool:
        """Return True if a command must wait: for a commit, or for a transaction's held sends."""
        return self.session.working > 0 or self.engine.backpressure.held_sends > 0

    def take(self, delivery: int, data: bytes) -> None:
        """Declare or discharge."""
        coordinator = self.engine.coordinator
        command = _command(AmqpMessage.decode(data, self.engine.wall_ms))
        fields = command.value if isinstance(command.value, list) else []
        if command.descriptor in DECLARE:
            self.answer(delivery, declared(coordinator.declare(self)))
        elif command.descriptor in DISCHARGE and fields and isinstance(fields[0], bytes):
            fail = len(fields) > 1 and fields[1] is True
            coordinator.discharge(self, delivery, fields[0], fail=fail)
        else:
            raise ProtocolError("the coordinator is sent declare and discharge only")

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """End the link, and roll back the transactions that were not discharged."""
        super().end(is_closed=is_closed, counted=counted)
        self.engine.coordinator.end(self)


def _answer(control: ControlLink, delivery: int, error: RefusedError | None = None) -> None:
    """Answer a discharge, unless its control link has ended."""
    if control.is_ended:
        return
    if error is None:
        control.answer(delivery, ACCEPTED_STATE)
    else:
        control.refuse(delivery, error)


def _rolled_back(cause: str) -> RefusedError:
    return RefusedError(f"rolled back: {cause}", "rollback")


def _nothing() -> None:
    """Tell nobody: the control link has ended."""


def _settling(ended: OpenTransaction) -> Iterator[int]:
    """Settle the deliveries that the peer has left unsettled, step by step."""
    for (link, delivery), known in list(ended.provisional.items()):
        link.finish(delivery, known.answer)
        yield 1


def _command(message: AmqpMessage) -> decoder.Described:
    if message.sections.body_kind == VALUE:
        body = decoder.decode(message.data, message.sections.body)
        if isinstance(body, decoder.Described):
            return body
    raise ProtocolError("the coordinator is sent declare and discharge only")


def _named_in(state: State) -> tuple[bytes, State]:
    """Return the transaction's id and the outcome of a transactional state."""
    id, outcome = transaction_of(state)
    if id is None:
        raise RefusedError("a transactional state without a transaction's id", "no-transaction")
    return id, outcome
