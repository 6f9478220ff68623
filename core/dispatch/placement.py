# Compiled by mypyc: see setup.py.
"""Placement: where a lane stands, and whose it is.

One function, `resolve`, decides where a lane stands. It is called whenever the head, the owner, the
holder, a gate or the set of views has changed. `arrive` and `advance` are its common cases, written
out. Nothing else moves a lane. `bind` sets a lane's owner, and `vanish` ends the ownership of an
empty lane. Only these two report assign and revoke, so each assign has its revoke.

Close, reset, rebalance, leave, a change of strategy and lending to another selector have no drain
protocol of their own. They change the owner at once, and the gate (`core.dispatch.lane`) makes the
lane wait until the old holder is done. Nothing else waits with it.

Where selectors or exclusive consumers are in play, `core.dispatch.admission` says which head is
next and who may take it. Else the owner may take the head, or anybody if there is no owner.
"""

from __future__ import annotations

from heapq import heappush
from typing import Final

from covey.core.dispatch.admission import Admission
from covey.core.dispatch.lane import DRAINING, HELD, IDLE, OPEN, PARKED, READY, SEIZED, Lane
from covey.core.dispatch.state import DispatchState
from covey.core.events.event import ASSIGN, REVOKE, EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import PENDING, STORING, Entry

RELINK_MIN: Final = 64  # below this many gone entries a relink is not worth its walk
UNREAD: Final = "its next message is being read from the store"


class Placement:
    """The one place that decides who may take a lane's next message."""

    def __init__(self, state: DispatchState) -> None:
        self.state = state
        self.admission = Admission(state)

    def lane_for(self, group: str) -> Lane:
        """Return the group's lane, opening it if the group has no message here yet."""
        state = self.state
        lane = state.lanes.get(group)
        if lane is None:
            lane = Lane(group)
            state.lanes[group] = lane
            if state.paces:
                state.take_pace(lane)
            if state.wants_presence:
                state.strategy.opened(group)
        return lane

    def resolve(self, lane: Lane) -> None:
        """Find the lane's head and put the lane where it belongs now."""
        state = self.state
        was_target = lane.target if lane.where == READY else None
        aside = lane.aside
        if aside is not None and aside.era != state.era:
            aside.recall(state.era)  # first of all: the old head must not go out before these
        if state.has_selectors:
            head = self.admission.find_head(lane)
        else:
            head = lane.find_head(state.index)
        lane.head = head
        if head is None:
            lane.target = None
            self._move(lane, IDLE)
            if lane.count == 0:
                self.vanish(lane)
        else:
            where = self._decide(lane, head)
            self._move(lane, where)
            if where == READY:
                heappush(state.hot, head.seq)
            elif where == OPEN and state.has_selectors:
                self.admission.list_open(head)
            elif where == OPEN:
                state.list_free(state.default_view, head.seq)
        # The lane's place in `hot` may be void now, while the old target has more heads in its
        # `ready`. The pump would never hear of them unless the oldest is moved to `hot` here.
        if was_target is not None:
            state.show_best(was_target)

    def arrive(self, lane: Lane, entry: Entry) -> None:
        """Resolve a lane that had no head until this entry came; the common case is written out."""
        state = self.state
        is_simple = lane.first is entry and lane.back is None and lane.aside is None
        if state.has_selectors or not is_simple or not self._is_free_to_go(lane, entry):
            self.resolve(lane)
            return
        if lane.owner is None:
            self.ask(lane)
        owner = lane.owner
        if (lane.unsettled and lane.holder is not owner) or (owner is not None and owner.is_gone):
            self.resolve(lane)
        elif owner is None:
            lane.head = entry
            lane.where = OPEN
            state.list_free(state.default_view, entry.seq)
        else:
            lane.head = entry
            lane.target = owner
            lane.where = READY
            heappush(state.hot, entry.seq)

    def advance(self, lane: Lane, consumer: Consumer) -> None:
        """Resolve a lane whose head has just gone out; the common cases are written out."""
        state = self.state
        is_simple = lane.back is None and lane.aside is None
        if state.has_selectors or not is_simple or lane.owner is not consumer:
            self.resolve(lane)
            return
        head = lane.first
        if head is None:
            lane.head = None
            lane.target = None
            lane.where = IDLE
            if lane.count == 0:
                self.vanish(lane)
        elif lane.where == READY and self._is_free_to_go(lane, head):
            lane.head = head
            heappush(state.hot, head.seq)
        else:
            self.resolve(lane)
        if consumer.ready:
            state.show_best(consumer)

    def ask(self, lane: Lane) -> None:
        """Ask the strategy whose group this is, and bind it. Does not resolve."""
        state = self.state
        owner = lane.owner
        claimant = state.claims.taken.get(lane.name) if state.claims.taken else None
        if claimant is not None:
            if claimant is not owner:
                self.bind(lane, claimant)
                lane.is_fresh = True
            return
        if owner is not None and owner.is_retiring and not owner.is_barred:
            return  # a retiring consumer keeps what it has until it is empty
        named = state.strategy.owner(lane.name)
        asked = state.consumers.get(named) if named else None
        if asked is not owner:
            self.bind(lane, asked)
            # A strategy that remembers owners does not know that a claimant had the group since.
            is_new = state.binds_by_rule or lane.name in state.introduced
            lane.is_fresh = is_new or (state.has_handed and state.strategy.is_handed(lane.name))

    def bind(self, lane: Lane, consumer: Consumer | None) -> None:
        """Make the consumer (or nobody) the lane's owner."""
        state = self.state
        owner = lane.owner
        if owner is consumer:
            return
        if owner is not None:
            owner.lanes.pop(lane, None)
            if len(owner.lanes) < owner.line_load:
                state.lightened[owner] = None
            if state.events is not None:
                state.record(REVOKE, lane.name, owner.id, 0)
            if owner.wants_revoked and not owner.is_gone:
                owner.revoked(lane.name)
        lane.owner = consumer
        lane.is_fresh = False
        if consumer is not None:
            consumer.lanes[lane] = None
            lane.owned_since = state.now
            if state.events is not None:
                state.record(ASSIGN, lane.name, consumer.id, 0)

    def seize(self, lane: Lane) -> None:
        """Hand out nothing of a lane until it is released: a command works on it."""
        lane.hold_until = SEIZED
        self.resolve(lane)

    def is_seized(self, lane: Lane) -> bool:
        """Return True if a command works on the lane."""
        return lane.hold_until == SEIZED

    def release(self, lane: Lane) -> None:
        """Let a lane go on, if it is still there."""
        lane.hold_until = 0.0
        self.state.pace(lane)
        if self.state.lanes.get(lane.name) is lane:
            self.resolve(lane)

    def dropped(self, entry: Entry) -> None:
        """Called when a pending entry is gone without having been delivered."""
        lane = entry.lane
        lane.forget_aside(entry.seq)
        if lane.head is entry or lane.count == 0:
            self.resolve(lane)
            return
        buried = lane.bury(entry)
        if buried > RELINK_MIN and buried > lane.count:
            lane.relink(self.state.index)

    def _decide(self, lane: Lane, head: Entry) -> int:
        state = self.state
        if lane.owner is None:
            self.ask(lane)  # first of all: a lane that is held has an owner, too
        owner = lane.owner
        lane.target = None
        if not self._is_free_to_go(lane, head) or (owner is not None and owner.is_gone):
            why = self._hold_reason(lane, head)
            if why:
                lane.why = why
                if why == UNREAD:
                    state.unread[lane] = None
                return HELD
        lane.target = self.admission.target_of(lane, head) if state.has_selectors else owner
        if lane.target is None and state.has_selectors and not self.admission.is_wanted(head):
            lane.why = "no consumer's selector admits its next message"
            return HELD
        if lane.unsettled and lane.holder is not lane.target:
            return DRAINING
        return OPEN if lane.target is None else READY

    def _is_free_to_go(self, lane: Lane, head: Entry) -> bool:
        """Return True if nothing that `_hold_reason` looks at can hold the head."""
        return (
            head.state == PENDING
            and head.message is not None
            and not lane.is_parked
            and lane.hold_until == 0.0
            and self.state.rules.unsettled_max == 0
        )

    def _hold_reason(self, lane: Lane, head: Entry) -> str:
        rules = self.state.rules
        if lane.is_parked:
            return PARKED
        if head.state == STORING:
            return "its next message is being written to the store"
        if head.message is None:
            return UNREAD
        if lane.hold_until == SEIZED:
            return "an operator's command works on its messages"
        if lane.hold_until > self.state.now:
            if lane.hold_until == lane.paced_until:
                return f"its rate of {rules.group_rate:g} messages a second is used up"
            return "waiting before the next try of a failed message"
        if rules.unsettled_max and lane.unsettled >= rules.unsettled_max:
            return f"{lane.unsettled} unsettled messages, the most its policy allows"
        owner = lane.owner
        if owner is not None and owner.is_gone:
            return f"waiting for client {owner.client_id} to return"
        return ""

    def _move(self, lane: Lane, where: int) -> None:
        was = lane.where
        lane.where = where
        if where < DRAINING and was < DRAINING:
            return  # the common case: the lane was not blocked, and is not now
        if where >= DRAINING:
            if was < DRAINING:
                lane.blocked_since = self.state.now
        else:
            lane.blocked_since = 0.0
        if where == DRAINING and was != DRAINING:
            self._drain_began(lane)
        elif was == DRAINING and where != DRAINING:
            self.state.record(EventKind.DRAIN_END, lane.name, 0, 0)

    def _drain_began(self, lane: Lane) -> None:
        state = self.state
        holder = lane.holder
        lane.draining_since = state.now
        state.record(EventKind.DRAIN_START, lane.name, 0 if holder is None else holder.id, 0)
        if state.rules.drain_limit_s:
            state.hold(lane, state.now + state.rules.drain_limit_s)

    def vanish(self, lane: Lane) -> None:
        """End a lane that has no message left."""
        state = self.state
        owner = lane.owner
        if owner is not None:
            # The lane ends, not the ownership: a sticky strategy still remembers it, so the
            # owner gets no notice.
            owner.lanes.pop(lane, None)
            lane.owner = None
            if len(owner.lanes) < owner.line_load:
                state.lightened[owner] = None
            if state.events is not None:
                state.record(REVOKE, lane.name, owner.id, 0)
            if owner.group:
                state.claims.emptied(owner)
        if lane.is_parked and lane.name in state.parked:
            if state.wants_drained:
                state.strategy.drained(lane.name)  # its last delivery came back expired
            return  # parked by command: the group's next messages wait, too
        if lane.paced_until:
            state.keep_pace(lane)
        if state.unread:
            state.unread.pop(lane, None)  # without consumers nothing else would drop it
        if state.lanes.pop(lane.name, None) is not None and state.wants_presence:
            state.strategy.vanished(lane.name)
            if state.is_bounded and state.events is not None:
                state.tell_evictions()  # at once: its next message may go to another consumer
