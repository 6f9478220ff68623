# Compiled by mypyc: see setup.py.
"""Ungrouped: messages without a group, as each view walks them, level by level.

Such messages have no owner and no gate: the oldest goes to the member whose turn it is. A view
walks its `todo` only when it has a willing consumer, and tests each entry once. An entry that came
back behind the view's cursor goes into `back` (`core.dispatch.level`). Tests are paid from the
pump's budget.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from covey.core.dispatch.admission import Admission
from covey.core.dispatch.level import NOTHING, Level
from covey.core.dispatch.state import LOOKS_PAID, DispatchState
from covey.core.dispatch.view import View
from covey.core.model.entry import PENDING, STORING, Entry

TRIM_MIN: Final = 64  # so few gone entries more than living ones are not worth a walk


class Ungrouped:
    """One queue's messages without a group, in every view."""

    __slots__ = ("admission", "state")

    def __init__(self, state: DispatchState, admission: Admission) -> None:
        self.state = state
        self.admission = admission

    def append(self, entry: Entry) -> None:
        """Show a new entry to every view that has members."""
        rank = entry.lane.rank
        for view in self.state.views:
            if view.members:
                view.level(rank).append(entry)
        self.trim()

    def trim(self) -> None:
        """Drop gone entries: a view whose members have no credit would keep them for ever."""
        state = self.state
        for lane in state.levels:
            for view in state.views:
                level = view.level(lane.rank)
                if len(level.todo) > 2 * lane.count + TRIM_MIN:
                    level.trim()

    def take_back(self, entry: Entry) -> None:
        """Show a returned entry to every view that had passed it."""
        state = self.state
        for view in state.views:
            level = view.level(entry.lane.rank)
            if entry.seq <= level.cursor and (
                not state.has_selectors or self.admission.admits(view, entry)
            ):
                heappush(level.back, entry.seq)
                if len(level.back) > 2 * entry.lane.count + TRIM_MIN:
                    level.trim_back(state.index)

    def best(self, view: View) -> Entry | None:
        """Return the entry the view's members get next."""
        entry = self._best_of(view, view)
        return self._best_lower(view) if entry is None and view.lower else entry

    def pop(self, view: View, entry: Entry) -> None:
        """Take the entry that `best` has just returned out of its level."""
        rank = entry.lane.rank
        level: Level = view.lower[rank - 1] if rank else view
        todo = level.todo
        if todo and todo[0] is entry:
            todo.popleft()
            if entry.seq > level.cursor:
                level.cursor = entry.seq
        else:
            heappop(level.back)

    def _rank_of(self, view: View, level: Level) -> int:
        return 0 if level is view else view.lower.index(level) + 1

    def _best_lower(self, view: View) -> Entry | None:
        """Return a priority queue's next entry from a lower level: the highest has none."""
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
        state = self.state
        todo = level.todo
        entry: Entry | None = None
        while todo or level.unread != NOTHING:
            if not todo:
                found = level.read_on(state.index, self._rank_of(view, level))
                if not todo:
                    state.budget -= 1 + found // 8  # a look costs far less than a test does
                    if state.budget <= 0:
                        break
                continue
            first = todo[0]
            if first.state == PENDING and first.message is not None:
                if not state.has_selectors or level.checked is first:
                    entry = first
                    break
                state.budget -= 1
                if self.admission.admits(view, first):
                    level.checked = first
                    entry = first
                    break
            elif first.state <= STORING:
                break  # not committed yet, or its body is being read: order waits for it
            todo.popleft()
            level.cursor = max(level.cursor, first.seq)
            if state.budget <= 0:
                break
        if not level.back:
            return entry
        returned = self._best_returned(level)
        if state.budget <= 0:
            return None  # there may be an older one
        if returned is None or (entry is not None and entry.seq < returned.seq):
            return entry
        return returned

    def _best_returned(self, level: Level) -> Entry | None:
        """Return the oldest returned entry of a level; None, too, if the budget ends."""
        state = self.state
        back = level.back
        looked = 0
        while back:
            entry = state.index.get(back[0])
            if entry is not None and entry.state == PENDING:
                return entry
            heappop(back)
            looked += 1
            if looked % LOOKS_PAID == 0:
                state.budget -= 1
                if state.budget <= 0:
                    break
        return None
