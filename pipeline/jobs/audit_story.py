"""Story: the events of a whole queue, gathered for the folds of its groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from covey.core.events.event import EventKind
from covey.pipeline.event_log.histories import RUN_BITS, Chapter, History
from covey.pipeline.jobs.audit_rules import (
    CUT,
    DELETED,
    GAP,
    NEVER,
    RESTART,
    STICKY,
    UNKNOWN,
    Mark,
    Surroundings,
)

IN_DOUBT_MAX: Final = 100_000  # events at the end of a log that a later restart may undo


class Story:
    """Gathers the events of a whole queue, until its `Surroundings` are asked for."""

    def __init__(self, history: History, given: int, *, goes_on: bool = False) -> None:
        self.history = history
        self._goes_on = goes_on  # another audit will read what comes next
        first = history.chapters[0]
        self.joined: set[tuple[int, int]] = set()  # run's number in the log, consumer
        self.left: set[int] = set()
        self.has_deletes = False
        self._is_done = False
        self._recovered: set[int] = set()  # runs, by their number in the log
        self._deletes: list[int] = []
        self._policies: set[str] = set()
        self._joins: list[int] = []
        self._has_special = False
        self._surroundings = Surroundings(
            begins_whole=first.begins_whole, begins_known=first.is_told
        )
        self._surroundings.first_known = given

    @property
    def is_simple(self) -> bool:
        """Return True if there is no event that changes all groups at once."""
        history = self.history
        is_one = len(history.chapters) == 1 and not self._goes_on
        return is_one and not history.gaps and not self.has_deletes

    @property
    def kept_from(self) -> int:
        """Return the position behind which a later audit may need the events again."""
        return self._doubt_from(self.history.chapters[-1]) if self._goes_on else NEVER

    def take(self, pos: int, kind: int, text: str, consumer: int, seq: int) -> None:
        """Take the next event of the queue."""
        around = self._surroundings
        if kind == EventKind.JOIN or kind == EventKind.LEAVE:
            is_there = kind == EventKind.JOIN
            around.changes.setdefault(consumer, []).append((pos, is_there))
            if is_there:
                self.joined.add((pos >> RUN_BITS, consumer))
                self._joins.append(pos)
                self._has_special = self._has_special or bool(text)
            else:
                self.left.add(consumer)
        elif kind == EventKind.DELETE:
            self.has_deletes = True
            self._deletes.append(pos)
        elif kind == EventKind.DEADLINE:
            around.overdue.setdefault(consumer, []).append(pos)
        elif kind == EventKind.RECOVER:
            self._recovered.add(pos >> RUN_BITS)
        elif kind == EventKind.POLICY:
            self._policies.add(text)
            around.stirs.append(pos)
        else:
            around.stirs.append(pos)

    @property
    def surroundings(self) -> Surroundings:
        """Return what folds must know; call it only after the last event."""
        around = self._surroundings
        if not self._is_done:
            self._is_done = True
            chapters = self.history.chapters
            around.marks = sorted(self._marks())
            around.doubt_from = self._doubt_from(chapters[0])
            around.joins_known_from = self._joins_known_from()
            around.is_sticky = self.is_sticky
            if "consistent-hash" in self._policies:
                around.stirs += self._joins
                around.is_ring = True
            around.stirs += [mark.eid for mark in around.marks]
            around.stirs.sort()
        return around

    @property
    def is_sticky(self) -> bool:
        """Return True if the strategy promised groups to their owners all of the time."""
        is_promised = bool(self._policies) and self._policies <= set(STICKY)
        return is_promised and not self._has_special

    def _joins_known_from(self) -> int:
        """Return the position behind which no JOIN is missing; a restart ends what a gap began."""
        chapters, gaps = self.history.chapters, self.history.gaps
        if not all(chapter.is_told for chapter in chapters):
            return NEVER
        if not gaps:
            return -1
        return min((one.base for one in chapters if one.base > gaps[-1]), default=NEVER)

    def _marks(self) -> Iterator[Mark]:
        yield from (Mark(pos, DELETED) for pos in self._deletes)
        yield from (Mark(pos, GAP) for pos in self.history.gaps)
        chapters = self.history.chapters
        for before, chapter in pairwise(chapters):
            doubt_from = self._doubt_from(chapter)
            is_recovered = chapter.base >> RUN_BITS in self._recovered
            if not chapter.is_told:
                what, is_recovered = UNKNOWN, False
            elif chapter.is_cut:
                what = CUT
            elif is_recovered or chapter.patterns == before.patterns:
                what = RESTART
            else:
                what = UNKNOWN
            yield Mark(chapter.base, what, doubt_from, is_recovered, before.doubt_from)

    def _doubt_from(self, chapter: Chapter) -> int:
        """Return the position behind which changes may not have reached the store."""
        if chapter.doubt_from >= 0:
            return chapter.doubt_from
        return chapter.base + chapter.last_eid - IN_DOUBT_MAX if self._goes_on else NEVER
