# Compiled by mypyc: see setup.py.
"""simple: a group belongs to its consumer until the consumer leaves or the group is closed.

This is ActiveMQ's simple message group map (see its message groups page). Every group is
remembered, idle ones too, so memory grows with the number of group names ever used. That is right
where the names are few.

Where the names are many, a queue may call `age` every so often. A group that had no message at the
last call, and has had none since, is forgotten. So the owner of an idle group is kept for one to
two intervals. No order is lost, since a forgotten group has no message on the queue.
"""

from __future__ import annotations

from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import StrategyEntry, Values


class SimpleMap(OwnerMap):
    """Owners of all groups; idle groups are in two sets, by when they became idle."""

    __slots__ = ("_idle", "_idle_before")

    name: ClassVar[str] = "simple"
    wants_drained: ClassVar[bool] = False
    is_sticky: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._idle: set[str] = set()  # vanished since the last `age`
        self._idle_before: set[str] = set()  # vanished before the last `age`

    def opened(self, group: str) -> None:
        """Count the group as idle no more."""
        self._idle.discard(group)
        self._idle_before.discard(group)

    def vanished(self, group: str) -> None:
        """Count a group that somebody owns as idle."""
        if group in self.owners:
            self._idle.add(group)

    def closed(self, group: str) -> None:
        """Forget the group's owner, and that the group was idle."""
        super().closed(group)
        self._idle.discard(group)
        self._idle_before.discard(group)

    def reset(self) -> None:
        """Forget all owners, and which groups were idle."""
        super().reset()
        self._idle.clear()
        self._idle_before.clear()

    def age(self) -> int:
        """Forget groups that were idle at the last call and still are; return how many."""
        forgotten = 0
        for group in self._idle_before:
            if self.forget(group):
                forgotten += 1
        self._idle_before = self._idle
        self._idle = set()
        return forgotten

    def compact(self) -> None:
        """Drop dead entries, and their groups from the idle ones."""
        super().compact()
        self._idle.intersection_update(self.owners)
        self._idle_before.intersection_update(self.owners)


def make_simple(values: Values) -> SimpleMap:
    """Build one; it has no options: the queue decides when to call `age`."""
    return SimpleMap()


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "simple",
    "a group belongs to its consumer until that leaves, and every group is remembered",
    make_simple,
    aliases=("sticky", "simpleMessageGroupMap", "simpleMessageGroupMapFactory"),
)
