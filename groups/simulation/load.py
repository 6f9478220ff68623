# Compiled by mypyc: see setup.py.
"""Load: recorded arrivals of one queue. Figures and Result: what came of replaying them.

Groups are numbers, so that a replay needs no look-up of names. The number 0 stands for messages
without a group.

A simulated queue counts its figures while it plays. Waits and the strategy's size are only sampled:
millions of messages are played, and samples are enough for a percentile.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

from covey.groups.simulation.parts import Worker

UNGROUPED: Final = 0  # the number that stands for "no group"


class Load:
    """Arrivals, oldest first: when, how much work, which group; times in seconds."""

    def __init__(self, times: list[float], services: list[float], groups: list[str]) -> None:
        self.times = times
        self.services = services
        self.numbers: dict[str, int] = {"": UNGROUPED}
        for name in groups:
            self.numbers.setdefault(name, len(self.numbers))
        self.groups = [self.numbers[name] for name in groups]
        self.names = list(self.numbers)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a replay; times in seconds."""

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


SAMPLE_EVERY: Final = 16  # messages
PERCENTILE: Final = 0.95


class Figures:
    """What one simulated queue counts."""

    __slots__ = ("entries_max", "moved", "moves", "order_lost", "redelivered", "wait_sum", "waits")

    def __init__(self) -> None:
        # Groups that changed workers: before the join, after it, after the leave.
        self.moved: tuple[set[str], set[str], set[str]] = (set(), set(), set())
        self.moves = 0
        self.redelivered = 0
        self.order_lost = 0
        self.entries_max = 0
        self.wait_sum = 0.0
        self.waits = array("d")

    def sample(self, wait_s: float, entries: int) -> None:
        """Note how long one message waited, and how much the strategy remembers."""
        self.waits.append(wait_s)
        self.entries_max = max(self.entries_max, entries)

    def move(self, group: str, phase: int) -> None:
        """Count a group that changes workers."""
        self.moves += 1
        self.moved[phase].add(group)

    def result(self, count: int, workers: list[Worker], now: float) -> Result:
        """Return the outcome."""
        waits = sorted(self.waits)
        return Result(
            messages=count,
            makespan_s=now,
            wait_mean_s=self.wait_sum / count if count else 0.0,
            wait_p95_s=waits[int(PERCENTILE * (len(waits) - 1))] if waits else 0.0,
            balance=_balance(workers, now),
            moved_up=len(self.moved[1]),
            moved_down=len(self.moved[2]),
            moves=self.moves,
            redelivered=self.redelivered,
            order_lost=self.order_lost,
            entries_max=self.entries_max,
        )


def _balance(workers: list[Worker], now: float) -> float:
    """Return the rate of the busiest worker, as a multiple of the mean."""
    rates = []
    for worker in workers:
        present_s = worker.present_s if worker.is_gone else now - worker.began
        if present_s > 0:
            rates.append(worker.served / present_s)
    mean = sum(rates) / len(rates) if rates else 0.0
    return max(rates) / mean if mean else 1.0
