# Compiled by mypyc: see setup.py.
"""Acks: ACK and NACK, in three versions, three modes, in transactions and without.

- `client` mode: an ACK (or NACK) covers all earlier messages of the subscription, too. An ACK of a
  message that was covered before settles nothing: worker threads often acknowledge out of order.
  In `client-individual` mode a frame that names no held message is an error.
- A message that is acknowledged in a transaction raises credit at once. It does so only once, even
  if the transaction is aborted and the message is acknowledged again (the Apollo STOMP manual).
- An ACK on an `auto` subscription only raises credit.
- `credit:n[,m]` on an ACK adds to the windows. After `credit:count,size,false` on SUBSCRIBE nothing
  else adds to them.
- A message that its client held for longer than its deadline has gone back to its place. An ACK or
  NACK of that message is late. A late frame settles nothing, raises credit like any other, and does
  not end the connection. The RECEIPT of a late frame says `covey-late:true`.
- NACK counts as a failed delivery; `requeue:false` (RabbitMQ's word) sends the message to the
  dead-letter queue at once. `covey-release:true` returns the message without counting a failure.

`holding` knows what a client holds, and how the client names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from covey.core.errors import ProtocolError, RefusedError
from covey.core.jobs.job import Job, Steps
from covey.core.model.entry import Entry, Outcome
from covey.core.publishing.transactions import Transaction
from covey.protocols.stomp.frame import Frame, is_true
from covey.protocols.stomp.holding import LATE, Held
from covey.protocols.stomp.subscribe import read_credit
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer
    from covey.protocols.stomp.session import StompSession


AT_ONCE: Final = 64  # an ACK that covers more messages than this becomes a job


Headers = dict[str, str]


def on_ack(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Accept a message: the client is done with it."""
    _settle(session, headers, Outcome.ACCEPTED)


def on_nack(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Return or dead-letter a message: the client did not process it."""
    comes_again = is_true("requeue", headers.get("requeue", "true"))
    is_untried = is_true("covey-release", headers.get("covey-release", "false"))
    if is_untried and not comes_again:
        raise ProtocolError("NACK: covey-release:true and requeue:false are two different wishes")
    back = Outcome.RELEASED if is_untried else Outcome.FAILED
    _settle(session, headers, back if comes_again else Outcome.REJECTED)


def accept(session: StompSession, tags: Sequence[int]) -> None:
    """Accept the messages of plain ACKs, which only have a number (STOMP 1.2): the hot path.

    Neighbouring messages of one consumer are settled together.
    """
    known = session.holding.messages
    row: list[Entry] = []
    reader: StompConsumer | None = None  # the consumer of the row's messages
    for tag in tags:
        held = known.get(tag)
        # `is_credited`: the message is or was in a transaction, and has raised credit already.
        if held is None or held.is_credited or held.is_late or not held.consumer.is_settled_alone:
            _accept_row(session, reader, row)
            row = []
            _settle(session, {"id": str(tag)}, Outcome.ACCEPTED)
            continue
        if held.consumer is not reader:
            _accept_row(session, reader, row)
            row = []
            reader = held.consumer
        if held.message_id:
            session.holding.release(tag)
        else:
            del known[tag]
        row.append(held.entry)
    _accept_row(session, reader, row)


def _accept_row(session: StompSession, consumer: StompConsumer | None, row: list[Entry]) -> None:
    if consumer is None or not row:
        return
    source = consumer.queue
    if source is not None:
        source.accept(consumer, row, session.engine.now)
    if consumer.is_credited_by_ack:
        consumer.window.grant(len(row), sum([entry.size for entry in row]))


def _settle(session: StompSession, headers: Headers, outcome: Outcome) -> None:
    tag, subscription = _find(session, headers)
    name = headers.get("transaction")
    transactions = session.engine.broker.transactions
    # Even an ACK that settles nothing begins the transaction: the client will end it.
    begun = None if name is None else transactions.running_or_new(session.core, name)
    receipt = headers.get("receipt")

    def answer(*, is_late: bool) -> None:
        if receipt is None:
            return
        frame = session.receipts.written(receipt, is_late=is_late)
        if begun is None:
            session.when_safe(session.receipts.sender([frame]))
        else:
            begun.answer(frame)

    if tag == 0:
        _only_credit(session, headers, subscription)
        answer(is_late=subscription == LATE)
        return
    given = headers.get("credit")
    # Nothing is settled yet: `read_credit` may refuse the frame.
    more = (0, 0) if given is None else read_credit(given)
    ack = Acknowledge(session, tag, outcome, begun, name or "")

    def finish() -> None:
        ack.grant(more[0], more[1])
        answer(is_late=ack.is_late)

    if ack.total <= AT_ONCE:
        for _ in ack.steps():
            pass
        finish()
    else:
        ack.then(session.engine.guarded(finish))
        session.engine.broker.jobs.begin(ack, is_waited_for=True)


class Acknowledge(Job):
    """Settles the messages that one ACK or NACK covers, oldest first."""

    def __init__(
        self,
        session: StompSession,
        tag: int,
        outcome: Outcome,
        begun: Transaction | None,
        transaction: str,
    ) -> None:
        tags = session.holding.cover(tag)
        super().__init__("acknowledge", f"{len(tags)} messages", session.core, len(tags))
        self.is_late = False  # True if a message was taken from the client before
        self._named = session.holding.messages[tag].consumer
        self._count = 0  # messages of credit to grant
        self._size = 0  # bytes of credit to grant
        self._client = session
        self._tags = tags
        self._outcome = outcome
        self._begun = begun
        self._transaction = transaction

    def steps(self) -> Steps:
        """Settle one message a step."""
        for tag in self._tags:
            held = self._client.holding.messages.get(tag)
            if held is not None:
                self._settle(tag, held)
            yield 1

    def grant(self, count: int, size: int) -> None:
        """Raise the window by `count` and `size`, and by what was acknowledged if ACKs raise it."""
        if self._named.asked.credit.is_raised_by_ack:
            count += self._count
            size += self._size
        if count or size:
            self._named.window.grant(count, size)

    def _settle(self, tag: int, held: Held) -> None:
        session = self._client
        if not held.is_credited:
            self._count += 1
            self._size += held.entry.size
        held.is_credited = True
        if held.is_late:
            self.is_late = True
            self._settle_late(tag, held)
            return
        if self._begun is None:
            _settle_now(session, tag, held, self._outcome)
            return
        session.holding.enlist(tag, self._transaction)
        if not held.consumer.is_only_credited:
            self._begun.settle(held.entry, self._outcome, session.engine.now)

    def _settle_late(self, tag: int, held: Held) -> None:
        """Settle nothing; after an ABORT the message is late as before."""
        session = self._client
        source = held.consumer.queue
        if source is not None:
            source.heard_late(held.consumer, held.entry.seq, session.engine.now)
        if self._begun is None:
            session.holding.release(tag)
        else:
            session.holding.enlist(tag, self._transaction)


def _settle_now(session: StompSession, tag: int, held: Held, outcome: Outcome) -> None:
    source = held.consumer.queue
    if source is not None and not held.consumer.is_only_credited:
        source.settle(held.entry, outcome, session.engine.now)
    session.holding.release(tag)


def _find(session: StompSession, headers: Headers) -> tuple[int, str]:
    """Return the tag of the message that a frame names, and "".

    If the frame can only raise credit, return 0 and the subscription, or `LATE` if the message was
    late and is forgotten.
    """
    holding = session.holding
    if session.version is Version.V1_2:
        text = headers["id"]
        tag = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
        held = holding.messages.get(tag)
        if held is not None and not held.transaction:
            return tag, ""
        name = holding.subscription_covering(tag)
        if not name and 0 < tag <= holding.late_to:
            return 0, LATE
        if not name:
            raise RefusedError(f"id {text[:64]} names no message to acknowledge", "not-found")
        return 0, name
    message_id = headers["message-id"]
    subscription = headers.get("subscription")
    tag = holding.number_of(message_id, subscription)
    if tag or _is_auto(session, subscription) or holding.may_have_covered(subscription):
        return tag, subscription or ""
    if holding.late_to:
        return 0, LATE
    raise RefusedError(f"message-id {message_id[:64]} names no message to acknowledge", "not-found")


def _is_auto(session: StompSession, subscription: str | None) -> bool:
    known = session.core.subscriptions
    named = list(known.values()) if subscription is None else [known.get(subscription)]
    return any(one is not None and one.window.is_automatic for one in named)


def _only_credit(session: StompSession, headers: Headers, name: str) -> None:
    given = headers.get("credit")
    subscription = session.core.subscriptions.get(name)
    if given is not None and subscription is not None:
        subscription.window.grant(*read_credit(given))
