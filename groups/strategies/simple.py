# Compiled by mypyc: see setup.py.
"""simple: a group belongs to its consumer until the consumer leaves or the group is closed.

ActiveMQ's simple message group map (see its message groups page): every group is tracked, an
idle one too, so memory grows with the number of group names ever used. Exact, and right where
the names are few.

Where they are not, a queue may turn the idle clock (`age`) every so often: a group that had no
message at the last turn and has had none since is forgotten, so an idle owner is kept for one to
two turns. Nobody's order suffers, since a forgotten group has nothing on the queue.
"""

from __future__ import annotations

from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import StrategyEntry, Values


class SimpleMap(OwnerMap):
    """All groups ever taken, with the idle ones in two generations."""

    __slots__ = ("_idle", "_idle_before")

    name: ClassVar[str] = "simple"
    wants_drained: ClassVar[bool] = False
    is_sticky: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._idle: set[str] = set()  # vanished since the last turn of the idle clock
        self._idle_before: set[str] = set()  # vanished before it

    def opened(self, group: str) -> None:
        """Stop the group's idle clock."""
        self._idle.discard(group)
        self._idle_before.discard(group)

    def vanished(self, group: str) -> None:
        """Start the idle clock of a group that somebody owns."""
        if group in self.owners:
            self._idle.add(group)

    def closed(self, group: str) -> None:
        """Forget the group's owner and its idle clock."""
        super().closed(group)
        self._idle.discard(group)
        self._idle_before.discard(group)

    def reset(self) -> None:
        """Forget all owners and idle clocks."""
        super().reset()
        self._idle.clear()
        self._idle_before.clear()

    def age(self) -> int:
        """Forget the groups that were idle at the last turn and still are; count them."""
        forgotten = 0
        for group in self._idle_before:
            if self.forget(group):
                forgotten += 1
        self._idle_before = self._idle
        self._idle = set()
        return forgotten

    def compact(self) -> None:
        """Drop dead entries, and the idle clocks that ran for them."""
        super().compact()
        self._idle.intersection_update(self.owners)
        self._idle_before.intersection_update(self.owners)


def make_simple(values: Values) -> SimpleMap:
    """Build one; its idle clock is the queue's."""
    return SimpleMap()


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "simple",
    "a group belongs to its consumer until that leaves, and every group is remembered",
    make_simple,
    aliases=("sticky", "simpleMessageGroupMap", "simpleMessageGroupMapFactory"),
)
