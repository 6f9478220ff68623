"""Start: whether a queue hands out anything yet.

ActiveMQ's `consumersBeforeDispatchStarts` and `timeBeforeDispatchStarts` (see its message groups
page): the first consumer of an idle queue would get every group before the others have come. So
the dispatch waits for so many consumers, or for so long after the first one, whichever is first.
Once begun it goes on when consumers leave; it waits again after the last one has left.

Browsers count as consumers, those whose return is only waited for do not.
"""

from __future__ import annotations

from covey.core.board import Board
from covey.core.membership import Membership


class Start:
    """The beginning of one queue's dispatch."""

    __slots__ = ("board", "deadline", "has_begun", "membership")

    def __init__(self, board: Board, membership: Membership) -> None:
        self.board = board
        self.membership = membership
        self.has_begun = True
        self.deadline = 0.0  # when it begins at the latest; 0 = nobody has come yet

    def arm(self) -> None:
        """Wait, if the policy says so; with somebody there, what has begun or waits stays so."""
        rules = self.board.rules
        if not (rules.consumers_before_dispatch or rules.time_before_dispatch_s):
            self.has_begun = True
        elif self._present() == 0:
            self.has_begun = False
            self.deadline = 0.0

    def joined(self) -> None:
        """Hear that somebody came: the time runs from the first one."""
        if not self.has_begun and not self.deadline:
            self.deadline = self.board.now + self.board.rules.time_before_dispatch_s

    def left(self) -> None:
        """Hear that somebody went."""
        if self._present() == 0:
            self.arm()

    def begins(self) -> bool:
        """Say whether anything may be handed out now."""
        if not self.has_begun:
            enough = 0 < self.board.rules.consumers_before_dispatch <= self._present()
            self.has_begun = enough or 0 < self.deadline <= self.board.now
        return self.has_begun

    def _present(self) -> int:
        board = self.board
        return len(board.consumers) - len(self.membership.absent) + len(board.browsers)
