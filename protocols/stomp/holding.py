"""Holding: all that one client has and may still acknowledge.

A message is named by its number, before STOMP 1.2 by its message-id. Nothing here looks at all of
them for one acknowledgement, for a client may hold a hundred thousand: what an ACK covers in
`client` mode stands in a line of its subscription's, and what a transaction acknowledges in a list
of the transaction's. An UNSUBSCRIBE does look at all of them.

What needs no ACK but for its credit stands in line, too: a client may never send any, so the oldest
is forgotten where there are too many.
"""

from __future__ import annotations

from collections import OrderedDict

from covey.protocols.stomp.held import Held


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
