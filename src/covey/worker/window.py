"""Window: how many messages the broker may send ahead.

The worker gives the broker credit for a number of messages. It wants enough jobs to keep every
handler busy, and one more for each handler. A message that waits behind another one of its group is
not a job. For each of those the worker gives credit for another message, so that a slow group does
not fill the window. All messages that a worker holds are limited in number and in bytes. The
queue's own `groups.unsettled_max` keeps a group with a long backlog from filling even that.
"""

from __future__ import annotations

from typing import Final

HELD_MAX_LEAST: Final = 1024
HELD_MAX_FACTOR: Final = 32  # messages held for each that runs
HELD_BYTES_MAX: Final = 64 * 1024 * 1024


class Window:
    """The credit of one subscription."""

    def __init__(self, concurrency: int, batch: int, *, bytes_max: int = HELD_BYTES_MAX) -> None:
        """Begin with two rounds of jobs."""
        self.batch = batch
        self.first = 2 * concurrency * batch
        self.held_max = max(HELD_MAX_LEAST, HELD_MAX_FACTOR * concurrency * batch)
        self.bytes_max = bytes_max
        self.least = max(1, self.first // 4)  # less credit is not worth a frame
        self.held = 0
        self.held_bytes = 0
        self.open = self.first  # how many messages the broker may still send

    def received(self, size: int) -> None:
        """Note a message that came."""
        self.held += 1
        self.held_bytes += size
        self.open -= 1

    def settled(self, size: int) -> None:
        """Note a message that was acknowledged or given back."""
        self.held -= 1
        self.held_bytes -= size

    def grant(self, missing_jobs: int) -> int:
        """Return how much credit to give now, and count it as given; 0 if it is too little."""
        if self.held_bytes > self.bytes_max and self.open + self.held > 1:
            return 0
        wanted = min(missing_jobs * self.batch, self.held_max - self.held)
        more = wanted - self.open
        if more < self.least and (more <= 0 or self.open):
            return 0
        self.open += more
        return more
