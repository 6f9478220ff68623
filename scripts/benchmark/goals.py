"""Goals: what each workload is to reach, as a ratio to the best peer in the same run.

The goals are those of the compiled build, beside the peers that people run today. The plain build
has only those that do not depend on its speed.

A goal is found by the first words of a case's name, so that it applies to every size. A ratio above
1 means better than the peer, for times and bytes too. The goal of `durable-beside` is a rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from covey.bench.result import Result


@dataclass(frozen=True, slots=True)
class Goal:
    """One ratio for the compiled build, and one for the plain source, if there is one."""

    case: str
    compiled: float
    plain: float = 0.0
    is_rate: bool = False  # not a ratio: messages a second

    def of(self, result: Result) -> float:
        """Return the goal for the build that made a result."""
        return self.compiled if result.contender != "covey" else self.plain


GOALS: Final = (
    Goal("queue, 128 B", 5.0),
    Goal("groups consistent-hash, 128 B", 5.0),
    Goal("topic, 128 B", 14.0),
    Goal("durable,", 3.0),
    Goal("durable-beside", 8_000, 5_000, is_rate=True),
    Goal("amqp,", 3.0),
    Goal("amqp-durable,", 1.5),
    Goal("latency, 128 B", 2.0),
    Goal("memory, idle connection", 3.0, 3.0),
    Goal("memory, queued 1 KiB message", 2.0, 2.0),
)


def goal_of(result: Result) -> Goal | None:
    """Return the goal of a result's case, if it has one."""
    for goal in GOALS:
        if result.case.startswith(goal.case):
            return goal
    return None


def verdict(result: Result, ratio: float) -> str:
    """Return a table's cell: the goal, and whether it was reached."""
    goal = goal_of(result)
    if goal is None:
        return ""
    wanted = goal.of(result)
    if not wanted:
        return ""
    reached = result.median if goal.is_rate else ratio
    shown = f"{wanted:,.0f}/s" if goal.is_rate else f"{wanted:.2g}"
    return f"{shown}: {'reached' if reached >= wanted else 'missed'}"
