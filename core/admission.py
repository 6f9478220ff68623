"""Admission: which views may take an entry, where selectors or exclusive consumers are in play.

A queue whose consumers all see everything (`board.has_selectors` False) never asks here.

Lending: the owner's selector refuses the head of its group. The strategy may name another (the
next on a ring), else any consumer whose view admits it may take it, and go on with what else the
owner refuses while it holds messages of the group. Ownership does not change, the gate holds, the
next head is judged afresh. A head that no view admits is set aside (the Apollo,
ActiveMQ and Qpid brokers all step over it) until the set of views changes, or with
`selector_order = "strict"` holds its group and says so. A long backlog that nobody wants is set
aside in portions, so that one group does not hold up the event loop.
"""

from __future__ import annotations

from typing import Final

from covey.core.board import Board
from covey.core.consumer import Consumer
from covey.core.entry import ASIDE, PENDING, Entry
from covey.core.events import EventKind
from covey.core.lane import Lane
from covey.core.view import View

ASIDE_PORTION: Final = 250  # of one group at a time: about a millisecond


class Admission:
    """Who may see what of one queue."""

    __slots__ = ("board", "exclusives")

    def __init__(self, board: Board) -> None:
        self.board = board
        self.exclusives: list[View] = []  # views of exclusive consumers, most preferred first

    def admits(self, view: View, entry: Entry) -> bool:
        """Say whether a view's members may take the entry.

        An entry that an exclusive consumer matches is for the most preferred such consumer
        alone; what its selector refuses falls to the others.
        """
        if not view.matches(entry):
            return False
        for exclusive in self.exclusives:
            if exclusive is view:
                return True
            if exclusive.matches(entry):
                return False
        return True

    def is_wanted(self, head: Entry) -> bool:
        """Say whether anybody present may take the entry."""
        return any(view.members and self.admits(view, head) for view in self.board.views)

    def find_head(self, lane: Lane) -> Entry | None:
        """Return the lane's head, setting aside what nobody may take.

        After a portion of it the lane is left as it is, to be looked at again in the next pump.
        """
        board = self.board
        head = lane.find_head(board.index)
        if board.rules.is_selector_strict:
            return head
        for _ in range(ASIDE_PORTION):
            if head is None or head.state != PENDING or head.message is None:
                return head
            if self.is_wanted(head):
                return head
            self._set_aside(lane, head)
            head = lane.find_head(board.index)
        board.stale.append(lane)
        return head

    def _set_aside(self, lane: Lane, head: Entry) -> None:
        board = self.board
        board.budget -= 1
        lane.pop(head)
        head.state = ASIDE
        board.record(EventKind.ASIDE, lane.name, 0, head.seq)
        if lane.aside is None:
            lane.aside = set()
        lane.aside.add(head.seq)

    def target_of(self, lane: Lane, head: Entry) -> Consumer | None:
        """Return who alone may take the head: the owner, or whom the strategy lends it to."""
        owner = lane.owner
        if owner is not None and owner.view is not None and self.admits(owner.view, head):
            return owner
        board = self.board
        refusing = [view for view in board.views if not self.admits(view, head)]
        skip = [
            consumer.id
            for consumer in board.consumers.values()
            # One without a view has left and is only waited for.
            if consumer.view is None or consumer.view in refusing
        ]
        named = board.strategy.owner(lane.name, frozenset(skip))
        if named:
            return board.consumers.get(named)
        return lane.holder if owner is not None and self._may_go_on(lane.holder, head) else None

    def _may_go_on(self, holder: Consumer | None, head: Entry) -> bool:
        """Say whether one that was lent what it holds of a group may take the next, too."""
        if holder is None or holder.view is None or holder.is_retiring:
            return False
        return self.admits(holder.view, head)

    def list_open(self, head: Entry) -> None:
        """Note the head of an open lane for each view that may take it."""
        for view in self.board.views:
            if view.members and self.admits(view, head):
                self.board.list_free(view, head.seq)
