"""Dispatch: of all messages some willing consumer may take now, the oldest goes first.

A priority queue, which has no groups, asks for the priority before the age.

That one rule gives queue order to a single consumer, "oldest free group first", and no
head-of-line block between groups. A step costs O(log n) whatever the backlog and however many
groups are blocked: candidates are the top of `hot` (heads bound to a willing consumer) and, for
each view with a willing member, the top of its open lanes and of its plain entries.

The pump ends only when `hot` is empty and no view has both a candidate and a willing consumer;
that end condition is the proof that nobody is left waiting. Its work is counted against a budget
so that one call never holds the event loop for long; True means call again next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from covey.core.board import Board
from covey.core.consumer import Consumer
from covey.core.entry import ACQUIRED, PENDING, STORING, Entry
from covey.core.events import EventKind
from covey.core.lane import READY, Lane
from covey.core.level import Level
from covey.core.membership import Membership
from covey.core.placement import Placement
from covey.core.view import View

STALE_PORTION = 1000  # lanes asked again per pump: about 3 ms plain, 1 ms compiled
TRIM_MIN = 64  # gone entries beyond the number of living ones that are not worth a walk


class Dispatch:
    """The pump of one queue."""

    def __init__(
        self,
        board: Board,
        placement: Placement,
        membership: Membership,
        expire: Callable[[Entry], bool],
    ) -> None:
        self.board = board
        self.placement = placement
        self.membership = membership
        self.expire = expire  # drops an entry that has just run out
        self.place = 0  # places in the lines are numbered per queue
        self.is_over_size = False  # the strategy's map had to grow beyond its size
        self.turn = 0  # counts assignments, for "longest without one"
        self.budget = 0

    def offer(self, consumer: Consumer) -> None:
        """Give a consumer that can take something its places in the lines."""
        view = consumer.view
        if view is None or not consumer.is_willing():
            return
        if not consumer.is_retiring:
            if consumer.places[0] == 0:
                self._join_lane_line(view, consumer)
            if consumer.places[1] == 0:
                # One that comes back must not catch up on all it missed.
                if self.board.rules.is_round_robin:
                    consumer.served = max(consumer.served, view.plain_line.floor)
                self.place += 1
                view.plain_line.push(consumer, consumer.served, consumer.id, self.place)
        self.board.show_best(consumer)

    def reline(self, consumer: Consumer) -> None:
        """Move a consumer up the lane line: it owns fewer groups than before."""
        if consumer.places[0] and consumer.view is not None:
            self._join_lane_line(consumer.view, consumer)

    def pump(self, budget: int) -> bool:
        """Deliver what can be delivered; True if the budget ended it."""
        self.budget = budget
        board = self.board
        self._ask_stale()
        while self.budget > 0:
            if not board.has_selectors and not board.hot and not board.default_view.free:
                if not self._pump_plain(board.default_view):
                    break
            elif not self._step():
                break
        if self.budget > 0:
            for browser in list(board.browsers):
                self._browse(browser)
        return self.budget <= 0 or bool(board.stale)

    def drained(self, lane: Lane) -> None:
        """Hear that the lane's last unsettled message was settled or came back."""
        lane.holder = None
        owner = lane.owner
        if owner is not None and self.board.strategy.drained(lane.name):
            self.placement.bind(lane, None)
            self.reline(owner)

    def append_plain(self, entry: Entry) -> None:
        """Show a new plain entry to every view that somebody looks through."""
        rank = entry.lane.rank
        for view in self.board.views:
            if view.members:
                view.level(rank).todo.append(entry)
        self.trim_plain()

    def trim_plain(self) -> None:
        """Let go of gone entries: a view without credit would keep every one for ever."""
        board = self.board
        for lane in board.levels:
            for view in board.views:
                level = view.level(lane.rank)
                if len(level.todo) > 2 * lane.count + TRIM_MIN:
                    level.trim()

    def return_plain(self, entry: Entry) -> None:
        """Show a returned plain entry to every view that had passed it."""
        board = self.board
        for view in board.views:
            level = view.level(entry.lane.rank)
            if entry.seq <= level.cursor and (
                not board.has_selectors or self.placement.admits(view, entry)
            ):
                heappush(level.back, entry.seq)
                if len(level.back) > 2 * entry.lane.count + TRIM_MIN:
                    level.trim_back(board.index)

    def _ask_stale(self) -> None:
        stale = self.board.stale
        for _ in range(min(len(stale), STALE_PORTION)):
            self.membership.ask_again(stale.popleft())

    def _pump_plain(self, view: View) -> bool:
        """Deliver plain entries of the only view, the common case in one tight loop."""
        line = view.plain_line
        board = self.board
        while self.budget > 0:
            consumer = line.best()
            if consumer is None:
                return False
            entry = self._best_plain(view)
            if entry is None:
                return False
            self.budget -= 1
            if entry.expires_ms and self.expire(entry):
                continue
            self._deliver_plain(view, entry, consumer)
            if board.hot or view.free:
                return True
        return False

    def _step(self) -> bool:
        """Deliver the oldest candidate; False if there is none."""
        board = self.board
        best = board.best_hot()
        taker = None if best is None else best.lane.target
        source: View | None = None
        for view in board.views:
            if not view.members:
                continue
            consumer = view.lane_line.best() if view.free else None
            if consumer is not None:
                entry = view.best_free(board.index)
                if entry is not None and _is_better(entry, consumer, best, taker):
                    best, taker, source = entry, consumer, view
            has_plain = view.todo or view.back or view.lower
            consumer = view.plain_line.best() if has_plain else None
            if consumer is not None:
                entry = self._best_plain(view)
                if entry is not None and _is_better(entry, consumer, best, taker):
                    best, taker, source = entry, consumer, view
        if best is None or taker is None:
            return False
        self.budget -= 1
        if best.expires_ms and self.expire(best):
            return True
        if not best.lane.is_grouped:
            assert source is not None
            self._deliver_plain(source, best, taker)
        elif best.lane.where == READY:
            self._deliver_head(best, taker)
        else:
            assert source is not None
            self._take_open(source, best, taker)
        return True

    def _best_plain(self, view: View) -> Entry | None:
        """Return the plain entry the view's members get next."""
        entry = self._best_of(view, view)
        return self._best_lower(view) if entry is None and view.lower else entry

    def _best_lower(self, view: View) -> Entry | None:
        """Return the next one of a priority queue whose highest level has none."""
        above: Level = view
        for level in view.lower:
            if above.is_waiting():
                return None
            entry = self._best_of(view, level)
            if entry is not None:
                return entry
            above = level
        return None

    def _best_of(self, view: View, level: Level) -> Entry | None:
        """Return the oldest entry of a level that the view admits, testing each only once."""
        todo = level.todo
        entry: Entry | None = None
        while todo:
            first = todo[0]
            if first.state == PENDING and first.message is not None:
                if not self.board.has_selectors or level.checked is first:
                    entry = first
                    break
                self.budget -= 1
                if self.placement.admits(view, first):
                    level.checked = first
                    entry = first
                    break
            elif first.state <= STORING:
                break  # not committed yet, or its body is being read: order waits for it
            todo.popleft()
            level.cursor = max(level.cursor, first.seq)
            if self.budget <= 0:
                break
        if not level.back:
            return entry
        returned = level.best_returned(self.board.index)
        if returned is None or (entry is not None and entry.seq < returned.seq):
            return entry
        return returned

    def _deliver_plain(self, view: View, entry: Entry, consumer: Consumer) -> None:
        rank = entry.lane.rank
        level: Level = view.lower[rank - 1] if rank else view
        todo = level.todo
        if todo and todo[0] is entry:
            todo.popleft()
            if entry.seq > level.cursor:
                level.cursor = entry.seq
        else:
            heappop(level.back)
        line = view.plain_line
        if self.board.rules.is_round_robin and len(line.heap) > 1:
            consumer.served += 1.0 / consumer.weight
            self.place += 1
            line.replace_best(consumer.served, consumer.id, self.place)
        self._hand_over(entry, consumer)

    def _take_open(self, view: View, entry: Entry, consumer: Consumer) -> None:
        """Give a lane nobody owns, and its head, to a consumer."""
        lane = entry.lane
        board = self.board
        if lane.owner is None:
            neighbours = board.strategy.took(lane.name, consumer.id)
            self.placement.bind(lane, consumer)
            lane.is_fresh = True
            self._tell_evictions()
            self.turn += 1
            consumer.last_assigned = self.turn
            self._join_lane_line(view, consumer)
            self._deliver_head(entry, consumer)
            for name in neighbours:
                neighbour = board.lanes.get(name)
                if neighbour is not None:
                    self.membership.ask_again(neighbour)
            return
        self._deliver_head(entry, consumer)  # lent: the owner's selector refuses it

    def _deliver_head(self, entry: Entry, consumer: Consumer) -> None:
        lane = entry.lane
        board = self.board
        lane.pop(entry)
        lane.unsettled += 1
        lane.holder = consumer
        entry.is_first = lane.is_fresh and lane.owner is consumer
        if entry.is_first:
            lane.is_fresh = False
        if board.strategy.wants_delivered:
            board.strategy.delivered(lane.name)
        if entry.content.group_sequence < 0 and board.strategy.acts_on_close:
            self.close(lane)
        self._hand_over(entry, consumer)
        if board.lanes.get(lane.name) is lane:
            self.placement.resolve(lane)

    def close(self, lane: Lane) -> None:
        """End the group's ownership; it moves once its unsettled messages are settled."""
        board = self.board
        owner = lane.owner
        board.record(EventKind.GROUP_CLOSE, lane.name, 0 if owner is None else owner.id, 0)
        board.strategy.closed(lane.name)
        if owner is not None and owner.is_retiring:
            self.placement.bind(lane, None)  # it keeps its groups, but not one that was closed
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
        board = self.board
        if board.events is not None:
            board.record(EventKind.DELIVER, entry.lane.name, consumer.id, entry.seq)
        if consumer.is_presettled:
            consumer.deliver(entry)
            queue = consumer.queue
            assert queue is not None
            queue.settled(entry)
        else:
            consumer.unsettled[entry.seq] = entry
            consumer.deliver(entry)

    def _browse(self, browser: Consumer) -> None:
        """Copy on to a browser while it has credit; a number is all it keeps."""
        index = self.board.index
        while self.budget > 0 and browser.is_willing():
            entry = index.at_or_after(browser.cursor)
            if entry is None:
                if browser.browse_ends:
                    browser.browse_ends = False
                    self.board.browsers.remove(browser)
                    browser.browse_ended()
                return
            if entry.state == STORING or entry.message is None:
                return
            self.budget -= 1
            browser.cursor = entry.seq + 1
            if entry.state == ACQUIRED:
                if not browser.sees_acquired:
                    continue
            elif self.board.has_run_out(entry):
                continue  # its second will take it; dropping it here could free its group too late
            if browser.selector is None or browser.selector.matches(entry.content.lookup):
                if not browser.window.is_automatic:
                    browser.window.count -= 1
                    browser.window.size -= entry.size
                browser.delivered += 1
                browser.deliver(entry)

    def _join_lane_line(self, view: View, consumer: Consumer) -> None:
        self.place += 1
        load = self.board.strategy.load(consumer.id) / consumer.weight
        view.lane_line.push(consumer, load, consumer.last_assigned, self.place)

    def _tell_evictions(self) -> None:
        board = self.board
        strategy = board.strategy
        for group in strategy.evictions():
            board.record(EventKind.EVICT, group, 0, 0)
        if strategy.over_size != self.is_over_size:
            self.is_over_size = strategy.over_size
            if self.is_over_size:
                board.record(EventKind.GROUPS_OVER_SIZE, "", 0, 0)


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
