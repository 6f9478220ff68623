"""Message groups: who owns which group, decided on strings and integers alone.

    strategy      GroupStrategy, what every strategy does; StrategyEntry, its name and options
    registry      the strategies by name; `make` builds one
    strategies/   shared, simple, lru, hash-buckets, consistent-hash: one file each
    owner_map     what the strategies that remember owners have in common
    key           which header holds the group id
    simulation/   a queue with one of the strategies that replays recorded traffic, for `plan`

Nothing here knows a queue, a message or a setting: this is the lowest room of all.
A new strategy is a file in `strategies/` and a line in `registry`.
"""

from __future__ import annotations

from covey.groups.registry import (
    OPTIONS,
    STRATEGIES,
    UnknownStrategyError,
    find,
    make,
    spellings,
)
from covey.groups.strategy import GroupStrategy

__all__ = [
    "OPTIONS",
    "STRATEGIES",
    "GroupStrategy",
    "UnknownStrategyError",
    "find",
    "make",
    "spellings",
]
