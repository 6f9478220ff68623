"""Admission: which views may take an entry, where selectors or exclusive consumers are in play.

A queue whose consumers all see everything (`board.has_selectors` False) never asks here.

Lending: the owner's selector refuses the head of its group. The strategy may name another (the
next on a ring), else any consumer whose view admits it may take it. Ownership does not change, the
gate holds, the next head is judged afresh. A head that no view admits is set aside (the Apollo,
ActiveMQ and Qpid brokers all step over it) until the set of views changes, or with
`selector_order = "strict"` holds its group and says so.
"""

from __future__ import annotations

from covey.core.board import Board
from covey.core.consumer import Consumer
from covey.core.entry import ASIDE, PENDING, Entry
from covey.core.events import EventKind
from covey.core.lane import Lane
from covey.core.view import View


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
        """Return the lane's head, setting aside what nobody may take."""
        board = self.board
        head = lane.find_head(board.index)
        if board.rules.is_selector_strict:
            return head
        while head is not None and head.state == PENDING and head.message is not None:
            if self.is_wanted(head):
                return head
            lane.pop(head)
            head.state = ASIDE
            board.record(EventKind.ASIDE, lane.name, 0, head.seq)
            if lane.aside is None:
                lane.aside = set()
            lane.aside.add(head.seq)
            head = lane.find_head(board.index)
        return head

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
        return board.consumers.get(named) if named else None

    def list_open(self, head: Entry) -> None:
        """Note the head of an open lane for each view that may take it."""
        for view in self.board.views:
            if view.members and self.admits(view, head):
                self.board.list_free(view, head.seq)
