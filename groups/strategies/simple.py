# Compiled by mypyc: see setup.py.
"""simple: a group belongs to its consumer until the consumer leaves or the group is closed.

This is ActiveMQ's simple message group map (see its message groups page). Every group is
remembered, idle ones too, which is right where the names are few.

Where the names are many, a queue may call `age` every so often. A group that had no message at the
last call, and has had none since, is forgotten. So the owner of an idle group is kept for one to
two intervals. No order is lost, since a forgotten group has no message on the queue. The same is
done whenever `IDLE_KEPT` groups have become idle, whatever the time: else names that are used once
would fill the memory. So that many idle groups are remembered at least, and twice as many at most.

Groups are forgotten a portion at a time (`tidy`).
"""

from __future__ import annotations

from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import StrategyEntry, Values

# Not Final, so that a test of the compiled strategy can make it small.
IDLE_KEPT = 1_000_000


class SimpleMap(OwnerMap):
    """Owners of all groups; idle groups are in sets, by when they became idle."""

    __slots__ = ("_idle", "_idle_before", "_overdue")

    name: ClassVar[str] = "simple"
    wants_drained: ClassVar[bool] = False
    is_sticky: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._idle: set[str] = set()  # vanished since the last `age`
        self._idle_before: set[str] = set()  # vanished before the last `age`
        self._overdue: set[str] = set()  # vanished before the one before it: to be forgotten

    def opened(self, group: str) -> None:
        """Count the group as idle no more."""
        self._idle.discard(group)
        self._idle_before.discard(group)
        self._overdue.discard(group)

    def vanished(self, group: str) -> None:
        """Count a group that somebody owns as idle."""
        if group in self.seats:
            self._idle.add(group)
            if len(self._idle) >= IDLE_KEPT:
                self.age()

    def reset(self) -> None:
        """Forget all owners, and which groups were idle."""
        super().reset()
        self._idle.clear()
        self._idle_before.clear()
        self._overdue.clear()

    def age(self) -> None:
        """Let groups be forgotten that were idle at the last call and still are."""
        if self._overdue:
            self._overdue |= self._idle_before
        else:
            self._overdue = self._idle_before
        self._idle_before = self._idle
        self._idle = set()

    def tidy(self, most: int) -> bool:
        """Forget so many groups whose time has come, and so many that nobody owns."""
        overdue = self._overdue
        for _ in range(min(most, len(overdue))):
            self.forget(overdue.pop())
        return super().tidy(most) or bool(overdue)

    def _drop(self, key: str) -> None:
        """Drop the entry of a group, and that it was idle."""
        super()._drop(key)
        self.opened(key)


def make_simple(values: Values) -> SimpleMap:
    """Build one; it has no options: the queue decides when to call `age`."""
    return SimpleMap()


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "simple",
    "a group belongs to its consumer until that leaves, and every group is remembered",
    make_simple,
    aliases=("sticky", "simpleMessageGroupMap", "simpleMessageGroupMapFactory"),
)
