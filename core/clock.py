# Compiled by mypyc: see setup.py.
"""Clock: the time of the current turn, the same for everybody who works in it.

The core never looks at a clock. The broker is told the time with every batch of events and writes
the time here. Hosts, topics and feeds read the time from here. `now` is monotonic seconds.
`wall_ms` is the time of day in milliseconds since the epoch. Only expiry and logs follow `wall_ms`.
"""

from __future__ import annotations


class Clock:
    """What time it is, for this turn."""

    __slots__ = ("now", "offset", "wall_ms")

    def __init__(self) -> None:
        self.now = 0.0
        self.wall_ms = 0
        self.offset = 0.0  # wall clock minus monotonic clock, kept by the server

    def turn(self, now: float) -> None:
        """Begin a turn at a monotonic time."""
        self.now = now
        self.wall_ms = int((now + self.offset) * 1000)

    def wall_ms_at(self, now: float) -> int:
        """Return the time of day that belongs to a monotonic time."""
        return int((now + self.offset) * 1000)

    def has_passed(self, expires_ms: int) -> bool:
        """Return True if an expiry time is over; 0 means never."""
        return 0 < expires_ms <= self.wall_ms
