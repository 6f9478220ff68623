"""Discipline: what a queue does with its messages besides keeping them in order.

    groups         each in a lane of its own                           `core.lane`
    priorities     the highest first, oldest first within one          `core.level`
    last values    a newer message replaces the older one of its key   `core.last_value`
    duplicates     a message sent twice enters once                    `core.duplicates`

Priorities and last values take messages out of the middle, which would break a group's order:
such a queue has no groups, whatever its messages carry.
"""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.core.board import Board
from covey.core.duplicates import Duplicates
from covey.core.lane import Lane
from covey.core.last_value import LastValues
from covey.core.level import rank_of
from covey.core.message import Message
from covey.groups.key import GroupKey


class Discipline:
    """The queueing discipline of one queue, as its policy asks for it."""

    __slots__ = ("board", "duplicates", "has_groups", "is_usual", "key", "last_values")

    def __init__(self, board: Board, key: GroupKey) -> None:
        self.board = board
        self.key = key  # finds a message's group
        self.duplicates: Duplicates | None = None
        self.last_values: LastValues | None = None
        self.has_groups = True
        self.is_usual = True  # a newcomer is neither compared nor replaced

    def apply(self, settings: QueueSettings) -> None:
        """Follow a (new) policy; priorities and keys change on an empty queue only."""
        levels = max(1, settings.priorities)
        if levels != len(self.board.levels):
            self.board.set_levels(levels)
        header = settings.lvq_key
        if header is None:
            self.last_values = None
        elif self.last_values is None or self.last_values.header != header:
            self.last_values = LastValues(header, self.board.index)
        window = settings.duplicate_window
        if not window:
            self.duplicates = None
        elif self.duplicates is None:
            self.duplicates = Duplicates(window)
        else:
            self.duplicates.resize(window)
        self.has_groups = levels == 1 and self.last_values is None
        self.is_usual = self.last_values is None and self.duplicates is None

    def group_of(self, message: Message) -> str:
        """Return the group a message belongs to here, "" for none."""
        if not self.has_groups:
            return ""
        key = self.key
        if key.header is not None:
            found = message.lookup(key.header)
            if isinstance(found, str) and 0 < len(found) <= key.safe_length:
                return found
            return key.resolve(message.group, message.lookup)
        group = message.group
        if not group:
            return key.default_group
        if len(group) <= key.safe_length:
            return group
        return key.checked(message.group_place(), group)

    def lane_of(self, message: Message) -> Lane:
        """Return where a new message without a group goes."""
        levels = self.board.levels
        return levels[0] if len(levels) == 1 else self.plain_lane(message.priority)

    def plain_lane(self, priority: int) -> Lane:
        """Return where messages without a group of this priority are."""
        levels = self.board.levels
        return levels[rank_of(priority, len(levels))]

    @property
    def remembers(self) -> bool:
        """Say whether anything would be forgotten if the queue went, though it is empty."""
        return self.duplicates is not None and self.duplicates.count > 0
