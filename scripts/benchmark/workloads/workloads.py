"""Workloads: what `scripts/bench` measures: the generator's flows, and others.

`--scale` multiplies the numbers of messages of all flows. Each repetition has its own destination,
so that nothing is left over from the one before. A workload of another kind (`dispatch`, `memory`,
`pace`, `growth`) has a module of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from covey.bench.flows import GROUPS_FLOW, TABLE, Case, Workload

OTHERS: Final = {
    "dispatch": "the core alone: a step against a backlog of 10^2 to 10^6 with all groups blocked",
    "memory": "bytes of an idle connection and of a queued message of 1 KiB",
    "objects": "blocks of memory that Python keeps for a message, waiting, delivered and settled",
    "backlog": "a million persistent messages of 1 KiB in groups: fill, kill, restart, drain",
    "turns": "the longest wait of a second client while somebody asks for something big",
    "pace": "latency of an open loop at 10, 50 and 90 % of the highest rate: p50 to p99.9",
    "growth": "10^3 to 10^6 queues, groups and subscriptions: time and bytes of each",
    "balance": "the heaviest consumer against a fair share, by strategy, for 2 to 64 consumers",
    "pipeline": "audit and plan on Spark by size, partitions and cores; the event log's cost",
}

TURN_PARTS: Final = (
    "backlog",
    "aside",
    "unsettled",
    "transactions",
    "queues",
    "retained",
    "listeners",
    "large",
    "floods",
)

NAMES: Final = tuple(flow.name for flow in TABLE) + tuple(OTHERS)


def strategies() -> list[str]:
    """Return every group strategy, the default one first: peers run only beside that."""
    # The broker is imported here only: `--help` prints the names above before anything is set up.
    from covey.config.queues import GroupSettings
    from covey.groups import STRATEGIES

    return sorted(STRATEGIES, key=lambda name: name != GroupSettings().strategy)


def flows() -> Iterator[Workload]:
    """Yield the rows of the table; GROUPS_FLOW becomes one row for each strategy."""
    for flow in TABLE:
        if flow.name != GROUPS_FLOW:
            yield flow
            continue
        names = strategies()
        for strategy in names:
            yield replace(
                flow,
                name=f"{flow.name} {strategy}",
                about=f"{flow.about}, {strategy}",
                place=f"{flow.place}.{strategy}",
                is_for_peers=strategy == names[0],
            )


def cases(names: list[str], sizes: tuple[int, ...] | None = None) -> Iterator[Case]:
    """Yield the flows asked for, at their own or the given sizes; `groups` means all strategies."""
    for flow in flows():
        if flow.name in names or flow.name.partition(" ")[0] in names:
            for size in sizes or flow.sizes:
                yield Case(flow, size)
