# Compiled by mypyc: see setup.py.
"""Timers: what becomes due on a queue by time alone.

| what                                   | kept in                  | then                       |
|----------------------------------------|--------------------------|----------------------------|
| a delayed message's time comes         | `delayed`                | it is let in               |
| a message expires                      | `core.queue.expiry`      | dropped, if not acquired   |
| an ungrouped message may be retried    | `away`                   | back at its place          |
| a failed group may go on, drain report | `state.holds`            | its lane is resolved       |
| an absent client did not return        | `membership.absent_until`| its groups are free        |
| a consumer held a message for too long | `state.deadlines`        | the message fails          |
| a consumer has joined for a while      | `balancer.due`           | some groups go to it       |
| a group's owner has no credit          | `state.spills`           | the group goes elsewhere   |
| idle groups grow old                   | `age_at`                 | the strategy forgets some  |

Each pump looks at all of these, in this order, before anything is handed out. Very much may be due
at the same moment. So a pump does a portion of each (`DUE_PORTION`), and later turns do the rest.
`next_deadline` says when the queue must be pumped next. A failed *group* waits as a whole, since
order comes first. A failed message without a group waits alone.

`Delayed` keeps messages whose time has not come, outside the queue they are meant for. They have no
sequence number until they are due, so order, browsers and bookmarks never see the past change. Then
they come in at the end, like any other message. Messages due at the same moment come in the order
they were sent. Delayed messages count for the queue's quota from the start, so that none has to be
refused when its time comes. A persistent one is in the store at a place of its own (`place`, above
every sequence number), and moves from there to its number in one step. Its body stays in the store.
Memory has only what the queue needs to give the message a place. A message that is not persistent
is kept in memory whole.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.lane import DRAINING, HELD, Lane
from covey.core.events.event import EventKind
from covey.core.model.entry import ACQUIRED, AWAY, STORING, Entry
from covey.core.model.message import Message
from covey.core.queue.expiry import Expiry

if TYPE_CHECKING:
    from covey.core.queue.queue import Queue
    from covey.core.storage.store import MessageRecord


PLACE: Final = 1 << 41  # sequence numbers of seven years at 10,000 a second stay below it


class Waiting:
    """One message that waits for its time."""

    __slots__ = (
        "arrival",
        "due_ms",
        "expires_ms",
        "is_kept",
        "key",
        "message",
        "priority",
        "size",
    )

    def __init__(self, arrival: int, due_ms: int, key: str) -> None:
        self.arrival = arrival
        self.due_ms = due_ms
        self.key = key  # its group, or its key on a last-value queue
        self.message: Message | None = None  # None: its body is in the store
        self.size = 0
        self.expires_ms = 0
        self.priority = 0
        self.is_kept = False

    @property
    def place(self) -> int:
        """Return the number under which the store has it, in place of a sequence number."""
        return PLACE | self.arrival


class Delayed:
    """The messages of one queue that wait for their time."""

    __slots__ = ("_heap", "arrivals", "resident", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiting]] = []  # by time, then by arrival
        self.arrivals = 0
        self.size = 0  # content bytes of all of them
        self.resident = 0  # of those in memory

    @property
    def count(self) -> int:
        """Return how many wait."""
        return len(self._heap)

    def add(self, message: Message, key: str, *, is_kept: bool) -> Waiting:
        """Let a message wait until its `due_ms`."""
        waiting = Waiting(self.arrivals, message.due_ms, key)
        waiting.size = message.size
        waiting.expires_ms = message.expires_ms
        waiting.priority = message.priority
        waiting.is_kept = is_kept
        if not is_kept:
            waiting.message = message
            self.resident += message.weight
        self._push(waiting)
        return waiting

    def restore(self, record: MessageRecord) -> None:
        """Let a message go on waiting after a restart."""
        waiting = Waiting(record.seq & ~PLACE, record.due_ms, record.group)
        waiting.size = record.size
        waiting.expires_ms = record.expires_ms
        waiting.priority = record.priority
        waiting.is_kept = True
        self._push(waiting)

    def take_due(self, wall_ms: int, most: int) -> list[Waiting]:
        """Take out the messages whose time has come, at most so many, and return them."""
        due: list[Waiting] = []
        while self._heap and self._heap[0][0] <= wall_ms and len(due) < most:
            due.append(heappop(self._heap)[2])
        self._forget(due)
        return due

    def next_ms(self) -> int:
        """Return when the next one is due; 0 for never."""
        return self._heap[0][0] if self._heap else 0

    def clear(self) -> list[Waiting]:
        """Take out all messages and return them."""
        gone = [waiting for _, _, waiting in self._heap]
        self._heap.clear()
        self.size = 0
        self.resident = 0
        return gone

    def _push(self, waiting: Waiting) -> None:
        heappush(self._heap, (waiting.due_ms, waiting.arrival, waiting))
        self.arrivals = max(self.arrivals, waiting.arrival + 1)
        self.size += waiting.size

    def _forget(self, gone: list[Waiting]) -> None:
        for waiting in gone:
            self.size -= waiting.size
            if waiting.message is not None:
                self.resident -= waiting.message.weight


# How much of each kind one pump does. Not Final, so that a test of the compiled queue can make it
# small.
DUE_PORTION = 1000
SWEEP_PORTION = 4096  # numbers of messages that have a time to live and may be gone


class Timers:
    """What is due by time on one queue."""

    __slots__ = (
        "age_at",
        "away",
        "delayed",
        "expiry",
        "membership",
        "queue",
        "state",
    )

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.state = queue.state
        self.membership = queue.membership
        self.expiry = Expiry()
        self.away: list[tuple[float, int]] = []  # heap: ungrouped entries waiting out a delay
        self.age_at = 0.0
        self.delayed = Delayed()

    def send_away(self, entry: Entry, delay: float) -> None:
        """Let an ungrouped entry wait before it is offered again."""
        entry.state = AWAY
        entry.holder = None
        heappush(self.away, (self.state.now + delay, entry.seq))

    def run(self) -> bool:
        """Do a portion of what is due at the state's time; True: more is due."""
        state = self.state
        now = state.now
        is_more = False
        if self.delayed.count:
            waiting = self.delayed.take_due(state.wall_ms, DUE_PORTION)
            for each in waiting:
                self.queue.owner.let_in(self.queue, each)
            is_more = len(waiting) == DUE_PORTION
        if self.expiry.count and self._run_expiry():
            is_more = True
        if self.away and self._run_away(now):
            is_more = True
        if state.holds and self._run_holds():
            is_more = True
        if self.membership.absent:
            self.membership.end_absences()
        if state.has_deadlines and self._run_deadlines(now):
            is_more = True
        if state.spills:
            self.queue.balancer.run_spills()
        if self.queue.balancer.due:
            self.queue.balancer.run_if_due()
        if state.rules.forget_idle_s and self.age_at <= now:
            state.strategy.age()
            self.age_at = now + state.rules.forget_idle_s
        if state.strategy.tidy(DUE_PORTION):
            is_more = True
        return is_more

    def next_deadline(self, now: float, wall_ms: int) -> float:
        """Return when something is due next; 0 for never."""
        state = self.state
        times = []
        if self.delayed.count:
            times.append(now + max(0, self.delayed.next_ms() - wall_ms) / 1000)
        if self.expiry.count:
            times.append(now + max(0, self.expiry.next_ms() - wall_ms) / 1000)
        if self.away:
            times.append(self.away[0][0])
        if state.holds:
            times.append(state.holds[0][0])
        if state.has_deadlines and state.deadlines.next_due():
            times.append(state.deadlines.next_due())
        if state.spills:
            times.append(state.spills[0][0])
        if self.queue.balancer.due:
            times.append(self.queue.balancer.due)
        if self.membership.absent:
            times.append(min(self.membership.absent_until.values()))
        if state.rules.forget_idle_s and state.strategy.tracked():
            times.append(self.age_at)
        return min(times) if times else 0.0

    def _run_expiry(self) -> bool:
        index = self.state.index
        due = self.expiry.take_due(self.state.wall_ms, DUE_PORTION)
        for seq in due:
            entry = index.get(seq)
            # Acquired entries are tested when they come back, storing ones when committed.
            if entry is not None and entry.state != ACQUIRED and entry.state != STORING:
                self.queue.expire(entry)
        return self.expiry.sweep(index, SWEEP_PORTION) or len(due) == DUE_PORTION

    def _run_deadlines(self, now: float) -> bool:
        left = DUE_PORTION
        while left > 0:
            late = self.state.deadlines.take_due(now)
            if late is None:
                return False
            left -= self.queue.redelivery.take_overdue(late, left)
        return True

    def _run_away(self, now: float) -> bool:
        left = DUE_PORTION
        while left and self.away and self.away[0][0] <= now:
            left -= 1
            entry = self.state.index.get(heappop(self.away)[1])
            if entry is not None and entry.state == AWAY:
                self.queue.redelivery.set_pending(entry)
        return left == 0

    def _run_holds(self) -> bool:
        for _ in range(DUE_PORTION):
            held = self.state.take_hold()
            if held is None:
                return False
            self._end_hold(held)
        return True

    def _end_hold(self, lane: Lane) -> None:
        state = self.state
        if state.lanes.get(lane.name) is not lane:
            return
        if lane.where == HELD:
            self.membership.placement.resolve(lane)
        elif lane.where == DRAINING and state.rules.drain_limit_s:
            holder = 0 if lane.holder is None else lane.holder.id
            # The same sum as in the heap: rounding could make a difference of times too small.
            if lane.draining_since + state.rules.drain_limit_s <= state.now:
                state.record_trouble(EventKind.DRAIN_OVERDUE, lane.name, holder, 0)
