# Compiled by mypyc: see setup.py.
"""Acks: ACK and NACK, in three versions, three modes, in transactions and without.

- `client` mode: an ACK (or NACK) covers all earlier messages of the subscription, too.
- A message acknowledged in a transaction raises credit at once, and only once, even if the
  transaction is aborted and the message acknowledged again (the Apollo STOMP manual).
- An ACK on an `auto` subscription only raises credit.
- `credit:n[,m]` on an ACK adds to the windows; with `credit:count,size,false` on SUBSCRIBE it is
  the only thing that does.
- NACK is a failed try; `requeue:false` (RabbitMQ's word) sends the message to the dead-letter
  queue at once.

Held: a message a client has and may still acknowledge.

By the number in its `ack` header in STOMP 1.2, by message-id before. It stays held while a
transaction that acknowledges it is open: after an ABORT it may be acknowledged again, but credit
for it is given only once. Of one that was settled as it was sent, or that a browser saw, nothing is
kept but what its credit needs.

Holding: all that one client has and may still acknowledge.

A message is named by its number, before STOMP 1.2 by its message-id. Nothing here looks at all of
them for one acknowledgement, for a client may hold a hundred thousand: what an ACK covers in
`client` mode stands in a line of its subscription's, and what a transaction acknowledges in a list
of the transaction's. An UNSUBSCRIBE does look at all of them.

What needs no ACK but for its credit stands in line, too: a client may never send any, so the oldest
is forgotten where there are too many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.errors import RefusedError
from covey.core.host.feed import NO_LANE
from covey.core.model.entry import GONE, Entry, Outcome
from covey.protocols.stomp.frame import Frame, is_true
from covey.protocols.stomp.subscribe import AckMode, read_credit
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer
    from covey.protocols.stomp.engine import StompEngine


class Held:
    """One delivery, as the client can name it."""

    __slots__ = ("consumer", "entry", "is_credited", "message_id", "transaction")

    def __init__(self, consumer: StompConsumer, entry: Entry, message_id: str) -> None:
        self.consumer = consumer
        self.entry = entry
        self.message_id = message_id  # "" in 1.2, where nobody acknowledges by it
        self.is_credited = False
        self.transaction = ""

    @property
    def is_cumulative(self) -> bool:
        """An acknowledgement of it covers what its subscription got before."""
        return self.consumer.wish.ack is not AckMode.INDIVIDUAL

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


def on_ack(engine: StompEngine, frame: Frame, headers: Headers) -> None:
    """The client is done with a message."""
    _settle(engine, headers, Outcome.ACCEPTED)


def on_nack(engine: StompEngine, frame: Frame, headers: Headers) -> None:
    """The client could not process a message."""
    comes_again = is_true("requeue", headers.get("requeue", "true"))
    _settle(engine, headers, Outcome.FAILED if comes_again else Outcome.REJECTED)


def accept(engine: StompEngine, tags: Sequence[int]) -> None:
    """Settle messages a 1.2 client names by number and nothing else: the hot way.

    Those of one consumer that follow each other are settled in one go.
    """
    known = engine.holding.messages
    row: list[Entry] = []
    reader: StompConsumer | None = None  # whose the row is
    for tag in tags:
        held = known.get(tag)
        # One that is in a transaction, or was, has its credit.
        if held is None or held.is_credited or not held.consumer.is_settled_alone:
            _accept_row(engine, reader, row)
            row = []
            _settle(engine, {"id": str(tag)}, Outcome.ACCEPTED)
            continue
        if held.consumer is not reader:
            _accept_row(engine, reader, row)
            row = []
            reader = held.consumer
        del known[tag]
        row.append(held.entry)
    _accept_row(engine, reader, row)


def _accept_row(engine: StompEngine, consumer: StompConsumer | None, row: list[Entry]) -> None:
    if consumer is None or not row:
        return
    source = consumer.queue
    if source is not None:
        source.accept(consumer, row, engine.now)
    if consumer.is_credited_by_ack:
        consumer.window.grant(len(row), sum([entry.size for entry in row]))


def _settle(engine: StompEngine, headers: Headers, outcome: Outcome) -> None:
    tag = _find(engine, headers)
    if tag == 0:
        _only_credit(engine, headers)
    else:
        _settle_held(engine, headers, tag, outcome)
    receipt = headers.get("receipt")
    if receipt is not None:
        engine.when_safe(engine.receipt(receipt))


def _settle_held(engine: StompEngine, headers: Headers, tag: int, outcome: Outcome) -> None:
    holding = engine.holding
    named = holding.messages[tag]
    wish = named.consumer.wish
    transaction = headers.get("transaction", "")
    given = headers.get("credit")
    more = (0, 0) if given is None else read_credit(given)  # before anything is settled
    count, size = 0, 0
    for covered in holding.covered_by(tag):
        held = holding.messages[covered]
        if not held.is_credited:
            held.is_credited = True
            count += 1
            size += held.entry.size
        if transaction:
            _settle_later(engine, covered, held, transaction, outcome)
        else:
            _settle_now(engine, covered, held, outcome)
    if not wish.credit.is_raised_by_ack:
        count, size = 0, 0
    count, size = count + more[0], size + more[1]
    if count or size:
        named.consumer.window.grant(count, size)


def _settle_now(engine: StompEngine, tag: int, held: Held, outcome: Outcome) -> None:
    source = held.consumer.queue
    if source is not None and not held.consumer.is_only_credited:
        source.settle(held.entry, outcome, engine.now)
    engine.holding.release(tag)


def _settle_later(
    engine: StompEngine, tag: int, held: Held, transaction: str, outcome: Outcome
) -> None:
    # Begun even by an ACK that only means credit: the client will end it.
    begun = engine.broker.transactions.running_or_new(engine.the_session, transaction)
    engine.holding.enlist(tag, transaction)
    if not held.consumer.is_only_credited:
        begun.settle(held.entry, outcome)


def _find(engine: StompEngine, headers: Headers) -> int:
    """Return the number of the message a frame names; 0 if it can only mean credit."""
    if engine.version is Version.V1_2:
        text = headers["id"]
        tag = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
        held = engine.holding.messages.get(tag)
        if held is None or held.transaction:
            raise RefusedError(f"id {text[:64]} names no message to acknowledge", "not-found")
        return tag
    message_id = headers["message-id"]
    subscription = headers.get("subscription")
    tag = engine.holding.number_of(message_id, subscription)
    if tag or _is_auto(engine, subscription):
        return tag
    raise RefusedError(f"message-id {message_id[:64]} names no message to acknowledge", "not-found")


def _is_auto(engine: StompEngine, subscription: str | None) -> bool:
    known = engine.the_session.subscriptions
    named = list(known.values()) if subscription is None else [known.get(subscription)]
    return any(one is not None and one.window.is_automatic for one in named)


def _only_credit(engine: StompEngine, headers: Headers) -> None:
    given = headers.get("credit")
    subscription = engine.the_session.subscriptions.get(headers.get("subscription", ""))
    if given is not None and subscription is not None:
        subscription.window.grant(*read_credit(given))


class Holding:
    """The messages of one connection that wait for an ACK or NACK."""

    __slots__ = ("_by_id", "_lines", "_transactions", "last_tag", "messages")

    def __init__(self) -> None:
        self.last_tag = 0
        self.messages: dict[int, Held] = {}
        self._by_id: dict[str, list[int]] = {}  # 1.0 and 1.1 acknowledge by message-id
        # By subscription: the numbers, in order. A plain dict would search for its first one
        # among all that have gone.
        self._lines: dict[str, OrderedDict[int, None]] = {}
        self._transactions: dict[str, list[int]] = {}

    def add(self, held: Held) -> int:
        """Remember a message; return its number.

        Where nothing but its number names a message and an ACK is for it alone, `StompConsumer`
        writes it down itself: that is the hot way.
        """
        tag = self.last_tag + 1
        self.last_tag = tag
        self.messages[tag] = held
        if held.message_id:
            self._by_id.setdefault(held.message_id, []).append(tag)
        if held.is_in_line:
            consumer = held.consumer
            line = self._lines.setdefault(consumer.wish.id, OrderedDict())
            line[tag] = None
            if consumer.is_only_credited and len(line) > consumer.unsettled_max:
                self.release(next(iter(line)))
        return tag

    def release(self, tag: int) -> None:
        """Forget a message that was acknowledged for good."""
        held = self.messages.pop(tag, None)
        if held is None:
            return
        if held.message_id:
            tags = self._by_id[held.message_id]
            tags.remove(tag)
            if not tags:
                del self._by_id[held.message_id]
        if held.is_in_line:
            self._take_from_line(tag, held)

    def number_of(self, message_id: str, subscription: str | None) -> int:
        """Return the oldest message of that id that may be acknowledged; 0: there is none."""
        for tag in self._by_id.get(message_id, ()):
            held = self.messages[tag]
            if subscription in (None, held.consumer.wish.id) and not held.transaction:
                return tag
        return 0

    def covered_by(self, tag: int) -> list[int]:
        """Return the numbers an acknowledgement of a free message covers, oldest first."""
        named = self.messages[tag]
        if not named.is_cumulative:
            return [tag]
        covered = []
        for other in self._lines[named.consumer.wish.id]:
            if other > tag:
                break
            covered.append(other)
        return covered

    # Transactions.

    def enlist(self, tag: int, transaction: str) -> None:
        """Let a transaction acknowledge a message when it ends well."""
        held = self.messages[tag]
        held.transaction = transaction
        self._transactions.setdefault(transaction, []).append(tag)
        if held.is_in_line:
            self._take_from_line(tag, held)

    def committed(self, transaction: str) -> None:
        """Forget what a transaction acknowledged for good."""
        for tag in self._transactions.pop(transaction, ()):
            self.release(tag)

    def aborted(self, transaction: str) -> None:
        """Let what a transaction acknowledged be acknowledged again."""
        again = set()
        for tag in self._transactions.pop(transaction, ()):
            held = self.messages.get(tag)
            if held is None:
                continue
            held.transaction = ""
            if held.is_in_line:
                name = held.consumer.wish.id
                self._lines.setdefault(name, OrderedDict())[tag] = None
                again.add(name)
        for name in again:
            self._lines[name] = OrderedDict.fromkeys(sorted(self._lines[name]))

    def forget(self, subscription: str) -> None:
        """Forget what a subscription that ended had delivered; transactions do not need it."""
        for tag, held in list(self.messages.items()):
            if held.consumer.wish.id == subscription:
                self.release(tag)

    def _take_from_line(self, tag: int, held: Held) -> None:
        """Take a message out of its line; one in a transaction has left it already."""
        name = held.consumer.wish.id
        line = self._lines.get(name)
        if line is not None:
            line.pop(tag, None)
            if not line:
                del self._lines[name]
