# Compiled by mypyc: see setup.py.
"""Holding: the messages that a client has and may still acknowledge, and the names it has for them.

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
LATE: Final = "\n"  # in place of a subscription's id: what a frame named was forgotten as late
LATE_MAX = 1000  # late messages of one connection that are remembered; a test makes it small
LINE_STEP: Final = 10**15  # above every number that a connection will come to
LINES_MAX: Final = 999  # numbers of lines, used again after that: 18 digits are read of an id


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
        """Return True if an ACK has covered some messages of a subscription; None: of any."""
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
