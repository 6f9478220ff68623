"""Counts: what has happened to a queue's messages since it was made, or since the broker started.

Every message that came in, or that the start found in the store, has left in one way or is there:
restored + enqueued = acked + dead + expired + dropped + the number of entries on the queue.
One that a full queue takes and drops at once (`drop tail`) is counted on either side. A message
that came back is counted in `returned` each time, and stays. One that was sent before is counted in
`duplicates` and never came in, one that waits for its time comes in when that has come.
"""

from __future__ import annotations


class Counts:
    """The ways in and out of one queue."""

    __slots__ = (
        "acked",
        "dead",
        "dropped",
        "duplicates",
        "enqueued",
        "expired",
        "restored",
        "returned",
    )

    def __init__(self) -> None:
        self.restored = 0
        self.enqueued = 0
        self.acked = 0
        self.returned = 0
        self.expired = 0
        self.dropped = 0
        self.dead = 0
        self.duplicates = 0

    def add(self, other: Counts) -> None:
        """Count what another queue has counted, too."""
        self.restored += other.restored
        self.enqueued += other.enqueued
        self.acked += other.acked
        self.returned += other.returned
        self.expired += other.expired
        self.dropped += other.dropped
        self.dead += other.dead
        self.duplicates += other.duplicates
