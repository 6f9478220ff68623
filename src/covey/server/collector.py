"""Collector: how the interpreter's garbage collection is kept from holding up clients.

A collection walks objects and stops everything meanwhile. Objects live long in a broker, so:

- The youngest are walked often and are few, so each walk takes a few milliseconds. Those that are
  a little older are walked before there are many of them.
- What a start has brought back from the disk is frozen: nobody walks it again. It is freed as ever
  when it goes, since entries and lanes are taken apart by hand.
- All others are walked only when a quarter of them is new (CPython's own rule), seldom enough.

How long collections took is measured, and the longest is told with the other metrics.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Final

from covey.core.jobs.turn_length import TurnLengths

# New objects before the youngest are walked; how many such walks before the older; and the oldest.
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
