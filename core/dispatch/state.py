# Compiled by mypyc: see setup.py.
"""DispatchState: what one queue's dispatch knows, shared by the classes of this room.

`Placement` decides where a lane stands, `Membership` who is present, `Dispatch` who gets what next.
They share the tables here, which hold data and no policy. Only this room writes the tables. Other
rooms call the methods (a test checks that).

Heaps hold sequence numbers and nothing else: number -> entry -> lane -> state. A place in a heap
is valid only while the lane's head is that entry, and the lane still stands where the heap says.
Other places are dropped when they reach the top. Doubles are harmless.

The head of a READY lane is in one of two heaps: `hot`, from which the pump takes, or `ready` of its
target. Each head starts in `hot`. If the target cannot take the head, the head is kept in `ready`
until the target can. Of the heads kept for a willing consumer, the oldest is in `hot`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from covey.core.dispatch.asking import Asking
from covey.core.dispatch.claims import GroupClaims
from covey.core.dispatch.deadlines import Deadlines
from covey.core.dispatch.index import Index
from covey.core.dispatch.lane import OPEN, READY, Lane
from covey.core.dispatch.level import Level
from covey.core.dispatch.rules import GroupRules
from covey.core.dispatch.view import View
from covey.core.events.audit import Audit
from covey.core.events.event import DELIVER, KIND_NAMES, EventKind, QueueEvents
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry
from covey.groups.strategy import GroupStrategy

VOID_SPARED: Final = 64  # so few void places in a heap are not worth a rebuild
LOOKS_PAID: Final = 8  # places that turn out to be void cost the budget one step
WASTE_PORTION: Final = 20_000  # numbers freed by a pump: a fraction of a millisecond
PACES_SPARED: Final = 1024  # the rates of so few gone groups are not worth a walk
BURST_S: Final = 0.1  # this much of a group's rate may go at once: saves a timer per message
INTRODUCED_MAX: Final = 8192  # under 1 MB; then all are forgotten, and some are told twice


@dataclass(frozen=True, slots=True)
class ParkRecord:
    """Who parked a group, when, in milliseconds since the epoch, and why."""

    by: str = ""
    at_ms: int = 0
    why: str = ""


NOT_SAID: Final = ParkRecord()


class DispatchState:
    """What one queue knows about its lanes, views and consumers."""

    def __init__(self, name: str, strategy: GroupStrategy, rules: GroupRules, audit: Audit) -> None:
        self.name = name
        self.audit = audit  # hears of groups in trouble
        self.rules = rules
        self.use(strategy)
        self.events: QueueEvents | None = None
        self.claims = GroupClaims()
        self.deadlines = Deadlines()
        self.has_deadlines = False  # some consumer has one, or had
        self.is_watched = False  # events or deadlines want to hear of each delivery
        self.now = 0.0
        self.wall_ms = 0  # milliseconds since the epoch, for expiry
        self.index = Index()
        self.lanes: dict[str, Lane] = {}
        # Groups that a command parked. They stay parked while they have no message.
        self.parked: dict[str, ParkRecord] = {}
        self.unread: dict[Lane, None] = {}  # lanes whose head has its body in the store
        self.ungrouped = Lane("", is_grouped=False)
        self.levels = [self.ungrouped]  # a priority queue has a lane per priority, highest first
        self.default_view = View(None, 0)
        self.views: list[View] = [self.default_view]
        self.consumers: dict[int, Consumer] = {}
        self.browsers: list[Consumer] = []
        self.hot: list[int] = []  # heads of READY lanes, except those in a target's `ready`
        self.stale = Asking(self.lanes)  # lanes to ask the strategy about again
        self.has_selectors = False  # any view but the default one
        self.era = 0  # how often the set of views has changed
        self.holds: list[tuple[float, int, Lane]] = []  # heap: when to look at which lane again
        self.hold_count = 0
        self.spills: list[tuple[float, int]] = []  # heap: heads that wait for their owner's credit
        self.lightened: dict[Consumer, None] = {}  # own fewer groups than their place in line says
        self.paces: dict[str, float] = {}  # of gone groups: when the next message may go
        self.paces_max = PACES_SPARED  # above so many, outdated ones are dropped
        self.wasted: list[list[int]] = []  # places that are yet to be freed
        self.budget = 0  # steps left in this pump

    def use(self, strategy: GroupStrategy) -> None:
        """Use a strategy; its flags are read once here, not once a message."""
        self.strategy = strategy
        self.wants_presence = strategy.wants_presence
        self.wants_delivered = strategy.wants_delivered or self.rules.group_rate > 0
        self.wants_drained = strategy.wants_drained
        self.is_bounded = strategy.is_bounded
        self.binds_by_rule = strategy.binds_by_rule
        # Who last got a message of a group, where the strategy goes by a rule. Such a strategy
        # does not remember owners, so the same consumer would be told twice that it is new.
        self.introduced: dict[str, int] = {}
        self.has_handed = False  # groups were given to others; the strategy knows which
        self.is_over_size = False  # the strategy's map outgrew its size, and that was reported

    def turn(self, now: float) -> None:
        """Take over the time of an event, monotonic seconds."""
        self.now = now

    def begin_pump(self, now: float, wall_ms: int) -> None:
        """Take over the time of a pump: monotonic seconds, and milliseconds since the epoch."""
        self.now = now
        self.wall_ms = wall_ms

    def report_to(self, events: QueueEvents | None) -> None:
        """Send events to a sink from now on; None: to nobody."""
        self.events = events
        self.is_watched = self.has_deadlines or events is not None

    def watch(self) -> None:
        """Time deliveries from now on: a consumer has a deadline."""
        self.has_deadlines = self.is_watched = True

    def handed_over(self, entry: Entry, consumer: Consumer) -> None:
        """Note a delivery, for the events and for its deadline."""
        if self.events is not None:
            self.events.record(DELIVER, entry.lane.name, consumer.id, entry.seq)
        if consumer.deadline_s:
            self.deadlines.delivered(consumer, entry.seq, self.now)

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """Report an event, if anybody listens."""
        if self.events is not None:
            self.events.record(kind, group, consumer, seq)

    def record_trouble(self, kind: EventKind, group: str, consumer: int, seq: int) -> None:
        """Report an event that an operator must hear of, whoever else listens."""
        self.record(kind, group, consumer, seq)
        self.audit.group_trouble(self.name, KIND_NAMES[kind], group)

    def tell_evictions(self) -> None:
        """Report the groups that the strategy has forgotten for lack of room."""
        for group in self.strategy.evictions():
            self.record(EventKind.EVICT, group, 0, 0)

    def introduce(self, group: str, consumer: int) -> None:
        """Note that a consumer has had a message of a group."""
        if len(self.introduced) >= INTRODUCED_MAX:
            self.introduced.clear()
        self.introduced[group] = consumer

    def set_levels(self, count: int) -> None:
        """Have so many priorities; the queue must be empty."""
        self.levels = [self.ungrouped]
        for rank in range(1, count):
            lane = Lane("", is_grouped=False)
            lane.rank = rank
            self.levels.append(lane)
        for view in self.views:
            view.lower = [Level() for _ in self.levels[1:]]

    def show_best(self, consumer: Consumer) -> None:
        """Move the oldest head in a consumer's `ready` to `hot`, if the consumer is willing."""
        ready = consumer.ready
        while ready and consumer.is_willing():
            seq = heappop(ready)
            if self._is_ready(consumer, seq):
                heappush(self.hot, seq)
                return
        if ready:
            consumer.window.stall(consumer)

    def list_free(self, view: View, seq: int) -> None:
        """Note the head of an open lane for one view."""
        free = view.free
        heappush(free, seq)
        most = 2 * len(self.lanes) + VOID_SPARED
        if len(free) <= most:
            return
        # A view without willing members never pops. Most often the void places are the oldest. If
        # they are not, keep only the valid ones: that is a walk through all of them.
        for _ in range(VOID_SPARED):
            if not free or self._is_open(free[0]):
                break
            heappop(free)
        else:
            return
        if len(free) > most:
            view.free = [seq for seq in set(free) if self._is_open(seq)]
            heapify(view.free)

    def best_hot(self) -> Entry | None:
        """Return the oldest head that a willing consumer may take; None if the budget ends."""
        hot = self.hot
        looked = 0
        while hot:
            entry = self.index.get(hot[0])
            if entry is not None:
                lane = entry.lane
                target = lane.target
                if lane.head is entry and lane.where == READY and target is not None:
                    if target.is_willing():
                        return entry
                    self._keep_ready(target, entry.seq)
            heappop(hot)
            looked += 1
            if looked % LOOKS_PAID == 0 and self._pay_look():
                break
        return None

    def best_free(self, view: View) -> Entry | None:
        """Return the oldest head of an open lane that a view admits; None if the budget ends."""
        free = view.free
        looked = 0
        while free:
            entry = self.index.get(free[0])
            if entry is not None:
                lane = entry.lane
                if lane.head is entry and lane.where == OPEN:
                    return entry
            heappop(free)
            looked += 1
            if looked % LOOKS_PAID == 0 and self._pay_look():
                break
        return None

    def _pay_look(self) -> bool:
        """Pay for places that were void; True: the budget is at its end."""
        self.budget -= 1
        return self.budget <= 0

    def waste(self, places: list[int]) -> None:
        """Let go of places, a portion per pump: to free a million numbers takes a while."""
        if len(places) <= WASTE_PORTION:
            places.clear()
        else:
            self.wasted.append(places)

    def free_wasted(self) -> None:
        """Free a portion of what was wasted."""
        last = self.wasted[-1]
        del last[-WASTE_PORTION:]
        if not last:
            self.wasted.pop()

    def has_run_out(self, entry: Entry) -> bool:
        """Return True if the entry has expired."""
        return 0 < entry.expires_ms <= self.wall_ms

    def hold(self, lane: Lane, until: float) -> None:
        """Look at the lane again at that time."""
        self.hold_count += 1
        heappush(self.holds, (until, self.hold_count, lane))

    def take_hold(self) -> Lane | None:
        """Return the next lane that is due to be looked at again, None if there is none."""
        if self.holds and self.holds[0][0] <= self.now:
            return heappop(self.holds)[2]
        return None

    def delivered(self, lane: Lane) -> None:
        """Called when a message of a lane goes out, if the strategy or a rate wants to know."""
        if self.strategy.wants_delivered:
            self.strategy.delivered(lane.name)
        rate = self.rules.group_rate
        if rate:
            apart = 1.0 / rate
            lane.paced_until = max(lane.paced_until, self.now - max(0.0, BURST_S - apart)) + apart
            self.pace(lane)

    def pace(self, lane: Lane) -> None:
        """Hold a lane until its rate lets the next message go."""
        if lane.paced_until > self.now:
            lane.hold_until = max(lane.hold_until, lane.paced_until)
            self.hold(lane, lane.paced_until)

    def keep_pace(self, lane: Lane) -> None:
        """Remember when a group without messages may send its next one, while that matters."""
        over = self.now - BURST_S
        if lane.paced_until > over:
            self.paces[lane.name] = lane.paced_until
        if len(self.paces) > self.paces_max:
            living = self.paces.items()
            self.paces = {group: until for group, until in living if until > over}
            self.paces_max = max(PACES_SPARED, 2 * len(self.paces))

    def take_pace(self, lane: Lane) -> None:
        """Let a new lane go on at the rate at which its group's last lane ended."""
        lane.paced_until = self.paces.pop(lane.name, 0.0)
        self.pace(lane)

    def forget_paces(self) -> None:
        """Forget what groups have used of their rate: the rate has changed."""
        self.wants_delivered = self.strategy.wants_delivered or self.rules.group_rate > 0
        self.paces.clear()
        for lane in self.lanes.values():
            if lane.hold_until == lane.paced_until:
                lane.hold_until = 0.0
            lane.paced_until = 0.0

    def set_parked(self, group: str, record: ParkRecord | None) -> None:
        """Note that a command parked a group, or (None) let the group go on."""
        if record is not None:
            self.parked[group] = record
        else:
            self.parked.pop(group, None)

    def take_unread(self, lane: Lane) -> None:
        """Note that the body of a lane's head is being read."""
        del self.unread[lane]

    def add_browser(self, browser: Consumer) -> None:
        """Let a browser look."""
        self.browsers.append(browser)

    def remove_browser(self, browser: Consumer) -> None:
        """Forget a browser; one that has seen the end is forgotten already."""
        if browser in self.browsers:
            self.browsers.remove(browser)

    def await_credit(self, seq: int) -> None:
        """Have a head looked at again after `spill_after_s`: its owner has no credit."""
        heappush(self.spills, (self.now + self.rules.spill_after_s, seq))

    def take_spill(self) -> int:
        """Return the number of the next head that has waited long enough, 0 if there is none."""
        if self.spills and self.spills[0][0] <= self.now:
            return heappop(self.spills)[1]
        return 0

    def hand(self, unit: str, consumer: int) -> None:
        """Give a group, or a bucket of groups, to another consumer."""
        self.has_handed = True
        self.strategy.hand(unit, consumer)

    def spill(self, group: str, consumer: int) -> None:
        """Give a group to another consumer; with `consistent-hash` until the group is empty."""
        self.has_handed = True
        self.strategy.spill(group, consumer)
        self.wants_presence = True  # the strategy must hear when the group is empty

    def _keep_ready(self, consumer: Consumer, seq: int) -> None:
        ready = consumer.ready
        heappush(ready, seq)
        consumer.window.stall(consumer)
        if self.rules.spill_after_s:
            self.await_credit(seq)
        # With selectors any lane may be lent to the consumer, else only its own lanes are here.
        living = len(self.lanes) if self.has_selectors else len(consumer.lanes)
        most = 2 * living + VOID_SPARED
        if len(ready) <= most:
            return
        # A consumer without credit never pops: as in `list_free`.
        for _ in range(VOID_SPARED):
            if not ready or self._is_ready(consumer, ready[0]):
                break
            heappop(ready)
        else:
            return
        if len(ready) > most:
            consumer.ready = [seq for seq in set(ready) if self._is_ready(consumer, seq)]
            heapify(consumer.ready)

    def _is_open(self, seq: int) -> bool:
        entry = self.index.get(seq)
        return entry is not None and entry.lane.head is entry and entry.lane.where == OPEN

    def _is_ready(self, consumer: Consumer, seq: int) -> bool:
        entry = self.index.get(seq)
        if entry is None:
            return False
        lane = entry.lane
        return lane.head is entry and lane.where == READY and lane.target is consumer
