"""Load: recorded arrivals of one queue, and what came of replaying them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Recorded arrivals of one queue, oldest first: when, how much work, which group."""

    times: list[float]
    services: list[float]
    groups: list[str]


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
