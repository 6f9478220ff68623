# Compiled by mypyc: see setup.py.
"""Counters: what has happened to a queue's messages, and how long ago.

`Counters` count since the queue was made, or since the broker started. Every message that came in,
or that the start found in the store, has left in exactly one of these ways or is still there:

    restored + enqueued = acked + dead + expired + dropped + moved + the number of entries there

- A message that a full queue takes and drops at once (`drop tail`) is counted on both sides.
- A message that came back is counted in `returned` each time, and stays.
- A delivery whose consumer held it for too long is counted in `overdue`. It came back, or died.
- An acknowledgement of such a delivery is counted in `late`, and changed nothing.
- A message that was sent before is counted in `duplicates`, and never came in.
- A delayed message is counted as `enqueued` only when its time has come.

`Ages` know how long ago a queue gave a sequence number, without a clock reading per message. Once
per turn, at most once a second, the queue notes "all numbers below this were given by now". The age
of a number is that of the first note above it. This is exact to a second or a turn. It costs eight
bytes a second instead of thirty a message. A number above all notes was given within a second of
the last note, or a later turn would have noted it. Notes do not survive a restart: the age of a
recovered message counts from the restart.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final


class Counters:
    """How many messages came into one queue, and left it, in which way."""

    __slots__ = (
        "acked",
        "dead",
        "dropped",
        "duplicates",
        "enqueued",
        "expired",
        "late",
        "moved",
        "overdue",
        "rebalanced",
        "restored",
        "returned",
        "spilled",
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
        self.overdue = 0
        self.late = 0
        self.moved = 0
        self.spilled = 0  # groups, not messages
        self.rebalanced = 0  # groups, too

    def add(self, other: Counters) -> None:
        """Add the counts of another queue."""
        self.restored += other.restored
        self.enqueued += other.enqueued
        self.acked += other.acked
        self.returned += other.returned
        self.expired += other.expired
        self.dropped += other.dropped
        self.dead += other.dead
        self.duplicates += other.duplicates
        self.overdue += other.overdue
        self.late += other.late
        self.moved += other.moved
        self.spilled += other.spilled
        self.rebalanced += other.rebalanced


NOTE_EVERY_S: Final = 1.0
NOTES_MAX: Final = 4096  # an hour of steady traffic; then old notes are thinned out


class Ages:
    """When numbers were given."""

    __slots__ = ("_numbers", "_times")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._times: list[float] = []

    def note(self, next_seq: int, now: float) -> None:
        """Note that all numbers below `next_seq` have been given by now."""
        times = self._times
        if times and (now - times[-1] < NOTE_EVERY_S or self._numbers[-1] == next_seq):
            return
        self._numbers.append(next_seq)
        times.append(now)
        if len(times) > NOTES_MAX:
            # Every other note of the older half goes: hours later nobody needs the exact second.
            self._numbers = self._numbers[1 : NOTES_MAX // 2 : 2] + self._numbers[NOTES_MAX // 2 :]
            self._times = times[1 : NOTES_MAX // 2 : 2] + times[NOTES_MAX // 2 :]

    def age(self, seq: int, now: float) -> float:
        """Return how many seconds ago a number was given; 0 if nothing was noted yet."""
        times = self._times
        if not times:
            return 0.0
        place = min(bisect_right(self._numbers, seq), len(times) - 1)
        return max(0.0, now - times[place])
