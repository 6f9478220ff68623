"""Backoff: how long a failed message, and its group, wait before they are tried again.

The wait is the worker's: it keeps the message and then refuses it, so that the broker counts the
failure and sends the message again, or puts it into the dead-letter queue. A queue's own
`redelivery_delay_ms` comes on top. `NO_BACKOFF` leaves all of it to the queue.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after each failure in a row: first, times factor, never over the maximum."""

    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 60.0
    jitter: float = 0.1  # the part of it that is random

    def __post_init__(self) -> None:
        if self.first_s < 0 or self.max_s < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise ValueError(f"{self} makes no sense: waits cannot be negative, nor shrink")

    def wait_s(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        steps = min(failures - 1, 64)  # beyond that the maximum is reached, or the wait stands
        wait_s = min(self.first_s * self.factor**steps, self.max_s)
        return wait_s * (1 - self.jitter * random.random())


NO_BACKOFF: Final = Backoff(first_s=0.0)
