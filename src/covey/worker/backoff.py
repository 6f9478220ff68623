"""Backoff: how long a failed message, and its group, wait before they are tried again.

The worker does the waiting: it keeps the message, and refuses it after the wait. Then the broker
counts the failure and sends the message again, or puts it into the dead-letter queue. A queue's own
`redelivery_delay_ms` comes on top. With `NO_BACKOFF` only the queue's delay counts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after a failure: it grows by a factor with each one in a row, up to a maximum."""

    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 60.0
    jitter: float = 0.1  # the random part of a wait

    def __post_init__(self) -> None:
        if self.first_s < 0 or self.max_s < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise ValueError(f"{self} makes no sense: waits cannot be negative, nor shrink")

    def wait_s(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        steps = min(failures - 1, 64)  # by then the wait is at its maximum, or does not grow
        wait_s = min(self.first_s * self.factor**steps, self.max_s)
        return wait_s * (1 - self.jitter * random.random())


NO_BACKOFF: Final = Backoff(first_s=0.0)
