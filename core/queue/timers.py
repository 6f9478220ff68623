# Compiled by mypyc: see setup.py.
"""Timers: what becomes due on a queue by time alone.

| what                                   | kept in                  | then                       |
|----------------------------------------|--------------------------|----------------------------|
| a delayed message's time comes         | `delayed`                | it is let in               |
| a message expires                      | `expiry`, by seconds     | dropped, if not acquired   |
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

`Expiry` knows which entries may have expired, without a timer for each. It is a heap of whole
seconds and, for each second, the sequence numbers that expire within it: eight bytes a message
instead of the 120 of a heap of tuples. A second is looked at once it has passed. Until then the
dispatch tests the exact time of whatever it is about to hand out. So no expired message is ever
delivered, and none stays on the queue more than a second too long. An entry whose body is in the
store only keeps the end of its second, one number for all entries of that second. The exact time
comes back with the body, and nothing is handed out without a body. Consumed messages leave their
numbers behind until their second comes. With a time-to-live of a day that would be a day of
traffic. So the table is rebuilt when dead numbers outweigh the living.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.lane import DRAINING, HELD, Lane
from covey.core.events.event import EventKind
from covey.core.model.entry import ACQUIRED, AWAY, STORING, Entry
from covey.core.model.message import Message

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


MS_PER_S: Final = 1000
LAST_MS: Final = MS_PER_S - 1
REBUILD_MIN: Final = 4096  # a table of fewer numbers is not worth a rebuild


class Expiry:
    """Sequence numbers by the second in which they expire."""

    __slots__ = ("_at", "_ends", "_numbers", "_passed", "_seconds", "count")

    def __init__(self) -> None:
        self._passed: array[int] = array("q")  # the numbers of a second that is over
        self._at = 0  # place in `_passed`: the numbers before it were taken
        self._numbers: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._ends: dict[int, int] = {}  # the last millisecond of each second, for all its entries
        self.count = 0

    def add(self, entry: Entry) -> None:
        """Note an entry that has an expiry time."""
        second = entry.expires_ms // MS_PER_S
        numbers = self._numbers.get(second)
        if numbers is None:
            numbers = array("q")
            self._numbers[second] = numbers
            self._ends[second] = second * MS_PER_S + LAST_MS
            heappush(self._seconds, second)
        numbers.append(entry.seq)
        self.count += 1

    def rounded(self, expires_ms: int) -> int:
        """Return the last millisecond of a time's second, for an entry without its body."""
        second = expires_ms // MS_PER_S
        return self._ends.get(second, 0) or second * MS_PER_S + LAST_MS

    def take_due(self, wall_ms: int, most: int) -> list[int]:
        """Return numbers whose second has passed, at most so many, and forget them."""
        due: list[int] = []
        while len(due) < most:
            if self._at == len(self._passed) and not self._begin_second(wall_ms):
                break
            part = self._passed[self._at : self._at + most - len(due)]
            self._at += len(part)
            due.extend(part)
        self.count -= len(due)
        return due

    def _begin_second(self, wall_ms: int) -> bool:
        """Begin to take the numbers of the next second that is over; False: there is none."""
        self._at = 0
        self._passed = array("q")
        if not self._seconds or (self._seconds[0] + 1) * MS_PER_S > wall_ms:
            return False
        second = heappop(self._seconds)
        del self._ends[second]
        self._passed = self._numbers.pop(second)
        return True

    def next_ms(self) -> int:
        """Return when to ask again, in milliseconds since the epoch; 0 for never."""
        if self._at < len(self._passed):
            return 1  # there are more numbers, and they are overdue
        return (self._seconds[0] + 1) * MS_PER_S if self._seconds else 0

    def is_bloated(self, living: int) -> bool:
        """Return True if most numbers are of entries that are gone."""
        return self.count > REBUILD_MIN and self.count > 2 * living

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Keep the numbers of these entries only."""
        self._numbers.clear()
        self._seconds.clear()
        self._ends.clear()
        self._passed = array("q")
        self._at = 0
        self.count = 0
        for entry in entries:
            if entry.expires_ms:
                self.add(entry)


# How much of each kind one pump does. Not Final, so that a test of the compiled queue can make it
# small.
DUE_PORTION = 1000


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
        if self.expiry.is_bloated(index.count):
            self.expiry.rebuild(index)
        return len(due) == DUE_PORTION

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
