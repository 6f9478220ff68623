"""Source: what a consumer reads from, whatever is behind it.

A queue and a topic subscription's feed both hand out entries, take them back settled, and hear
when a consumer's credit changed. Protocols settle through this seam and need not know which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.entry import ACCEPTED

if TYPE_CHECKING:
    from covey.core.consumer import Consumer
    from covey.core.entry import Entry, Outcome


class Source(ABC):
    """A queue or a feed, as its consumer sees it."""

    name: str

    @abstractmethod
    def settle(self, entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
        """Settle an acquired entry; a second settle of the same is ignored.

        `reason` is what the consumer says of a rejection: its dead letter shows it.
        """

    def accept(self, consumer: Consumer, entries: Sequence[Entry], now: float) -> None:
        """Settle what a consumer was given and is done with: clients acknowledge in rows."""
        for entry in entries:
            self.settle(entry, ACCEPTED, now)

    def record(self, kind: int, entry: Entry) -> None:  # noqa: B027 - a feed has no events
        """Report an event of one entry, if anybody listens."""

    @abstractmethod
    def settled(self, entry: Entry) -> None:
        """Remove an entry that was settled as it was sent."""

    @abstractmethod
    def credit_changed(self, consumer: Consumer) -> None:
        """Hear that the consumer's window opened."""

    @abstractmethod
    def leave(self, consumer: Consumer, now: float, *, counted: bool = True) -> None:
        """Let the consumer go; what it held returns."""
