"""Collector: keeps the interpreter's garbage collection from holding up clients.

A collection walks objects, and everything else stops meanwhile. Objects live long in a broker, so:

- The youngest objects are walked often. They are few, so each walk takes a few milliseconds. Those
  that are a little older are walked before there are many of them.
- The objects that a start has loaded from disk are frozen: no collection walks them again. They are
  still freed when the last reference goes, since the broker itself breaks the reference cycles of
  entries and lanes.
- All others are walked only when a quarter of them is new (CPython's own rule). That is seldom
  enough.

The time of each collection is measured. The longest one is among the metrics.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Final

from covey.core.jobs.turn_length import TurnLengths

# How many new objects start a walk of the youngest, how many of those walks start one of the older,
# and how many of these start one of the oldest.
THRESHOLDS: Final = (10_000, 10, 100)


class Collector:
    """Listens to the garbage collector."""

    def __init__(self, lengths: TurnLengths) -> None:
        self._lengths = lengths
        self._began = 0.0

    def begin(self) -> None:
        """Freeze what is there, and measure from now on."""
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        gc.callbacks.append(self._hear)

    def end(self) -> None:
        """Measure no more."""
        gc.callbacks.remove(self._hear)

    def _hear(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self._lengths.collected(time.perf_counter() - self._began)
