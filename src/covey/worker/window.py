"""Window: how many messages the broker may send ahead.

The broker is given credit by number, and only by us. We want enough jobs to keep every handler
busy, and one more for each. A message that waits behind another one of its group is no job: for it
we ask for another one, so that a slow group does not fill the window. What a worker holds in all is
bounded by number and by bytes. A group with a longer backlog than that is held off by the queue's
own `groups.unsettled_max`.
"""

from __future__ import annotations

from typing import Final

HELD_MAX_LEAST: Final = 1024
HELD_MAX_FACTOR: Final = 32  # messages for each that runs
HELD_BYTES_MAX: Final = 64 * 1024 * 1024


class Window:
    """The credit of one subscription."""

    def __init__(self, concurrency: int, batch: int, *, bytes_max: int = HELD_BYTES_MAX) -> None:
        """Begin with two rounds of jobs."""
        self.batch = batch
        self.first = 2 * concurrency * batch
        self.held_max = max(HELD_MAX_LEAST, HELD_MAX_FACTOR * concurrency * batch)
        self.bytes_max = bytes_max
        self.least = max(1, self.first // 4)  # less is not worth a frame of its own
        self.held = 0
        self.held_bytes = 0
        self.open = self.first  # what the broker may still send

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
        """Return how much credit to give now, 0 if it is not worth it; it counts as given."""
        if self.held_bytes > self.bytes_max and self.open + self.held > 1:
            return 0
        wanted = min(missing_jobs * self.batch, self.held_max - self.held)
        more = wanted - self.open
        if more < self.least and (more <= 0 or self.open):
            return 0
        self.open += more
        return more
