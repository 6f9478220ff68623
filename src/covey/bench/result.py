"""Result: figures of repetitions, and how much noise is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

BUSY_MACHINE = 0.1  # share of the processors used by others from which a repetition is noisy


@dataclass(slots=True)
class Result:
    """What one contender did in one case."""

    case: str
    contender: str
    unit: str
    values: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # share of all processors used by others
    notes: dict[str, float] = field(default_factory=dict)  # p99, resident bytes, ...
    failure: str = ""

    @property
    def median(self) -> float:
        """Return the figure."""
        return median(self.values)

    def noisy(self) -> int:
        """Count the repetitions during which somebody else used the machine."""
        return sum(share > BUSY_MACHINE for share in self.others)

    def text(self) -> str:
        """Write the figure with its range."""
        if self.failure:
            return f"failed: {self.failure}"
        low, high = min(self.values), max(self.values)
        return f"{figure(self.median)} ({figure(low)} to {figure(high)})"


def figure(value: float) -> str:
    """Write a number with the digits that mean something."""
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ratio(ours: Result, theirs: Result) -> tuple[float, float, float]:
    """Return how many times better we are: by medians, worst to best, best to worst."""
    if ours.unit == "deliveries/s":
        low, high = min(ours.values) / max(theirs.values), max(ours.values) / min(theirs.values)
        return ours.median / theirs.median, low, high
    low, high = min(theirs.values) / max(ours.values), max(theirs.values) / min(ours.values)
    return theirs.median / ours.median, low, high
