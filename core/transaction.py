"""Transaction: sends and settlements that happen together or not at all.

Until the commit a sent message is in no queue and no group, and a settled delivery stays with
its consumer: the group's ownership and counts are unchanged. An entry settled in an open
transaction belongs to the transaction, so that it stays with it when its consumer goes; after
an abort it is the consumer's again, or returns to its place if the consumer is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.entry import ACQUIRED, Entry, Outcome
from covey.core.errors import RefusedError
from covey.core.events import EventKind

if TYPE_CHECKING:
    from covey.core.consumer import Consumer
    from covey.core.destination import Destination
    from covey.core.message import Message
    from covey.core.source import Source


class Settlement:
    """A delivery settled in a transaction, and where it came from."""

    __slots__ = ("consumer", "entry", "outcome", "reason", "source")

    def __init__(
        self, entry: Entry, consumer: Consumer, source: Source, outcome: Outcome, reason: str
    ) -> None:
        self.entry = entry
        self.consumer = consumer
        self.source = source
        self.outcome = outcome
        self.reason = reason


class Transaction:
    """What a client did under one transaction id."""

    def __init__(self, operations_max: int, bytes_max: int) -> None:
        self.operations_max = operations_max
        self.bytes_max = bytes_max
        self.sends: list[tuple[tuple[Destination, ...], Message]] = []
        self.settlements: list[Settlement] = []
        self.size = 0

    def send(self, targets: tuple[Destination, ...], message: Message) -> None:
        """Keep a message for the commit."""
        self._count(message.size)
        self.sends.append((targets, message))

    def settle(self, entry: Entry, outcome: Outcome, reason: str = "") -> None:
        """Keep a settlement for the commit; the entry is the transaction's from now on."""
        consumer = entry.holder
        if entry.state != ACQUIRED or consumer is None or consumer.queue is None:
            return
        self._count(0)
        consumer.unsettled.pop(entry.seq, None)
        if len(consumer.unsettled) + 1 == consumer.unsettled_max:
            consumer.queue.credit_changed(consumer)  # it held all it may hold
        consumer.queue.record(EventKind.ENLIST, entry)
        self.settlements.append(Settlement(entry, consumer, consumer.queue, outcome, reason))

    def commit_settlements(self, now: float) -> None:
        """Carry the settlements out."""
        for settlement in self.settlements:
            settlement.source.settle(settlement.entry, settlement.outcome, now, settlement.reason)
        self.settlements.clear()

    def abort(self, now: float) -> None:
        """Undo everything; deliveries are their consumer's again, or go back in order."""
        self.sends.clear()
        settlements, self.settlements = self.settlements, []
        for settlement in settlements:
            entry = settlement.entry
            if settlement.consumer.is_gone:
                settlement.source.settle(entry, Outcome.FAILED, now)
            elif entry.state == ACQUIRED:
                settlement.consumer.unsettled[entry.seq] = entry
                settlement.source.record(EventKind.DELIST, entry)

    def _count(self, size: int) -> None:
        self.size += size
        if len(self.sends) + len(self.settlements) >= self.operations_max:
            raise RefusedError(
                f"the transaction has {self.operations_max} operations already,"
                " the most that tx_operations_max allows",
                "limit",
            )
        if self.size > self.bytes_max:
            raise RefusedError(
                f"the transaction holds more than {self.bytes_max} bytes,"
                " the most that tx_bytes_max allows",
                "limit",
            )
