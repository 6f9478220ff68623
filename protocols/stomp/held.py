"""Held: a message a client has and may still acknowledge.

By the number in its `ack` header in STOMP 1.2, by message-id before. It stays held while a
transaction that acknowledges it is open: after an ABORT it may be acknowledged again, but credit
for it is given only once. Of one that was settled as it was sent, or that a browser saw, nothing is
kept but what its credit needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.entry import GONE, Entry
from covey.core.fan import NO_LANE
from covey.protocols.stomp.subscribe import AckMode

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer


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
