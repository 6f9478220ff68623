# Compiled by mypyc: see setup.py.
"""Entry: a message's place in one queue, and what may happen to it there.

    STORING ──committed──> PENDING ──deliver──> ACQUIRED ──accept, reject──> GONE
                            ^  │  ^               │
                            │  │  └───release─────┤
        a selector came ── ASIDE │                └──failed, with a delay──> AWAY ──due──> PENDING
                                 └──expired, dropped, purged──> GONE

Invariants: an entry is in exactly one of these states. Only a PENDING entry can be delivered. An
ACQUIRED entry is never dropped and never expires. An acquired entry *is* the delivery: the protocol
gets the entry itself and hands it back to settle it. So nothing else is made per message.

In a long backlog a PENDING entry far from any consumer may be a row of numbers instead of an object
(`core.dispatch.index`). So whoever keeps an entry over several turns keeps its number.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.core.dispatch.lane import Lane
    from covey.core.model.consumer import Consumer
    from covey.core.model.message import Message

# Plain integers: compared on the hot path, where an Enum member costs an attribute lookup.
PENDING: Final = 0
STORING: Final = 1  # not on disk yet: nobody may see it, since a crash could still lose it
ACQUIRED: Final = 2
ASIDE: Final = 3  # no present selector admits it; later messages of its group go on
AWAY: Final = 4  # waits out a redelivery delay
GONE: Final = 5

SHARED: Final = 0  # the number of an entry that a topic's presettled subscribers share

# Where the body is besides memory.
NOWHERE: Final = 0
KEPT: Final = 1  # in the store, to survive a restart
SPILLED: Final = 2  # in the scratch file, since memory has no room
STORED: Final = 3  # the bits of `marks` that hold one of these three
FIRST: Final = 4  # the bit of `marks` for `is_first`

STATE_NAMES: Final = ("pending", "storing", "acquired", "aside", "away", "gone")


class Outcome(Enum):
    """How a consumer, or the broker for it, settles a delivery."""

    ACCEPTED = "accepted"  # done with it
    RELEASED = "released"  # unseen: back to its place, the delivery does not count
    FAILED = "failed"  # tried: back to its place with the count raised, or dead-lettered
    REJECTED = "rejected"  # can never be processed: dead-lettered at once
    DECLINED = "declined"  # released, and not to come back to this consumer
    UNFIT = "unfit"  # failed, and not to come back to this consumer


ACCEPTED: Final = Outcome.ACCEPTED  # needed for each message: a look-up in an Enum is slow


class Entry:
    """One message at one sequence number of one queue."""

    __slots__ = (
        "deliveries",
        "expires_ms",
        "holder",
        "lane",
        "marks",
        "message",
        "next",
        "seq",
        "size",
        "state",
    )

    def __init__(self, seq: int, message: Message | None, lane: Lane, state: int) -> None:
        self.seq = seq
        self.message = message  # None while its body is only in the store
        self.size = 0 if message is None else message.size
        self.expires_ms = 0 if message is None else message.expires_ms
        self.lane = lane
        self.next = 0  # the number behind it in its lane's FIFO, 0 at the end
        self.state = state
        self.deliveries = 0  # how often it was delivered before and came back
        self.holder: Consumer | None = None
        self.marks = NOWHERE  # `stored` and `is_first`: a slot more would cost 16 bytes a message

    @property
    def stored(self) -> int:
        """Return where the body is besides memory."""
        return self.marks & STORED

    @stored.setter
    def stored(self, stored: int) -> None:
        self.marks = self.marks & FIRST | stored

    @property
    def is_first(self) -> bool:
        """Return True if `holder` is told that this is the first message of its ownership."""
        return self.marks >= FIRST

    @is_first.setter
    def is_first(self, is_first: bool) -> None:
        self.marks = self.marks & STORED | FIRST if is_first else self.marks & STORED

    @property
    def content(self) -> Message:
        """Return the message; only asked of entries whose body is in memory."""
        message = self.message
        assert message is not None, "an entry was delivered whose body is not loaded"
        return message

    def __repr__(self) -> str:
        return f"<Entry {self.seq} of {self.lane.name!r} {STATE_NAMES[self.state]}>"
