# Compiled by mypyc: see setup.py.
"""shared: a group belongs to a consumer only while that consumer holds messages of it.

These are the shared groups of the Qpid page. The consumer that takes the first message of a free
group owns the group until all its messages of it are acknowledged, released or rejected. Then the
next message may go to anybody. Messages without a group id share one default group
(`qpid.no-group`) and wait for each other.

Memory: one entry per group that has unsettled messages. A group without messages does not exist
and has no owner.
"""

from __future__ import annotations

from typing import ClassVar, Final

from covey.groups.owner_map import OwnerMap
from covey.groups.strategy import StrategyEntry, Values


class Shared(OwnerMap):
    """Owners of groups with unsettled messages, and of no others."""

    __slots__ = ()

    name: ClassVar[str] = "shared"
    uses_default_group: ClassVar[bool] = True

    def drained(self, group: str) -> bool:
        """Free the group: nothing of it is unsettled."""
        self.forget(group)
        return True

    def vanished(self, group: str) -> None:
        """Forget the group with its last message."""
        self.forget(group)


def make_shared(values: Values) -> Shared:
    """Build one; it has no options."""
    return Shared()


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "shared",
    "a group belongs to a consumer while that consumer holds messages of it",
    make_shared,
    needs_header=True,
)
