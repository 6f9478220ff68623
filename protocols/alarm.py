"""Alarm: the one timer of a connection. It calls when the engine is to be looked at.

A deadline mostly moves on before it comes, for every heart-beat moves it. So a timer that is set is
left alone: it rings at the earliest deadline it was told, and asks for the next one then. Nobody is
judged by a clock that ran while the process did not (SIGSTOP, a paused machine): timers come before
sockets in a turn of the loop, so an alarm that rings late is put off until what lay in the socket
meanwhile was read.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

# uvloop counts whole milliseconds: a call before the deadline would only have to be repeated.
TIMER_SLACK_S = 0.001
# A timer as late as this was not late because of its peer: the process was stopped, or busy.
LATE_S = 0.1


class Alarm:
    """Rings at the earliest deadline."""

    __slots__ = ("_at", "_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        """Be silent until told; `ring` is called at a deadline."""
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def is_late(self, now: float) -> bool:
        """Tell whether a deadline has passed while the process stood still."""
        return self._at < now - LATE_S and self._at != -math.inf

    def put_off(self, now: float) -> None:
        """Ring again after the sockets were looked at."""
        self._at = math.inf
        self.set(now + TIMER_SLACK_S, now)

    def set(self, deadline: float, now: float) -> None:
        """Ring at that time, unless it does so before."""
        if deadline >= self._at:
            return
        self.cancel()
        self._at = max(deadline, now)
        self._timer = self._loop.call_later(self._at - now + TIMER_SLACK_S, self._time_has_come)

    def call_instead(self, delay_s: float, step: Callable[[], None]) -> None:
        """Have a step to the end done; no deadline comes before it, nor after."""
        self.cancel()
        self._at = -math.inf
        self._timer = self._loop.call_later(delay_s, step)

    def cancel(self) -> None:
        """Be silent."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_has_come(self) -> None:
        self._timer = None
        if self._at >= time.monotonic() - LATE_S:
            self._at = math.inf
        self._ring()
