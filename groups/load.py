"""Load: recorded arrivals of one queue, and what came of replaying them.

Groups are numbers, so that a replay looks no name up; 0 stands for messages without a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PLAIN: Final = 0  # the number of messages without a group


class Load:
    """Arrivals, oldest first: when, how much work, which group; times in seconds."""

    def __init__(self, times: list[float], services: list[float], groups: list[str]) -> None:
        self.times = times
        self.services = services
        self.numbers: dict[str, int] = {"": PLAIN}
        for name in groups:
            self.numbers.setdefault(name, len(self.numbers))
        self.groups = [self.numbers[name] for name in groups]
        self.names = list(self.numbers)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it; times in seconds."""

    messages: int
    makespan_s: float
    wait_mean_s: float
    wait_p95_s: float
    balance: float  # the busiest worker's rate over the mean; 1 is even
    moved_up: int  # groups that changed workers after the join
    moved_down: int  # ... after the leave
    moves: int  # all changes of a group's worker
    redelivered: int
    order_lost: int
    entries_max: int  # owners, buckets or ring points the strategy kept
