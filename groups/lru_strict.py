"""lru as ActiveMQ does it: the least recently delivered group is evicted, busy or not.

For those who move a system that relies on the hard bound of the cached message group map. Each
delivery refreshes its group, every group is evictable, and an evicted group is a new group for
its next message. Its owner may then still hold messages of it, which is how order is lost once
more groups are in use than fit; `lru_map.py` is the version that does not.

`took` gives the evicted groups, since they may have lanes that must be asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from covey.groups.lru_map import LruMap


class StrictLruMap(LruMap):
    """At most `size` groups, always; all of them are evictable."""

    __slots__ = ()

    wants_delivered: ClassVar[bool] = True

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the owner as the newest; give the groups that lost theirs for it."""
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
        """Give the strategy, its size and that it is the strict one."""
        return {**super().describe(), "lru_strict_activemq": 1}
