"""Registry: the group strategies, by every name that a user may know.

All code that must know which strategies there are reads this and nothing else:

    config          the names and aliases of `groups.strategy`, the defaults and limits of options
    covey-config    the options of the command line, and its help
    plan            which policies are worth a rehearsal, and what the number behind a colon means
    benchmark       one workload for each strategy
    docs            a test compares the tables of docs/groups.md and docs/declaring.md

A strategy's own file says what it is: its entry stands at the end of that file. A new strategy is
such a file and a line below. An option that no other strategy has is also a field of
`config.queues.GroupSettings`, where it gets its type; its default and its limits stay here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from covey.groups.strategies import consistent_hash, hash_buckets, lru, shared, simple
from covey.groups.strategy import GroupStrategy, Option, StrategyEntry, Values

# In the order of the pages.
STRATEGIES: Final[dict[str, StrategyEntry]] = {
    entry.name: entry
    for entry in (
        shared.ENTRY,
        simple.ENTRY,
        lru.ENTRY,
        hash_buckets.ENTRY,
        consistent_hash.ENTRY,
    )
}

OPTIONS: Final[dict[str, Option]] = {
    option.name: option for entry in STRATEGIES.values() for option in entry.options
}
"""The options of all strategies. Two strategies may share one."""


class UnknownStrategyError(ValueError):
    """No strategy has that name; the text gives the nearest one."""


def spellings() -> dict[str, str]:
    """Return every name, alias and profile as it is written, with the strategy's own name."""
    return {spelling: entry.name for entry in STRATEGIES.values() for spelling in entry.spellings()}


def find(name: str) -> tuple[StrategyEntry, Values]:
    """Return the strategy with this name, and the values of options that the name brings.

    Case does not matter, and an underscore is as good as a hyphen.
    """
    folded = _fold(name)
    for entry in STRATEGIES.values():
        for spelling in entry.spellings():
            if _fold(spelling) == folded:
                return entry, entry.profiles.get(spelling, {})
    known = {_fold(spelling): own for spelling, own in spellings().items()}
    near = get_close_matches(folded, known, n=1)
    hint = f"did you mean {known[near[0]]!r}?" if near else f"use {', '.join(STRATEGIES)}"
    raise UnknownStrategyError(f"unknown group strategy {name!r}: {hint}")


def make(name: str, **given: int) -> GroupStrategy:
    """Build a queue's strategy by any of its names.

    A strategy takes the options it knows. An option that is not given has the value that the name
    brings, or else its default.
    """
    unknown = [option for option in given if option not in OPTIONS]
    if unknown:
        raise TypeError(f"no group strategy has the option {unknown[0]!r}")
    entry, brought = find(name)
    values = {option.name: option.default for option in entry.options}
    values.update(brought)
    values |= {option: value for option, value in given.items() if option in values}
    return entry.make(values)


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")
