"""Counts: what has happened to a queue's messages since it was made.

Every message that came in has left in one way or is still there:
enqueued = acked + dead + expired + dropped + the number of entries on the queue.
A message that came back is counted in `returned` each time, and stays. One that was sent before
is counted in `duplicates` and never came in.
"""

from __future__ import annotations


class Counts:
    """The ways in and out of one queue."""

    __slots__ = ("acked", "dead", "dropped", "duplicates", "enqueued", "expired", "returned")

    def __init__(self) -> None:
        self.enqueued = 0
        self.acked = 0
        self.returned = 0
        self.expired = 0
        self.dropped = 0
        self.dead = 0
        self.duplicates = 0
