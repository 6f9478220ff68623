# Compiled by mypyc: see setup.py.
"""Admission: which consumers may take which message, where not everybody may take everything.

A queue whose consumers all see everything (`state.has_selectors` is False) never asks here.

`Admission` follows selectors and exclusive consumers. The owner of a group may have a selector that
refuses the group's head. Then the head is lent:

- The strategy may name another consumer, such as the next one on a ring.
- Else any consumer whose view admits the head may take it. While this consumer holds messages of
  the group, it also gets what else the owner refuses.
- Ownership does not change, the gate holds, and the next head is judged afresh.

A head that no view admits is set aside until the set of views changes. The Apollo, ActiveMQ and
Qpid brokers all step over such a message. With `selector_order = "strict"` the head blocks its
group instead, and `why` says so. A long backlog that nobody wants is set aside in portions,
so that one group does not hold up the event loop.

`Exclusions` keep a message from the consumer that refused it, while another may get it. AMQP 1.0
section 3.4.5 calls this modified with undeliverable-here. It works like a selector that says no to
one message. From its first refusal on the consumer has a view of its own, which leaves out the
numbers it has refused. All else follows from the rules for selectors: a group's message is lent to
another consumer, in order and behind the gate. A message that nobody is left for is set aside,
shown as such, and comes back when another consumer joins.

An exclusion ends with its consumer, or with the message. The view stays until the consumer leaves:
to give it up would cost a walk over the backlog for each refused message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.dispatch.lane import SEIZED, Lane
from covey.core.dispatch.state import DispatchState
from covey.core.dispatch.view import View
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import PENDING, Entry

if TYPE_CHECKING:
    from covey.core.dispatch.dispatch import Dispatch
    from covey.core.dispatch.membership import Membership


# Entries of one group set aside at a time: about a millisecond. Not Final, so that a test of the
# compiled build can make it small.
ASIDE_PORTION = 250


class Admission:
    """Who may see what of one queue."""

    __slots__ = ("exclusives", "state")

    def __init__(self, state: DispatchState) -> None:
        self.state = state
        self.exclusives: list[View] = []  # views of exclusive consumers, most preferred first

    def admits(self, view: View, entry: Entry) -> bool:
        """Return True if a view's members may take the entry.

        If the selectors of exclusive consumers match an entry, only the most preferred of these
        consumers may take it. Entries that none of them matches fall to the others.
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
        """Return True if anybody present may take the entry."""
        return any(view.members and self.admits(view, head) for view in self.state.views)

    def find_head(self, lane: Lane) -> Entry | None:
        """Return the lane's head; set aside what nobody may take.

        After `ASIDE_PORTION` entries the rest is left to the next pump.
        """
        state = self.state
        head = lane.find_head(state.index)
        if state.rules.is_selector_strict or lane.hold_until == SEIZED:
            return head
        if lane.name in state.claims.taken:
            return head  # whoever claims a group takes all of it
        for _ in range(ASIDE_PORTION):
            if head is None or head.state != PENDING or head.message is None:
                return head
            if self.is_wanted(head):
                return head
            self._set_aside(lane, head)
            head = lane.find_head(state.index)
        state.stale.add(lane)
        return head

    def _set_aside(self, lane: Lane, head: Entry) -> None:
        state = self.state
        state.budget -= 1
        state.record(EventKind.ASIDE, lane.name, 0, head.seq)
        lane.set_aside(head, state.index, state.era)

    def target_of(self, lane: Lane, head: Entry) -> Consumer | None:
        """Return the only consumer that may take the head: the owner, or who it is lent to."""
        owner = lane.owner
        if owner is not None and owner.view is not None and self.admits(owner.view, head):
            return owner
        if owner is not None and owner.group:
            return owner
        state = self.state
        refusing = [view for view in state.views if not self.admits(view, head)]
        skip = [
            consumer.id
            for consumer in state.consumers.values()
            # A consumer without a view is absent, or has claimed one group and takes no other.
            if consumer.view is None or consumer.view in refusing or consumer.is_overdue
        ]
        named = state.strategy.owner(lane.name, frozenset(skip))
        if named:
            return state.consumers.get(named)
        return lane.holder if owner is not None and self._may_go_on(lane.holder, head) else None

    def _may_go_on(self, holder: Consumer | None, head: Entry) -> bool:
        """Return True if a consumer that was lent messages of a group may take the next, too."""
        if holder is None or holder.view is None or holder.is_retiring or holder.is_overdue:
            return False
        return self.admits(holder.view, head)

    def list_open(self, head: Entry) -> None:
        """Note the head of an open lane for each view that may take it."""
        for view in self.state.views:
            if view.members and self.admits(view, head):
                self.state.list_free(view, head.seq)


SPARED: Final = 64  # the numbers of so few gone messages are not worth a walk


class Exclusions:
    """Which consumers of one queue must not get which messages."""

    __slots__ = ("dispatch", "membership", "state")

    def __init__(self, state: DispatchState, membership: Membership, dispatch: Dispatch) -> None:
        self.state = state
        self.membership = membership
        self.dispatch = dispatch

    def refuse(self, consumer: Consumer, entry: Entry) -> bool:
        """Keep an entry from the consumer that has refused it; False if that cannot be done."""
        if consumer.group_asked:
            return False  # it takes all of its group, or nothing
        if consumer.view is None:
            return True  # it has left, and will be offered nothing
        refused = self._refused_by(consumer, consumer.view)
        if refused is None:
            return False
        refused.add(entry.seq)
        consumer.view.forget(entry.seq, entry.lane.rank)
        if len(refused) > 2 * self.state.index.count + SPARED:
            gone = [seq for seq in refused if not self.state.index.has(seq)]
            refused.difference_update(gone)
        return True

    def _refused_by(self, consumer: Consumer, view: View) -> set[int] | None:
        if view.refused is None and not self._is_alone(view):
            if len(self.state.views) > self.membership.selectors_max:
                return None  # each view costs time at every enqueue
            view = self._move(consumer, view)
        if view.refused is None:
            view.refused = set()
        return view.refused

    def _is_alone(self, view: View) -> bool:
        """Return True if a view has one member only and can become this member's own."""
        return view is not self.state.default_view and len(view.members) == 1

    def _move(self, consumer: Consumer, shared: View) -> View:
        """Give a consumer a view of its own that shows what the shared one does."""
        view = View(shared.selector, shared.from_seq, len(self.state.levels))
        shared.members.remove(consumer)
        view.members.append(consumer)
        self.state.views.append(view)
        consumer.view = view
        consumer.places = [0, 0]
        self.membership.views_changed()
        self.dispatch.offer(consumer)
        return view
