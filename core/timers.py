"""Timers: what becomes due on a queue without anybody doing anything.

| what                                   | kept in                  | then                       |
|----------------------------------------|--------------------------|----------------------------|
| a delayed message's time comes         | `delayed`                | it is let in               |
| a message runs out                     | `expiry`, by seconds     | dropped, if not acquired   |
| a failed plain message may be retried  | `away`                   | back at its place          |
| a failed group may go on, drain report | `board.holds`            | its lane is resolved       |
| an absent client did not return        | `membership.absent_until`| its groups are free        |
| idle groups grow old                   | `age_at`                 | the strategy forgets some  |

Everything is looked at once per pump, in this order, before anything is handed out;
`next_deadline` says when the queue must be pumped for it. A failed *group* waits as a whole (order
first), a message without a group waits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from covey.core.board import Board
from covey.core.delayed import Delayed, Waiting
from covey.core.entry import ACQUIRED, AWAY, STORING, Entry
from covey.core.events import EventKind
from covey.core.expiry import Expiry
from covey.core.lane import DRAINING, HELD, Lane
from covey.core.membership import Membership

DUE_PORTION: Final = 1000  # delayed messages let in per pump


class Timers:
    """The clockwork of one queue."""

    __slots__ = (
        "age_at",
        "away",
        "board",
        "come_back",
        "delayed",
        "expire",
        "expiry",
        "let_in",
        "membership",
    )

    def __init__(
        self,
        board: Board,
        membership: Membership,
        expire: Callable[[Entry], None],
        come_back: Callable[[Entry], None],
    ) -> None:
        self.board = board
        self.membership = membership
        self.expire = expire  # drops an entry that has run out
        self.come_back = come_back  # puts an entry back at its place
        self.expiry = Expiry()
        self.away: list[tuple[float, int]] = []  # heap: plain entries waiting out a delay
        self.age_at = 0.0
        self.delayed = Delayed()
        self.let_in: Callable[[Waiting], None] = _nobody  # enqueues a message whose time has come

    def send_away(self, entry: Entry, delay: float) -> None:
        """Let a plain entry wait before it is offered again."""
        entry.state = AWAY
        entry.holder = None
        heappush(self.away, (self.board.now + delay, entry.seq))

    def run(self) -> None:
        """Do what is due at the board's time."""
        board = self.board
        now = board.now
        if self.delayed.count:
            for waiting in self.delayed.take_due(board.wall_ms, DUE_PORTION):
                self.let_in(waiting)
        if self.expiry.count:
            self._run_expiry()
        while self.away and self.away[0][0] <= now:
            entry = board.index.get(heappop(self.away)[1])
            if entry is not None and entry.state == AWAY:
                self.come_back(entry)
        while board.holds and board.holds[0][0] <= now:
            self._end_hold(heappop(board.holds)[2])
        if self.membership.absent:
            self.membership.end_absences()
        if board.rules.forget_idle_s and self.age_at <= now:
            board.strategy.age()
            self.age_at = now + board.rules.forget_idle_s

    def next_deadline(self, now: float, wall_ms: int) -> float:
        """Return when something is due next; 0 for never."""
        board = self.board
        times = []
        if self.delayed.count:
            times.append(now + max(0, self.delayed.next_ms() - wall_ms) / 1000)
        if self.expiry.count:
            times.append(now + max(0, self.expiry.next_ms() - wall_ms) / 1000)
        if self.away:
            times.append(self.away[0][0])
        if board.holds:
            times.append(board.holds[0][0])
        if self.membership.absent:
            times.append(min(self.membership.absent_until.values()))
        if board.rules.forget_idle_s and board.strategy.tracked():
            times.append(self.age_at)
        return min(times) if times else 0.0

    def _run_expiry(self) -> None:
        index = self.board.index
        for seq in self.expiry.due(self.board.wall_ms):
            entry = index.get(seq)
            # Those are looked at when they come back, or are committed.
            if entry is not None and entry.state != ACQUIRED and entry.state != STORING:
                self.expire(entry)
        if self.expiry.is_bloated(index.count):
            self.expiry.rebuild(index)

    def _end_hold(self, lane: Lane) -> None:
        board = self.board
        if board.lanes.get(lane.name) is not lane:
            return
        if lane.where == HELD:
            self.membership.placement.resolve(lane)
        elif lane.where == DRAINING and board.rules.drain_limit_s:
            holder = 0 if lane.holder is None else lane.holder.id
            # The very sum that was waited for: a difference of times may be a bit too small.
            if lane.draining_since + board.rules.drain_limit_s <= board.now:
                board.record_trouble(EventKind.DRAIN_OVERDUE, lane.name, holder, 0)


def _nobody(waiting: Waiting) -> None:
    """Let nobody in: a queue without a broker takes no delayed messages."""
