# Compiled by mypyc: see setup.py.
"""Holding: the messages that a client may still acknowledge, and how the client names them.

`Held` is a message that a client has and may still acknowledge. In STOMP 1.2 the client names the
message by the number in its `ack` header, in older versions by its message-id. A message stays held
while a transaction that acknowledges it is open: after an ABORT it may be acknowledged again. For a
message that was settled when it was sent, or that a browser saw, only what its credit needs is
kept.

`Holding` is all that one client holds.

- No two messages that a subscription holds have the same message-id. In 1.0 this goes for all
  messages that a connection holds. A sender may repeat its ids, and one message may come from two
  queues. So the second message's id gets a number appended. In 1.2 a subscription to one queue
  keeps no ids that the broker made, as no two messages share one. It keeps those of messages that
  were sent to several places, and all once a sender gives an id that looks like the broker's.
- No acknowledgement searches all held messages: a client may hold a hundred thousand. What an ACK
  covers in `client` mode is in the `Line` of its subscription. What a transaction acknowledges is
  in a list of the transaction. Only an UNSUBSCRIBE goes through all held messages.
- A message that an ACK has covered may be acknowledged once more, by a worker that is slow. The
  second ACK has no effect. A tag in a line starts with the line's number, so the tag alone tells
  whether it was covered. Covered message-ids are not remembered either: once an ACK has covered
  messages of a subscription, an unknown id is taken for one of those.
- A message whose ACK only raises credit is in the line, too. A client may never send such ACKs. So
  the oldest message is forgotten if there are too many.
- A message that its client held for too long is late. It is remembered, so that its ACK is not
  mistaken for an error. If there are too many late messages, the oldest are forgotten. From then
  on an unknown number or id is taken for a late message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from covey.core.host.feed import NO_LANE
from covey.core.model.entry import GONE, Entry
from covey.protocols.stomp.subscribe import AckMode
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer

V1_0: Final = Version.V1_0
V1_2: Final = Version.V1_2
LATE: Final = "\n"  # stands for a subscription's id: the frame names a forgotten late message
LATE_MAX = 1000  # late messages that one connection remembers; a test sets it lower
LINE_STEP: Final = 10**15  # more than a connection will ever deliver
LINES_MAX: Final = 999  # then line numbers are used again: an `ack` id has at most 18 digits


class Held:
    """One delivery, as the client can name it."""

    __slots__ = ("consumer", "entry", "is_credited", "is_late", "message_id", "transaction")

    def __init__(self, consumer: StompConsumer, entry: Entry, message_id: str) -> None:
        self.consumer = consumer
        self.entry = entry
        self.message_id = message_id  # "" in 1.2 if no other delivery can have the same id
        self.is_credited = False
        self.is_late = False  # it was taken from its client, which held it for too long
        self.transaction = ""

    @property
    def key(self) -> tuple[str, str]:
        """The name that the client uses: subscription and message-id; in 1.0 the id alone."""
        consumer = self.consumer
        return "" if consumer.version is V1_0 else consumer.asked.id, self.message_id

    @property
    def is_cumulative(self) -> bool:
        """True if its acknowledgement also covers the subscription's earlier messages."""
        return self.consumer.asked.ack is not AckMode.INDIVIDUAL

    @property
    def is_in_line(self) -> bool:
        """True if it has a place in its subscription's `Line`: order matters for it."""
        return self.is_cumulative or self.consumer.is_only_credited


def bare(entry: Entry) -> Entry:
    """Return an entry that has only the number and the size: a body may be large."""
    left = Entry(entry.seq, None, NO_LANE, GONE)
    left.size = entry.size
    return left


class Line:
    """The tags of the messages that one subscription got, in order."""

    __slots__ = ("base", "covered", "first", "name", "number", "tags")

    def __init__(self, name: str, number: int, last_tag: int) -> None:
        self.name = name
        self.number = number
        self.base = number * LINE_STEP
        self.first = self.base + last_tag  # all tags of this line are higher
        self.covered = 0  # the highest tag that an acknowledgement has covered
        # In order. A plain dict would be slow: to find its first key, it passes all deleted ones.
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
        self.late_to = 0  # late messages up to this tag may have been forgotten
        self._late: OrderedDict[int, None] = OrderedDict()
        self.messages: dict[int, Held] = {}
        self._by_id: dict[tuple[str, str], int] = {}
        self._lines: dict[str, Line] = {}  # by subscription
        self._lines_made = 0
        self._numbered: dict[int, Line] = {}  # the same lines, by their numbers
        self._transactions: dict[str, list[int]] = {}

    def add(self, held: Held) -> int:
        """Remember a message; return its tag.

        The hot path does not come here: `StompConsumer` itself adds a message whose id no other
        message can have and whose ACK covers no other message.
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
            # If an ACK only means credit, two messages may have the same id.
            while held.key in self._by_id and not held.consumer.is_only_credited:
                held.message_id += f"-{self.last_tag}"
            self._by_id[held.key] = tag
        return tag

    def name(self, tag: int, held: Held, message_id: str) -> None:
        """Remember the id of a message that was held by its number alone."""
        held.message_id = message_id
        self._by_id.setdefault(held.key, tag)

    def _new_line(self, name: str) -> Line:
        number = self._lines_made % LINES_MAX + 1
        self._lines_made += 1
        line = Line(name, number, self.last_tag - 1)
        self._lines[name] = line
        self._numbered[number] = line
        return line

    def release(self, tag: int) -> None:
        """Forget a message whose acknowledgement is final."""
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
        """Called when messages were taken from their client: an ACK or NACK of them is late.

        The entry may be delivered to the same client again. That is another delivery, so the late
        one gets an entry of its own.
        """
        taken = set(entries)
        left = len(taken)  # most often they are the first: the rest need not be looked at
        for tag, held in self.messages.items():
            if held.entry in taken and held.consumer is consumer and not held.transaction:
                held.entry = bare(held.entry)
                held.is_late = True
                self._late[tag] = None
                if consumer.version is V1_2:  # so the next delivery may have the sender's id
                    self._forget_id(tag, held)
                left -= 1
                if not left:
                    break
        while len(self._late) > LATE_MAX:
            forgotten = self._late.popitem(last=False)[0]
            self.late_to = max(self.late_to, forgotten)
            self.release(forgotten)

    def number_of(self, message_id: str, subscription: str | None) -> int:
        """Return the tag of the message with that id; 0 if no such message may be acknowledged."""
        tag = self._by_id.get((subscription or "", message_id)) or self._by_id.get(("", message_id))
        if tag is None:
            return 0
        held = self.messages[tag]
        is_meant = subscription is None or subscription == held.consumer.asked.id
        return tag if is_meant and not held.transaction else 0

    def cover(self, tag: int) -> list[int]:
        """Return the tags that an acknowledgement covers, oldest first.

        The message of `tag` must not be in a transaction.
        """
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
        """Return the subscription in which an earlier ACK covered that tag; "" if none did."""
        line = self._numbered.get(tag // LINE_STEP)
        return line.name if line is not None and line.first < tag <= line.covered else ""

    def may_have_covered(self, subscription: str | None) -> bool:
        """Return True if an ACK has covered messages of a subscription; None: of any one."""
        lines = self._lines
        named = lines.values() if subscription is None else [lines.get(subscription)]
        return any([line is not None and line.covered > 0 for line in named])

    # Transactions.

    def enlist(self, tag: int, transaction: str) -> None:
        """Note that the COMMIT of a transaction will acknowledge a message."""
        held = self.messages[tag]
        held.transaction = transaction
        self._transactions.setdefault(transaction, []).append(tag)
        if held.is_in_line:
            self._take_from_line(tag, held)

    def committing(self, transaction: str) -> Iterator[int] | None:
        """Return the steps that forget what a COMMIT acknowledges; None if that is nothing."""
        tags = self._transactions.pop(transaction, None)
        return None if tags is None else self._releasing(tags)

    def _releasing(self, tags: list[int]) -> Iterator[int]:
        for tag in tags:
            self.release(tag)
            yield 1

    def aborted(self, transaction: str) -> None:
        """Called after an ABORT: what the transaction acknowledged may be acknowledged again."""
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
        """Forget the messages of a subscription that ended, step by step: there may be many.

        Open transactions do not need them here.
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
        """Take a message out of its line, unless a transaction has taken it out already."""
        line = self._lines.get(held.consumer.asked.id)
        if line is not None:
            line.tags.pop(tag, None)
