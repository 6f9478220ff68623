"""Exclusions: messages that one consumer must not get again, though another may.

A consumer says so of a single message (AMQP 1.0 section 3.4.5: modified with undeliverable-here).
It is its selector saying no to that one message, and so it is done: from its first refusal on the
consumer looks through a view of its own, which leaves out the numbers it has refused. All else
follows from what holds for selectors (`core.placement`): a group's message is lent to another
consumer, in order and behind the gate; one that nobody is left for is set aside, shown as such,
and comes back when another consumer joins.

An exclusion ends with its consumer, or with the message. The view stays until the consumer leaves:
to give it up would cost a walk over the backlog for each refused message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.view import View

if TYPE_CHECKING:
    from covey.core.board import Board
    from covey.core.consumer import Consumer
    from covey.core.dispatch import Dispatch
    from covey.core.entry import Entry
    from covey.core.membership import Membership

SPARED: Final = 64  # numbers of messages that are gone which are not worth a walk


class Exclusions:
    """Who of one queue must not get what."""

    __slots__ = ("board", "dispatch", "membership")

    def __init__(self, board: Board, membership: Membership, dispatch: Dispatch) -> None:
        self.board = board
        self.membership = membership
        self.dispatch = dispatch

    def refuse(self, consumer: Consumer, entry: Entry) -> bool:
        """Keep an acquired entry from its consumer; False if the queue has no room for that."""
        if consumer.view is None:
            return True  # it has left, and will be offered nothing
        refused = self._refused_by(consumer, consumer.view)
        if refused is None:
            return False
        refused.add(entry.seq)
        consumer.view.forget(entry.seq, entry.lane.rank)
        if len(refused) > 2 * self.board.index.count + SPARED:
            gone = [seq for seq in refused if self.board.index.get(seq) is None]
            refused.difference_update(gone)
        return True

    def _refused_by(self, consumer: Consumer, view: View) -> set[int] | None:
        if view.refused is None and not self._is_alone(view):
            if len(self.board.views) > self.membership.selectors_max:
                return None  # each view costs time at every enqueue
            view = self._move(consumer, view)
        if view.refused is None:
            view.refused = set()
        return view.refused

    def _is_alone(self, view: View) -> bool:
        """Say whether a view can become its only member's own."""
        return view is not self.board.default_view and len(view.members) == 1

    def _move(self, consumer: Consumer, shared: View) -> View:
        """Give a consumer a view of its own that shows what the shared one does."""
        view = View(shared.selector, shared.from_seq, len(self.board.levels))
        shared.members.remove(consumer)
        view.members.append(consumer)
        self.board.views.append(view)
        consumer.view = view
        consumer.places = [0, 0]
        self.membership.views_changed()
        self.dispatch.offer(consumer)
        return view
