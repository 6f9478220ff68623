# Compiled by mypyc: see setup.py.
"""Acks: ACK and NACK, in three versions, three modes, in transactions and without.

- `client` mode: an ACK (or NACK) covers all earlier messages of the subscription, too. An ACK of a
  message that was covered settles nothing: workers in threads are late all the time.
  In `client-individual` mode a frame that names nothing is an error.
- A message acknowledged in a transaction raises credit at once, and only once, even if the
  transaction is aborted and the message acknowledged again (the Apollo STOMP manual).
- An ACK on an `auto` subscription only raises credit.
- `credit:n[,m]` on an ACK adds to the windows. With `credit:count,size,false` on SUBSCRIBE nothing
  else does.
- A message that its client held for longer than its deadline has gone back to its place. An ACK or
  NACK of it is late: it settles nothing, raises credit like any other, and ends no connection. A
  RECEIPT that it asks for says `covey-late:true`.
- NACK is a failed try; `requeue:false` (RabbitMQ's word) sends the message to the dead-letter
  queue at once. `covey-release:true` gives it back untried: nothing is counted.

`Held` is a message that a client has and may still acknowledge. The client names it by the number
in its `ack` header, before STOMP 1.2 by its message-id. It stays held while a transaction that
acknowledges it is open: after an ABORT it may be acknowledged again. Of a message that was settled
as it was sent, or that a browser saw, nothing is kept but what its credit needs.

`Holding` is all that one client holds.

- No two messages that a subscription holds have the same message-id; in 1.0, that a connection
  holds. A sender may repeat its ids, and one message may come from two queues. So the id of a
  second one is told from the first by its number. In 1.2 nothing is done about the broker's own
  ids where a subscription reads one queue: no two of its messages share one.
- Nothing looks at all held messages for one acknowledgement: a client may hold a hundred thousand.
  What an ACK covers in `client` mode stands in a line of its subscription. What a transaction
  acknowledges stands in a list of the transaction. Only an UNSUBSCRIBE looks at all of them.
- A message that an ACK has covered may be acknowledged once more, by a worker that is late. That
  means nothing. Numbers in a line start with the line's own number, so whether one was covered can
  be told without remembering it. Ids are not remembered either: where an ACK has covered some, an
  id that names nothing is taken for one of those.
- A message that needs an ACK for its credit alone stands in line, too. A client may never send any,
  so the oldest message is forgotten where there are too many.
- A message that is late is remembered, so that its ACK can be told from nonsense. Where there are
  too many, the oldest are forgotten: then a number or an id that names nothing is taken for one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from covey.core.errors import ProtocolError, RefusedError
from covey.core.host.feed import NO_LANE
from covey.core.jobs.job import Job, Steps
from covey.core.model.entry import GONE, Entry, Outcome
from covey.core.publishing.transactions import Transaction
from covey.protocols.stomp.frame import Frame, is_true
from covey.protocols.stomp.subscribe import AckMode, read_credit
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer
    from covey.protocols.stomp.session import StompSession


V1_0: Final = Version.V1_0
AT_ONCE: Final = 64  # messages that an ACK may cover without being a job
V1_2: Final = Version.V1_2


class Held:
    """One delivery, as the client can name it."""

    __slots__ = ("consumer", "entry", "is_credited", "is_late", "message_id", "transaction")

    def __init__(self, consumer: StompConsumer, entry: Entry, message_id: str) -> None:
        self.consumer = consumer
        self.entry = entry
        self.message_id = message_id  # "" in 1.2 if no other delivery can have the same
        self.is_credited = False
        self.is_late = False  # it was taken from its client, who held it for too long
        self.transaction = ""

    @property
    def key(self) -> tuple[str, str]:
        """What its client names it by: the id, in 1.0 without the subscription it came by."""
        consumer = self.consumer
        return "" if consumer.version is V1_0 else consumer.asked.id, self.message_id

    @property
    def is_cumulative(self) -> bool:
        """An acknowledgement of it covers what its subscription got before."""
        return self.consumer.asked.ack is not AckMode.INDIVIDUAL

    @property
    def is_in_line(self) -> bool:
        """Those before and behind it matter."""
        return self.is_cumulative or self.consumer.is_only_credited


def bare(entry: Entry) -> Entry:
    """Return an entry of that size and nothing else: a body may be large."""
    left = Entry(entry.seq, None, NO_LANE, GONE)
    left.size = entry.size
    return left


Headers = dict[str, str]


def on_ack(session: StompSession, frame: Frame, headers: Headers) -> None:
    """The client is done with a message."""
    _settle(session, headers, Outcome.ACCEPTED)


def on_nack(session: StompSession, frame: Frame, headers: Headers) -> None:
    """The client could not process a message."""
    comes_again = is_true("requeue", headers.get("requeue", "true"))
    is_untried = is_true("covey-release", headers.get("covey-release", "false"))
    if is_untried and not comes_again:
        raise ProtocolError("NACK: covey-release:true and requeue:false are two different wishes")
    back = Outcome.RELEASED if is_untried else Outcome.FAILED
    _settle(session, headers, back if comes_again else Outcome.REJECTED)


def accept(session: StompSession, tags: Sequence[int]) -> None:
    """Settle messages a 1.2 client names by number and nothing else: the hot way.

    Those of one consumer that follow each other are settled in one go.
    """
    known = session.holding.messages
    row: list[Entry] = []
    reader: StompConsumer | None = None  # whose the row is
    for tag in tags:
        held = known.get(tag)
        # One that is in a transaction, or was, has its credit.
        if held is None or held.is_credited or not held.consumer.is_settled_alone:
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
    # Begun even by an ACK that settles nothing: the client will end it.
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
    more = (0, 0) if given is None else read_credit(given)  # before anything is settled
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
    """The messages that one ACK or NACK covers are settled, oldest first."""

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
        self.is_late = False  # some of it was taken from the client before
        self._named = session.holding.messages[tag].consumer
        self._count = 0  # of credit
        self._size = 0
        self._client = session
        self._tags = tags
        self._outcome = outcome
        self._begun = begun
        self._transaction = transaction

    def steps(self) -> Steps:
        """Settle one after the other."""
        for tag in self._tags:
            held = self._client.holding.messages.get(tag)
            if held is not None:
                self._settle(tag, held)
            yield 1

    def grant(self, count: int, size: int) -> None:
        """Raise the window by what was acknowledged, if that raises it, and by so much more."""
        if self._named.asked.credit.is_raised_by_ack:
            count += self._count
            size += self._size
        if count or size:
            self._named.window.grant(count, size)

    def _settle(self, tag: int, held: Held) -> None:
        session = self._client
        if held.is_late or not held.is_credited:
            self._count += 1
            self._size += held.entry.size
        if held.is_late:
            self.is_late = True
            _settle_late(session, tag, held)
            return
        held.is_credited = True
        if self._begun is None:
            _settle_now(session, tag, held, self._outcome)
            return
        session.holding.enlist(tag, self._transaction)
        if not held.consumer.is_only_credited:
            self._begun.settle(held.entry, self._outcome, session.engine.now)


def _settle_late(session: StompSession, tag: int, held: Held) -> None:
    source = held.consumer.queue
    if source is not None:
        source.heard_late(held.consumer, held.entry.seq, session.engine.now)
    session.holding.release(tag)


def _settle_now(session: StompSession, tag: int, held: Held, outcome: Outcome) -> None:
    source = held.consumer.queue
    if source is not None and not held.consumer.is_only_credited:
        source.settle(held.entry, outcome, session.engine.now)
    session.holding.release(tag)


def _find(session: StompSession, headers: Headers) -> tuple[int, str]:
    """Return the number of the message a frame names; 0 and a subscription if it means credit."""
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


LATE: Final = "\n"  # in place of a subscription's id: what a frame named was forgotten as late
LATE_MAX = 1000  # late messages of one connection that are remembered; a test makes it small
LINE_STEP: Final = 10**15  # above every number that a connection will come to
LINES_MAX: Final = 999  # numbers of lines, used again after that: 18 digits are read of an id


class Line:
    """What one subscription got, in order."""

    __slots__ = ("base", "covered", "first", "name", "number", "tags")

    def __init__(self, name: str, number: int, last_tag: int) -> None:
        self.name = name
        self.number = number
        self.base = number * LINE_STEP
        self.first = self.base + last_tag  # its numbers are above this one
        self.covered = 0  # the highest number that an acknowledgement has covered
        # The numbers, in order. A plain dict would search for its first one among all that
        # have gone.
        self.tags: OrderedDict[int, None] = OrderedDict()


class Holding:
    """The messages of one connection that wait for an ACK or NACK."""

    __slots__ = (
        "_by_id",
        "_late",
        "_lines",
        "_lines_made",
        "_numbered",
        "_transactions",
        "last_tag",
        "late_to",
        "messages",
    )

    def __init__(self) -> None:
        self.last_tag = 0
        self.late_to = 0  # late messages up to this number may have been forgotten
        self._late: OrderedDict[int, None] = OrderedDict()
        self.messages: dict[int, Held] = {}
        self._by_id: dict[tuple[str, str], int] = {}
        self._lines: dict[str, Line] = {}  # by subscription
        self._lines_made = 0
        self._numbered: dict[int, Line] = {}  # the same lines
        self._transactions: dict[str, list[int]] = {}

    def add(self, held: Held) -> int:
        """Remember a message; return its number.

        Where a message's id is its own and an ACK is for it alone, `StompConsumer` writes it
        down itself: that is the hot way.
        """
        tag = self.last_tag + 1
        self.last_tag = tag
        if held.is_in_line:
            consumer = held.consumer
            line = self._lines.get(consumer.asked.id) or self._new_line(consumer.asked.id)
            tag += line.base
            line.tags[tag] = None
            if consumer.is_only_credited and len(line.tags) > consumer.unsettled_max:
                self.release(next(iter(line.tags)))
        self.messages[tag] = held
        if held.message_id:
            # One that is settled already may be mixed up: its ACK only means credit.
            while held.key in self._by_id and not held.consumer.is_only_credited:
                held.message_id += f"-{self.last_tag}"
            self._by_id[held.key] = tag
        return tag

    def _new_line(self, name: str) -> Line:
        number = self._lines_made % LINES_MAX + 1
        self._lines_made += 1
        line = Line(name, number, self.last_tag - 1)
        self._lines[name] = line
        self._numbered[number] = line
        return line

    def release(self, tag: int) -> None:
        """Forget a message that was acknowledged for good."""
        held = self.messages.pop(tag, None)
        if held is None:
            return
        if held.is_late:
            self._late.pop(tag, None)
        self._forget_id(tag, held)
        if held.is_in_line:
            self._take_from_line(tag, held)

    def _forget_id(self, tag: int, held: Held) -> None:
        if held.message_id and self._by_id.get(held.key) == tag:
            del self._by_id[held.key]

    def run_out(self, consumer: StompConsumer, entries: list[Entry]) -> None:
        """Hear that messages were taken from their client: what it says of them is late.

        An entry may be delivered to the same client again, and is no longer this delivery.
        """
        taken = set(entries)
        for tag, held in list(self.messages.items()):
            if held.entry in taken and held.consumer is consumer and not held.transaction:
                held.entry = bare(held.entry)
                held.is_late = held.is_credited = True
                self._late[tag] = None
                if consumer.version is V1_2:  # the next delivery may have the sender's id again
                    self._forget_id(tag, held)
        while len(self._late) > LATE_MAX:
            forgotten = self._late.popitem(last=False)[0]
            self.late_to = max(self.late_to, forgotten)
            self.release(forgotten)

    def number_of(self, message_id: str, subscription: str | None) -> int:
        """Return the message of that id if it may be acknowledged; 0: there is none."""
        tag = self._by_id.get((subscription or "", message_id)) or self._by_id.get(("", message_id))
        if tag is None:
            return 0
        held = self.messages[tag]
        is_meant = subscription is None or subscription == held.consumer.asked.id
        return tag if is_meant and not held.transaction else 0

    def cover(self, tag: int) -> list[int]:
        """Return the numbers that an acknowledgement of a free message covers, oldest first."""
        named = self.messages[tag]
        if not named.is_cumulative:
            return [tag]
        line = self._lines[named.consumer.asked.id]
        line.covered = max(line.covered, tag)
        covered = []
        for other in line.tags:
            if other > tag:
                break
            covered.append(other)
        return covered

    def subscription_covering(self, tag: int) -> str:
        """Return in which subscription a number was covered before; "" if it was not."""
        line = self._numbered.get(tag // LINE_STEP)
        return line.name if line is not None and line.first < tag <= line.covered else ""

    def may_have_covered(self, subscription: str | None) -> bool:
        """Say whether an acknowledgement has covered some messages of a subscription, or of any."""
        lines = self._lines
        named = lines.values() if subscription is None else [lines.get(subscription)]
        return any([line is not None and line.covered > 0 for line in named])

    # Transactions.

    def enlist(self, tag: int, transaction: str) -> None:
        """Let a transaction acknowledge a message when it ends well."""
        held = self.messages[tag]
        held.transaction = transaction
        self._transactions.setdefault(transaction, []).append(tag)
        if held.is_in_line:
            self._take_from_line(tag, held)

    def committing(self, transaction: str) -> Iterator[int] | None:
        """Return the steps that forget what a transaction acknowledged for good; None: nothing."""
        tags = self._transactions.pop(transaction, None)
        return None if tags is None else self._releasing(tags)

    def _releasing(self, tags: list[int]) -> Iterator[int]:
        for tag in tags:
            self.release(tag)
            yield 1

    def aborted(self, transaction: str) -> None:
        """Let what a transaction acknowledged be acknowledged again."""
        again = set()
        for tag in self._transactions.pop(transaction, ()):
            held = self.messages.get(tag)
            if held is None:
                continue
            held.transaction = ""
            if held.is_in_line:
                line = self._lines[held.consumer.asked.id]
                line.tags[tag] = None
                again.add(line)
        for line in again:
            line.tags = OrderedDict.fromkeys(sorted(line.tags))

    def forgetting(self, subscription: str) -> Iterator[int]:
        """Forget what a subscription that ended had delivered; transactions do not need it.

        A client may hold very much, so that is done step by step.
        """
        for tag in list(self.messages):
            held = self.messages.get(tag)
            if held is not None and held.consumer.asked.id == subscription:
                self.release(tag)
            yield 1
        line = self._lines.pop(subscription, None)
        if line is not None and self._numbered.get(line.number) is line:
            del self._numbered[line.number]

    def _take_from_line(self, tag: int, held: Held) -> None:
        """Take a message out of its line; one in a transaction has left it already."""
        line = self._lines.get(held.consumer.asked.id)
        if line is not None:
            line.tags.pop(tag, None)
