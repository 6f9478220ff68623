# Compiled by mypyc: see setup.py.
"""lru: like `simple`, but of the idle groups only the newest are remembered.

ActiveMQ's cached message group map (see its message groups page) keeps the 1024 newest groups and
forgets the rest, even groups with unsettled messages. Its page warns that order is lost then.

`LruMap` never evicts a group that has messages on the queue:

    busy groups (with messages)    in the owner map alone, never evictable
    idle groups                    also in an OrderedDict, the longest idle one first to go

So the age of an idle group counts from `vanished`, and no call per delivery is needed. If all
groups are busy, the map grows beyond its size and says so (`over_size`). It shrinks as groups
vanish. Groups of a consumer that has left count no more, and go with the next evictions.
Invariant: there are more entries than `size` only while nothing is evictable.

`StrictLruMap` is ActiveMQ's own behaviour, for those who move a system that relies on the hard
bound. The group whose last delivery is longest ago is evicted, busy or not. Each delivery refreshes
its group. An evicted group has no owner for its next message, though its old owner may still hold
messages of it. That is how ActiveMQ loses order once more groups are in use than fit. Here the
queue's gate still holds. `took` returns the evicted groups, since their lanes must be asked again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import FREE, NO_GROUPS, Option, StrategyEntry, Values

EVICTIONS_KEPT: Final = 1024
"""Evicted names kept for `evictions`, so that a queue which never asks does not leak."""


LOOKED_AT: Final = 1000
"""Groups looked at by one eviction: very many may be of a consumer that has left."""


class LruMap(OwnerMap):
    """At most `size` groups, unless more than that are busy."""

    __slots__ = ("_evicted", "evictable", "size")

    name: ClassVar[str] = "lru"
    wants_drained: ClassVar[bool] = False
    is_sticky: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = True

    def __init__(self, size: int) -> None:
        assert size >= 1, f"an lru map needs room for one group, not {size}"
        super().__init__()
        self.size = size
        self.evictable: OrderedDict[str, None] = OrderedDict()
        self._evicted: deque[str] = deque(maxlen=EVICTIONS_KEPT)

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the owner; evict idle groups, which have no lane to be asked again."""
        self.evictable.pop(group, None)
        self.bind(group, consumer)
        self.trim()
        return NO_GROUPS

    def opened(self, group: str) -> None:
        """Protect a group that has messages again from eviction."""
        self.evictable.pop(group, None)

    def vanished(self, group: str) -> None:
        """Make an owned group evictable, as the last to go; shrink the map if it had grown."""
        if self.owner(group) != FREE:
            self.evictable[group] = None
            self.evictable.move_to_end(group)
            self.trim()

    def reset(self) -> None:
        """Forget all owners."""
        super().reset()
        self.evictable.clear()

    def trim(self) -> list[str]:
        """Evict until the size is kept or nothing is evictable; return the evicted groups."""
        gone: list[str] = []
        looked_at = 0
        while self.live > self.size and self.evictable and looked_at < LOOKED_AT:
            looked_at += 1
            group = self.evictable.popitem(last=False)[0]
            if self.forget(group):
                gone.append(group)
        self._evicted.extend(gone)
        return gone

    def evictions(self) -> Sequence[str]:
        """Return the groups evicted since the last call, the newest `EVICTIONS_KEPT` of them."""
        gone = list(self._evicted)
        self._evicted.clear()
        return gone

    def _drop(self, key: str) -> None:
        """Drop the entry of a group, and that it may be evicted."""
        super()._drop(key)
        self.evictable.pop(key, None)

    @property
    def over_size(self) -> bool:
        """Return True if more groups are busy than the size allows."""
        return self.live > self.size

    def describe(self) -> dict[str, int | str]:
        """Return the strategy and its size."""
        return {"strategy": self.name, "cache_size": self.size}


class StrictLruMap(LruMap):
    """At most `size` groups, always; all of them are evictable."""

    __slots__ = ()

    wants_delivered: ClassVar[bool] = True

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the group as the newest; return the groups that were evicted for it."""
        self.bind(group, consumer)
        evicted = self.trim()
        self.evictable[group] = None
        self.evictable.move_to_end(group)
        return evicted

    def delivered(self, group: str) -> None:
        """Make the group the newest."""
        if group in self.evictable:
            self.evictable.move_to_end(group)

    def opened(self, group: str) -> None:
        """Change nothing: a group with messages stays evictable."""

    def vanished(self, group: str) -> None:
        """Change nothing: only deliveries count as use."""

    def describe(self) -> dict[str, int | str]:
        """Return the strategy, its size, and that it is the strict one."""
        return {**super().describe(), "lru_strict_activemq": 1}


def make_lru(values: Values) -> LruMap:
    """Build the strict one if ActiveMQ's own behaviour is asked for."""
    size = values["cache_size"]
    return StrictLruMap(size) if values["lru_strict_activemq"] else LruMap(size)


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "lru",
    "like simple, but of the idle groups only the newest are remembered",
    make_lru,
    options=(
        Option(
            "cache_size",
            1024,
            1,
            10_000_000,
            "how many idle groups are remembered",
            "--group-cache-size",
        ),
        Option(
            "lru_strict_activemq",
            0,
            0,
            1,
            "forget even a group that has unsettled messages, as ActiveMQ does",
            is_yes_or_no=True,
        ),
    ),
    aliases=("cached", "cachedMessageGroupMap", "cachedMessageGroupMapFactory"),
    planned_sizes=(256, 1024),
)
