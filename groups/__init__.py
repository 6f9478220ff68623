"""Message groups: who owns which group, decided on strings and integers alone.

    base.py         GroupStrategy, the seam     key.py   which header holds the group id
    shared          Qpid: owned while messages are unsettled
    simple          ActiveMQ: owned until the consumer leaves, every group tracked
    lru             ActiveMQ: the same for the newest groups; lru_strict evicts busy ones, too
    hash-buckets    ActiveMQ: the same by hash bucket, bounded
    consistent-hash Apollo: by a ring of the consumers (hash_ring.py), nothing tracked
    model.py        a queue under one of them, replaying a load.py: how would it have done?

Strategies do not know each other, except that the strict lru is a kind of lru. A new one is a
file and a line in `STRATEGIES`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from covey.groups.consistent_hash import POINTS_APOLLO, POINTS_DEFAULT, ConsistentHash
from covey.groups.hash_buckets import HashBuckets
from covey.groups.lru import LruMap, StrictLruMap
from covey.groups.shared import Shared
from covey.groups.simple import SimpleMap
from covey.groups.strategy import GroupStrategy

__all__ = [
    "ALIASES",
    "STRATEGIES",
    "GroupStrategy",
    "UnknownStrategyError",
    "canonical",
    "make",
]

STRATEGIES: Final[dict[str, type[GroupStrategy]]] = {
    Shared.name: Shared,
    SimpleMap.name: SimpleMap,
    LruMap.name: LruMap,
    HashBuckets.name: HashBuckets,
    ConsistentHash.name: ConsistentHash,
}

APOLLO: Final = "apollo"
"""The ring with Apollo's number of points."""

ALIASES: Final[dict[str, str]] = {
    # Short names of ActiveMQ's policies, and the factories of its XML; "Bucked" is how its
    # message groups page spells the element.
    "cached": LruMap.name,
    "cachedMessageGroupMap": LruMap.name,
    "cachedMessageGroupMapFactory": LruMap.name,
    "simpleMessageGroupMap": SimpleMap.name,
    "simpleMessageGroupMapFactory": SimpleMap.name,
    "sticky": SimpleMap.name,
    "bucket": HashBuckets.name,
    "messageGroupHashBucket": HashBuckets.name,
    "messageGroupHashBucketFactory": HashBuckets.name,
    "messageGroupHashBucked": HashBuckets.name,
    "messageGroupHashBuckedFactory": HashBuckets.name,
    "hash-ring": ConsistentHash.name,
    APOLLO: ConsistentHash.name,
}

_BY_FOLDED_NAME: Final = {name.casefold(): name for name in STRATEGIES} | {
    alias.casefold(): name for alias, name in ALIASES.items()
}

_ALL_NAMES: Final = ", ".join(STRATEGIES)


class UnknownStrategyError(ValueError):
    """No strategy has that name; the text gives the nearest one."""


def canonical(strategy: str) -> str:
    """Give the strategy's own name for any of its names, in any case."""
    folded = strategy.casefold()
    if folded in _BY_FOLDED_NAME:
        return _BY_FOLDED_NAME[folded]
    near = get_close_matches(folded, _BY_FOLDED_NAME, n=1)
    hint = f"did you mean {_BY_FOLDED_NAME[near[0]]!r}?" if near else f"use {_ALL_NAMES}"
    raise UnknownStrategyError(f"unknown group strategy {strategy!r}: {hint}")


def make(
    strategy: str,
    *,
    bucket_count: int = 1024,
    cache_size: int = 1024,
    ring_points: int = POINTS_DEFAULT,
    lru_strict_activemq: bool = False,
) -> GroupStrategy:
    """Build a queue's strategy by any of its names; each takes the options it knows."""
    name = canonical(strategy)
    if name == HashBuckets.name:
        return HashBuckets(bucket_count)
    if name == LruMap.name:
        return StrictLruMap(cache_size) if lru_strict_activemq else LruMap(cache_size)
    if name == ConsistentHash.name:
        is_apollo = strategy.casefold() == APOLLO
        return ConsistentHash(POINTS_APOLLO if is_apollo else ring_points)
    return STRATEGIES[name]()
