# Compiled by mypyc: see setup.py.
"""Membership: consumers join, leave, retire, come back, and change what they want to see.

The order of steps in `leave` matters, and nothing is dispatched in between:

1. The consumer goes out of the tables, and the strategy hears of it.
2. All its unsettled messages return, in the order of their numbers.
3. Its lanes are unbound.
4. Each touched lane is resolved.

A consumer that held a message for too long (`core.dispatch.deadlines`) is suspended. For the
strategy it has left, so its groups go elsewhere as each of them drains. The consumer stays
connected and keeps what else it holds. It joins the strategy again when it settles something.

A new distinct selector costs O(backlog): every view looks at the ungrouped entries again, and every
lane is asked again. That work goes through `stale` and the pump's budget in portions.

Sticky return: a consumer with a client id may leave a queue that has `sticky_return_s` set. Then
the consumer is only absent at first. Its unsettled messages return, and its groups wait for it. If
the same client id joins again in time, the strategy renames the old owner to the new one. After
that time the consumer is gone.

`Start` decides whether a queue hands out anything yet. The first consumer of an idle queue would
get every group before the others have come. So the dispatch waits for a number of consumers, or for
a time after the first one, whichever is first (ActiveMQ's `consumersBeforeDispatchStarts` and
`timeBeforeDispatchStarts`, see its message groups page). Once begun, the dispatch goes on when
consumers leave. It waits again after the last one has left. Browsers count as consumers. Absent
consumers, whose return is waited for, do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.core.dispatch.claims import NEXT
from covey.core.dispatch.lane import Lane
from covey.core.dispatch.level import NOTHING
from covey.core.dispatch.placement import Placement
from covey.core.dispatch.rules import GroupRules
from covey.core.dispatch.state import DispatchState
from covey.core.dispatch.view import View
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry


class Membership:
    """The consumers of one queue: present, retiring and absent."""

    def __init__(self, state: DispatchState, placement: Placement, selectors_max: int = 64) -> None:
        self.state = state
        self.placement = placement
        self.selectors_max = selectors_max
        self.absent: list[Consumer] = []  # waited for, in the order they left
        self.absent_until: dict[int, float] = {}

    def join(self, consumer: Consumer) -> None:
        """Take a consumer in: into its view, into the strategy; then ask lanes that may move."""
        state = self.state
        if not consumer.group_asked:
            self._enter_view(consumer)
        self._give_deadline(consumer)
        state.consumers[consumer.id] = consumer
        consumer.joined_at = state.now
        state.record(EventKind.JOIN, _asks_for(consumer), consumer.id, 0)
        if consumer.group_asked:
            self._claim(consumer)
            return
        if state.strategy.joined(consumer.id, consumer.weight):
            self.ask_all()
        before = self._absent_like(consumer)
        if before is not None:
            self._replace(before, consumer)

    def leave(self, consumer: Consumer) -> list[Entry]:
        """Let a consumer go; return its unsettled entries, which the caller puts back."""
        state = self.state
        consumer.is_gone = consumer.is_barred = True
        state.deadlines.left(consumer)
        returned = [consumer.unsettled[seq] for seq in sorted(consumer.unsettled)]
        consumer.unsettled.clear()
        state.record(EventKind.LEAVE, "", consumer.id, 0)
        returns = not (consumer.is_retiring or consumer.is_overdue or consumer.group_asked)
        if state.rules.sticky_return_s and consumer.client_id and returns:
            self.absent.append(consumer)
            self.absent_until[consumer.id] = state.now + state.rules.sticky_return_s
            self._leave_view(consumer)
            return returned
        self._forget(consumer)
        return returned

    def settling_lanes(self, consumer: Consumer, touched: dict[Lane, None]) -> Iterator[int]:
        """Resolve the lanes a leaver owned or held, once its entries are back in them."""
        placement = self.placement
        for lane in touched:
            # Only lanes of which the leaver held messages can have drained now.
            if lane.unsettled == 0:
                lane.holder = None
                if lane.owner is consumer and self.state.strategy.drained(lane.name):
                    placement.bind(lane, None)
            yield 1
        for lane in list(consumer.lanes):
            touched[lane] = None
            if consumer.id not in self.absent_until:
                placement.bind(lane, None)
            yield 1
        for lane in touched:
            if self.state.lanes.get(lane.name) is lane:
                placement.resolve(lane)
            yield 1
        if self.state.has_selectors:
            self.ask_all()  # lanes that drain towards the leaver or were lent to it, too

    def retire(self, consumer: Consumer) -> None:
        """Give the consumer no new groups; what it owns stays until it is empty."""
        consumer.is_retiring = True
        self.state.record(EventKind.RETIRE, "", consumer.id, 0)
        if consumer.group_asked:
            self._retire_claimant(consumer)
        else:
            self.state.strategy.left(consumer.id)
        consumer.places = [0, 0]
        if consumer.is_exclusive:
            self.views_changed()  # what it no longer takes falls to the others
        self.ask_all()

    def suspend(self, consumer: Consumer) -> None:
        """Give a consumer nothing, and its groups to others as they drain."""
        state = self.state
        consumer.is_overdue = consumer.is_barred = True
        if consumer.group_asked:
            self._unclaim(consumer)
        else:
            state.strategy.left(consumer.id)
        consumer.places = [0, 0]
        if consumer.is_exclusive:
            self.views_changed()  # what only it could take falls to the others
        elif state.has_selectors:
            self.ask_all()  # a lane that was lent to it is not in `lanes`
        else:
            state.stale.add_some(consumer.lanes)

    def resume(self, consumer: Consumer) -> None:
        """Let a consumer that was suspended take part again."""
        state = self.state
        consumer.is_overdue = consumer.is_barred = False
        if consumer.is_exclusive:
            self.views_changed()
        if consumer.is_retiring:
            return
        if consumer.group_asked:
            self._claim(consumer)
        elif state.strategy.rejoined(consumer.id, consumer.weight):
            self.ask_all()

    def end_absences(self) -> None:
        """Let go of those who did not return in time."""
        now = self.state.now
        for consumer in list(self.absent):
            if self.absent_until[consumer.id] <= now:
                self.absent.remove(consumer)
                del self.absent_until[consumer.id]
                self._forget(consumer)
                for _ in self.settling_lanes(consumer, {}):
                    pass

    def follow(self, rules: GroupRules) -> None:
        """Use other rules; a group that was held by the old ones may be free now."""
        state = self.state
        before = state.rules
        state.rules = rules
        if rules.delivery_deadline_s != before.delivery_deadline_s:
            for consumer in state.consumers.values():
                self._give_deadline(consumer)
                state.deadlines.restart(consumer, state.now)
        if rules.group_rate != before.group_rate:
            state.forget_paces()
        if rules.is_selector_strict != before.is_selector_strict:
            self.views_changed()  # what was set aside blocks its group now, or the other way round
        elif rules != before:
            self.ask_all()

    def ask_all(self) -> None:
        """Have every lane asked again, a portion per turn (`core.dispatch.asking`)."""
        self.state.stale.add_all()

    def ask_again(self, lane: Lane) -> None:
        """Ask one lane's strategy again and put the lane in its place."""
        if self.state.lanes.get(lane.name) is lane:
            if lane.owner is not None:  # else `resolve` asks, if there is a head
                self.placement.ask(lane)
            self.placement.resolve(lane)

    def stop_seeking(self, consumer: Consumer) -> None:
        """Take a consumer that has its one group out of the line for others."""
        self._leave_view(consumer)

    def _claim(self, consumer: Consumer) -> None:
        """Give a consumer the group it names, or put it in line for that group or a free one."""
        if consumer.group_asked == NEXT:
            self._enter_view(consumer)
        elif self.state.claims.ask(consumer):
            lane = self.state.lanes.get(consumer.group)
            if lane is not None:
                self.placement.ask(lane)
                if lane.aside is not None:
                    lane.aside.recall(self.state.era)  # whoever claims a group takes all of it
                self.placement.resolve(lane)

    def _unclaim(self, consumer: Consumer) -> None:
        """End a consumer's claim; the caller has the group's lane asked again."""
        self.state.claims.give_up(consumer)
        self._leave_view(consumer)

    def _retire_claimant(self, consumer: Consumer) -> None:
        lane = self.state.lanes.get(consumer.group) if consumer.group else None
        if lane is None or lane.count == 0:
            self._unclaim(consumer)

    def _give_deadline(self, consumer: Consumer) -> None:
        """Let a consumer hold a message for as long as it asked for, or as its queue says."""
        asked = consumer.deadline_asked
        deadline_s = self.state.rules.delivery_deadline_s if asked < 0 else asked
        consumer.deadline_s = 0.0 if consumer.is_presettled else deadline_s
        if consumer.deadline_s:
            self.state.watch()

    def _forget(self, consumer: Consumer) -> None:
        self.state.consumers.pop(consumer.id, None)
        if consumer.group_asked:
            self._unclaim(consumer)
            return
        self.state.strategy.left(consumer.id)
        self._leave_view(consumer)

    def _replace(self, before: Consumer, consumer: Consumer) -> None:
        self.absent.remove(before)
        del self.absent_until[before.id]
        self.state.consumers.pop(before.id, None)
        self.state.strategy.renamed(before.id, consumer.id)
        for lane in list(before.lanes):
            is_fresh = lane.is_fresh
            self.placement.bind(lane, consumer)
            lane.is_fresh = is_fresh  # the same ownership goes on
            self.placement.resolve(lane)

    def _absent_like(self, consumer: Consumer) -> Consumer | None:
        if consumer.client_id:
            for before in self.absent:
                if before.client_id == consumer.client_id:
                    return before
        return None

    def _enter_view(self, consumer: Consumer) -> None:
        state = self.state
        view = None if consumer.is_exclusive else self._view_like(consumer)
        if view is None:
            if len(state.views) > self.selectors_max:
                raise RefusedError(
                    f"queue {state.name} has {self.selectors_max} distinct selectors or from-seqs"
                    " already, the most that selectors_per_queue_max allows",
                    "limit",
                )
            view = View(consumer.selector, consumer.from_seq, len(state.levels))
            if consumer.is_exclusive:
                view.exclusive = consumer
            state.views.append(view)
        was_empty = not view.members
        view.members.append(consumer)
        consumer.view = view
        if was_empty and (view is not state.default_view or state.has_selectors):
            self.views_changed()

    def _leave_view(self, consumer: Consumer) -> None:
        view = consumer.view
        if view is None:
            return
        consumer.view = None
        view.members.remove(consumer)
        if view.members:
            return
        view.lane_line.heap.clear()  # all places are void, and would keep their consumers alive
        view.ungrouped_line.heap.clear()
        if view is not self.state.default_view:
            self.state.views.remove(view)
            self.views_changed()
        elif self.state.has_selectors:
            self.views_changed()

    def _view_like(self, consumer: Consumer) -> View | None:
        text = "" if consumer.selector is None else consumer.selector.text
        for view in self.state.views:
            known = "" if view.selector is None else view.selector.text
            is_own = view.exclusive is not None or view.refused is not None
            if known == text and view.from_seq == consumer.from_seq and not is_own:
                return view
        return None

    def views_changed(self) -> None:
        """Show every entry to every view again: earlier tests were made for other views."""
        state = self.state
        state.era += 1  # so each lane looks at what it has set aside when it is next resolved
        state.has_selectors = len(state.views) > 1
        exclusive = [view for view in state.views if _is_exclusive(view)]
        exclusive.sort(key=_by_preference)
        self.placement.admission.exclusives = exclusive
        for view in state.views:
            view.restart_all(0 if state.index.count else NOTHING)
            state.waste(view.free)
            view.free = []
        # Each lane is listed again, by the new views, when it is asked.
        state.waste(state.hot)
        state.hot = []
        for consumer in state.consumers.values():
            if consumer.ready:
                state.waste(consumer.ready)
                consumer.ready = []
        self.ask_all()


def _is_exclusive(view: View) -> bool:
    consumer = view.exclusive
    return consumer is not None and not consumer.is_retiring and not consumer.is_overdue


def _by_preference(view: View) -> tuple[int, int]:
    consumer = view.exclusive
    assert consumer is not None
    return (-consumer.priority, consumer.id)


class Start:
    """The beginning of one queue's dispatch."""

    __slots__ = ("deadline", "has_begun", "membership", "state")

    def __init__(self, state: DispatchState, membership: Membership) -> None:
        self.state = state
        self.membership = membership
        self.has_begun = True
        self.deadline = 0.0  # when it begins at the latest; 0 = nobody has come yet

    def arm(self) -> None:
        """Begin if the policy has no wait; else wait, unless somebody is here already."""
        rules = self.state.rules
        if not (rules.consumers_before_dispatch or rules.time_before_dispatch_s):
            self.has_begun = True
        elif self._present() == 0:
            self.has_begun = False
            self.deadline = 0.0

    def joined(self) -> None:
        """Called when somebody has joined: the time runs from the first one."""
        if not self.has_begun and not self.deadline:
            self.deadline = self.state.now + self.state.rules.time_before_dispatch_s

    def left(self) -> None:
        """Called when somebody has left."""
        if self._present() == 0:
            self.arm()

    def begin_if_due(self) -> bool:
        """Begin if it is time; return True if anything may be handed out now."""
        if not self.has_begun:
            enough = 0 < self.state.rules.consumers_before_dispatch <= self._present()
            self.has_begun = enough or 0 < self.deadline <= self.state.now
        return self.has_begun

    def _present(self) -> int:
        state = self.state
        return len(state.consumers) - len(self.membership.absent) + len(state.browsers)


def _asks_for(consumer: Consumer) -> str:
    """Name what a consumer asks for that may move groups between it and others."""
    asked = "" if consumer.selector is None else "selector"
    if consumer.priority:
        asked += " priority"
    if consumer.is_exclusive:
        asked += " exclusive"
    if consumer.group_asked:
        asked += " group"
    return asked.strip()
