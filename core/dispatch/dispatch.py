# Compiled by mypyc: see setup.py.
"""Dispatch: of all messages that some willing consumer may take now, the oldest goes first.

A priority queue has no groups. There the priority counts before the age.

"The oldest goes first" gives queue order to a single consumer, gives out the oldest free group
first, and keeps groups from holding each other up. A step costs O(log n), whatever the backlog and
however many groups are blocked. The candidates are:

- the top of `hot`: heads that are bound to a willing consumer;
- for each view with a willing member, the top of its open lanes and of its ungrouped entries.

The pump ends only when `hot` is empty and no view has both a candidate and a willing consumer.
This end condition is the proof that nobody is left waiting. The pump's work is counted against a
budget, so that one call never holds the event loop for long. If `pump` returns True, it must be
called again next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from typing import Final

from covey.core.dispatch.backlog import Backlog
from covey.core.dispatch.browsing import browse
from covey.core.dispatch.lane import READY, Lane
from covey.core.dispatch.level import NOTHING
from covey.core.dispatch.membership import Membership
from covey.core.dispatch.placement import Placement
from covey.core.dispatch.state import DispatchState
from covey.core.dispatch.ungrouped import Ungrouped
from covey.core.dispatch.view import View
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import ACQUIRED, FIRST, Entry

# Lanes asked again per pump: about 3 ms plain, 1 ms compiled. Not Final: see `core.dispatch.aside`.
STALE_PORTION = 1000
ASIDE_LEAST: Final = 16  # messages set aside by a pump, however small its budget is


class Dispatch:
    """The pump of one queue."""

    def __init__(
        self,
        state: DispatchState,
        placement: Placement,
        membership: Membership,
        expire: Callable[[Entry], bool],
    ) -> None:
        self.state = state
        self.placement = placement
        self.membership = membership
        self.expire = expire  # drops an entry that has expired; True if it did
        self.place = 0  # places in the lines are numbered per queue
        self.turn = 0  # counts assignments, for "longest without one"
        self.ungrouped = Ungrouped(state, placement.admission)
        self.backlog = Backlog(state)

    def offer(self, consumer: Consumer) -> None:
        """Give a consumer that can take something its places in the lines."""
        view = consumer.view
        if view is None:
            if consumer.group:
                self.state.show_best(consumer)
            return
        if not consumer.is_willing():
            consumer.window.stall(consumer)
            return
        self._give_places(view, consumer)
        self.state.show_best(consumer)

    def admit(self, consumer: Consumer) -> None:
        """Give a new consumer its places, whether its window is open or not.

        It loses its places when there is a message that it cannot take. A wide subscription reads
        many queues with one window. When the window opens, queues without a message have nothing
        to do.
        """
        if consumer.view is not None:
            self._give_places(consumer.view, consumer)
        self.state.show_best(consumer)

    def _give_places(self, view: View, consumer: Consumer) -> None:
        if not consumer.is_retiring:
            if consumer.places[0] == 0:
                self._join_lane_line(view, consumer)
            if consumer.places[1] == 0 and not consumer.group_asked:
                # A consumer that comes back must not catch up on all that it missed.
                if self.state.rules.is_round_robin:
                    consumer.served = max(consumer.served, view.ungrouped_line.floor)
                self.place += 1
                view.ungrouped_line.push(consumer, consumer.served, consumer.id, self.place)

    def reline(self, consumer: Consumer) -> None:
        """Move a consumer up the lane line: it owns fewer groups than before."""
        if consumer.places[0] and consumer.view is not None:
            self._join_lane_line(consumer.view, consumer)

    def pump(self, budget: int, *, is_paused: bool = False) -> bool:
        """Deliver what can be delivered, if paused only to browsers; True: there is more to do."""
        state = self.state
        state.budget = budget
        if is_paused:
            for browser in list(state.browsers):
                browse(state, browser)
            return state.budget <= 0
        if state.stale.is_any:
            self._ask_stale()
        if state.wasted:
            state.free_wasted()
        if state.lightened:
            lightened, state.lightened = state.lightened, {}
            for consumer in lightened:
                self.reline(consumer)
        if state.browsers:
            self._show_first()
        view = state.default_view
        while state.budget > 0:
            if state.has_selectors or view.free:
                goes_on = self._step()
            elif not state.hot:
                goes_on = self._pump_ungrouped(view)
            elif view.todo or view.back or view.lower or view.unread != NOTHING:
                goes_on = self._step()
            else:
                goes_on = self._pump_hot(view)
            if not goes_on:
                break
        if state.budget > 0:
            for browser in list(state.browsers):
                browse(state, browser)
        return state.budget <= 0 or state.stale.is_any or bool(state.wasted)

    def _show_first(self) -> None:
        """Let browsers look before anything is delivered.

        A message that is settled as it is sent would be gone before they saw it. All browsers
        together have half of the budget, so that a long look holds nobody up.
        """
        state = self.state
        left = state.budget
        share = max(1, left // 2 // len(state.browsers))
        least = left - left // 2
        for browser in list(state.browsers):
            state.budget = min(share, left - least)
            left -= state.budget
            browse(state, browser)
            left += state.budget
        state.budget = left

    def drained(self, lane: Lane) -> None:
        """Called when nobody holds the lane any more, if the strategy wants to know."""
        owner = lane.owner
        if owner is None:
            return
        if self.state.strategy.drained(lane.name) and not owner.group:
            self.placement.bind(lane, None)
            self.reline(owner)

    def _ask_stale(self) -> None:
        state = self.state
        stale = state.stale
        # Half of the budget is for setting aside, half for the rest.
        spared = min(state.budget // 2, state.budget - ASIDE_LEAST)
        for _ in range(min(stale.count, STALE_PORTION)):
            lane = stale.next()
            if lane is None:
                return
            self.membership.ask_again(lane)
            if state.budget <= spared:
                return

    def _pump_ungrouped(self, view: View) -> bool:
        """Deliver ungrouped entries of the only view, the common case in one tight loop."""
        line = view.ungrouped_line
        state = self.state
        while state.budget > 0 and (view.todo or view.back or view.lower or view.unread != NOTHING):
            consumer = line.best()
            if consumer is None:
                return False
            entry = view.first_usable()
            if entry is None:
                entry = self.ungrouped.best(view)
                if entry is None:
                    return False
            state.budget -= 1
            if entry.expires_ms and self.expire(entry):
                continue
            self._deliver_ungrouped(view, entry, consumer)
            if state.hot or view.free:
                return True
        return False

    def _pump_hot(self, view: View) -> bool:
        """Deliver heads that are bound to a consumer, while there is nothing else to deliver."""
        state = self.state
        while state.budget > 0:
            entry = state.best_hot()
            if entry is None:
                return False
            state.budget -= 1
            if entry.expires_ms and self.expire(entry):
                continue
            target = entry.lane.target
            assert target is not None
            self._deliver_head(entry, target)
            if view.free or view.todo or view.unread != NOTHING:
                return True
        return False

    def _step(self) -> bool:
        """Deliver the oldest candidate; False if there is none."""
        state = self.state
        best = state.best_hot() if state.hot else None
        if state.budget <= 0:
            return False  # there may be an older one
        taker = None if best is None else best.lane.target
        source: View | None = None
        for view in state.views:
            if not view.members:
                continue
            consumer = self._best_owner(view) if view.free else None
            if consumer is not None:
                entry = state.best_free(view)
                if state.budget <= 0:
                    return False
                if entry is not None and _is_better(entry, consumer, best, taker):
                    best, taker, source = entry, consumer, view
            has_ungrouped = view.todo or view.back or view.lower or view.unread != NOTHING
            consumer = view.ungrouped_line.best() if has_ungrouped else None
            if consumer is not None:
                entry = self.ungrouped.best(view)
                if entry is not None and _is_better(entry, consumer, best, taker):
                    best, taker, source = entry, consumer, view
        if best is None or taker is None:
            return False
        state.budget -= 1
        if best.expires_ms and self.expire(best):
            return True
        if not best.lane.is_grouped:
            assert source is not None
            self._deliver_ungrouped(source, best, taker)
        elif best.lane.where == READY:
            self._deliver_head(best, taker)
        else:
            assert source is not None
            self._take_open(source, best, taker)
        return True

    def _deliver_ungrouped(self, view: View, entry: Entry, consumer: Consumer) -> None:
        self.ungrouped.pop(view, entry)
        line = view.ungrouped_line
        if self.state.rules.is_round_robin and len(line.heap) > 1:
            consumer.served += 1.0 / consumer.weight
            self.place += 1
            line.replace_best(consumer.served, consumer.id, self.place)
        self._hand_over(entry, consumer)

    def _take_open(self, view: View, entry: Entry, consumer: Consumer) -> None:
        """Give a consumer the head of an open lane, and the lane if nobody owns it."""
        lane = entry.lane
        state = self.state
        if consumer.group_asked:
            self._claim(entry, consumer)
            return
        if lane.owner is None:
            state.introduced.pop(lane.name, None)
            neighbours = state.strategy.took(lane.name, consumer.id)
            self.placement.bind(lane, consumer)
            lane.is_fresh = True
            if state.is_bounded:
                self._tell_of_size()
            self.turn += 1
            consumer.last_assigned = self.turn
            self._join_lane_line(view, consumer)
            self._deliver_head(entry, consumer)
            for name in neighbours:
                neighbour = state.lanes.get(name)
                if neighbour is not None:
                    self.membership.ask_again(neighbour)
            return
        self._deliver_head(entry, consumer)  # lent: the owner's selector refuses it

    def _claim(self, entry: Entry, consumer: Consumer) -> None:
        """Give a free group to a consumer that asked for one group alone."""
        lane = entry.lane
        self.state.claims.take(lane.name, consumer)
        consumer.places = [0, 0]
        self.placement.bind(lane, consumer)
        lane.is_fresh = True
        self._deliver_head(entry, consumer)
        self.membership.stop_seeking(consumer)

    def _deliver_head(self, entry: Entry, consumer: Consumer) -> None:
        lane = entry.lane
        state = self.state
        message = entry.message
        assert message is not None
        if state.hot and state.hot[0] == entry.seq:
            heappop(state.hot)  # the head's place is void now; most often it is on top
        lane.pop(entry, state.index)
        lane.unsettled += 1
        lane.holder = consumer
        if lane.is_fresh and lane.owner is consumer:
            lane.is_fresh = False
            if state.has_handed and not consumer.group:
                state.strategy.introduced(lane.name)
            if state.introduced.get(lane.name) != consumer.id:
                if state.binds_by_rule or consumer.group or lane.name in state.introduced:
                    state.introduce(lane.name, consumer.id)
                if state.rules.tells_first:
                    entry.marks |= FIRST
        if state.wants_delivered:
            state.delivered(lane)
        if message.group_sequence < 0 and state.strategy.acts_on_close:
            self.close(lane)
        self._hand_over(entry, consumer)
        # A message settled as it is sent may have been its lane's last: then the lane is gone.
        if lane.count or state.lanes.get(lane.name) is lane:
            self.placement.advance(lane, consumer)

    def close(self, lane: Lane) -> None:
        """End the group's ownership; the group moves once its messages out are settled."""
        state = self.state
        owner = lane.owner
        state.record(EventKind.GROUP_CLOSE, lane.name, 0 if owner is None else owner.id, 0)
        state.strategy.closed(lane.name)
        if owner is not None and owner.is_retiring and not owner.group:
            self.placement.bind(lane, None)  # a retiring owner keeps groups, but not closed ones
        self.placement.ask(lane)
        if owner is not None:
            self.reline(owner)

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        entry.state = ACQUIRED
        entry.holder = consumer
        window = consumer.window
        if not window.is_automatic:
            window.count -= 1
            window.size -= entry.size
        consumer.delivered += 1
        state = self.state
        if state.is_watched:
            state.handed_over(entry, consumer)
        if consumer.is_presettled:
            consumer.deliver(entry)
            queue = consumer.queue
            assert queue is not None
            queue.settled(entry)
        else:
            consumer.unsettled[entry.seq] = entry
            consumer.deliver(entry)

    def _best_owner(self, view: View) -> Consumer | None:
        """Return whose turn it is to get a group that nobody owns.

        A consumer may have got back groups that it owned before. Then it has more groups than its
        place in line says, and gets a new place.
        """
        line = view.lane_line
        consumer = line.best()
        if not self.state.strategy.is_sticky or self.state.rules.counts_idle:
            return consumer
        while consumer is not None and consumer.line_load != len(consumer.lanes):
            self._join_lane_line(view, consumer)
            consumer = line.best()
        return consumer

    def _join_lane_line(self, view: View, consumer: Consumer) -> None:
        self.place += 1
        state = self.state
        if consumer.group_asked:
            load = 0
            consumer.line_load = 0
        elif state.rules.counts_idle or not state.strategy.is_sticky:
            load = state.strategy.load(consumer.id)
        else:
            load = len(consumer.lanes)
            consumer.line_load = load
        view.lane_line.push(consumer, load / consumer.weight, consumer.last_assigned, self.place)

    def _tell_of_size(self) -> None:
        state = self.state
        state.tell_evictions()
        strategy = state.strategy
        if strategy.over_size != state.is_over_size:
            state.is_over_size = strategy.over_size
            if state.is_over_size:
                state.record_trouble(EventKind.GROUPS_OVER_SIZE, "", 0, 0)


def _is_better(
    entry: Entry, consumer: Consumer, best: Entry | None, taker: Consumer | None
) -> bool:
    """Compare candidates: priority, then age; of one message, the preferred consumer."""
    if best is None or taker is None:
        return True
    if entry.lane.rank != best.lane.rank:
        return entry.lane.rank < best.lane.rank
    if entry.seq < best.seq:
        return True
    if entry is not best or consumer is taker:
        return False
    return (-consumer.priority, consumer.served) < (-taker.priority, taker.served)
