"""Collector: keeps the interpreter's garbage collection from holding up clients.

A collection walks objects, and everything else stops meanwhile: a quarter of a second for a million
objects. A broker has millions, and nearly all of them live long. So each walk has a bound:

- New objects are walked when there are some ten thousand of them. Those that are still there are
  walked once more, together with others of their age.
- CPython counts an object that goes against one that comes, however old it was. While a long
  backlog moves on, its count stays where it is, and half a million new objects gather. So new
  objects are also walked after some milliseconds of work (`BUSY_S`).
- The old ones that are left are walked now and then, too, as long as they are few. If they are
  more than `OLD_MAX`, they are frozen: no collection walks them again. So are the objects that a
  start has loaded from disk. Freezing itself costs nothing, however many there are.
- A frozen object is still freed when the last reference to it goes. Only a cycle of frozen objects
  stays: a connection or a queue that has ended leaves some kilobytes of those. So everything is
  walked once in `collect_every_s`, in a quiet moment: the broker was idle for a second. A broker
  whose walks are short needs no quiet moment. One that has none is walked after a day at the
  latest (`PATIENCE` times as long).

The time of each collection is measured. The longest one is among the metrics, and `slow_turn` says
if a turn was slow for it.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping
from typing import Final

from covey.core.jobs.turn_length import TurnLengths

# How many new objects start a walk of the youngest, how many of those walks start one of the older,
# and how many of these start one of the oldest.
THRESHOLDS: Final = (10_000, 3, 10)
OLD_MAX: Final = 30_000  # objects that are not frozen and older than the other two generations
OLDEST: Final = 2  # the number of the oldest generation that is not frozen
BUSY_S: Final = 0.005  # of work without a walk: not many objects can have come meanwhile
SHORT_S: Final = 0.02  # a whole collection of this length holds nobody up
QUIET_S: Final = 1.0
IDLE_SHARE: Final = 0.02  # of the time in turns: so much is the broker's own timers
PATIENCE: Final = 24


class Collector:
    """Says when garbage is collected, and listens to it."""

    def __init__(self, lengths: TurnLengths) -> None:
        self.whole_s = math.inf  # the length of the last whole collection; not known yet
        self._lengths = lengths
        self._began = 0.0
        self._last_whole = 0.0
        self._looked_at = 0.0
        self._busy_s = 0.0  # time in turns, up to `_looked_at`
        self._walks = 0  # of new objects, after some work

    def begin(self, now: float) -> None:
        """Freeze what is there, and measure from now on."""
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        gc.collect()  # of nothing: CPython compares what comes with what was there last time
        gc.callbacks.append(self._hear)
        self._last_whole = self._looked_at = now
        self._lengths.tidy = self._walk_new
        self._lengths.tidy_at_s = self._lengths.total_s + BUSY_S

    def end(self) -> None:
        """Measure no more."""
        gc.callbacks.remove(self._hear)
        self._lengths.tidy_at_s = math.inf

    def look(self, now: float, every_s: float) -> None:
        """Walk everything if it is time for that and nobody is held up; called every second."""
        if now < self._looked_at + QUIET_S:
            return
        busy_s = self._lengths.total_s - self._busy_s
        is_quiet = busy_s < IDLE_SHARE * (now - self._looked_at)
        self._looked_at = now
        self._busy_s = self._lengths.total_s
        waited_s = now - self._last_whole
        if not every_s or waited_s < every_s:
            return
        if is_quiet or self.whole_s < SHORT_S or waited_s >= PATIENCE * every_s:
            self._last_whole = now
            self._collect_all()

    def _walk_new(self) -> None:
        """Walk the new objects, and now and then those that were new before."""
        self._walks += 1
        gc.collect(int(self._walks % (THRESHOLDS[1] + 1) == 0))

    def _collect_all(self) -> None:
        began = time.perf_counter()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.whole_s = time.perf_counter() - began

    def _hear(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
            return
        self._lengths.collected(time.perf_counter() - self._began)
        self._lengths.tidy_at_s = self._lengths.total_s + BUSY_S
        if info["generation"] and len(gc.get_objects(OLDEST)) > OLD_MAX:
            gc.freeze()
