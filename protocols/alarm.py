"""Alarm: the one timer of a connection. It calls the shell when the engine's deadline has come.

Every heart-beat moves the deadline, so most deadlines are moved before they come. Therefore a later
deadline does not reset the timer. The timer rings at the earliest deadline that it was told. The
shell then asks the engine for the next one.

A peer must not time out because the process itself stood still (SIGSTOP, a paused machine). In a
turn of the loop timers come before sockets. So an alarm that rings late is put off until the bytes
that arrived meanwhile were read.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

# uvloop counts whole milliseconds. A call just before the deadline would have to be repeated.
TIMER_SLACK_S = 0.001
# If a timer is later than this, the process was stopped or busy: the peer is not to blame.
LATE_S = 0.1


class Alarm:
    """Rings at the earliest deadline."""

    __slots__ = ("_at", "_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        """Begin without a deadline; `ring` is called when one comes."""
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def is_late(self, now: float) -> bool:
        """Return True if a deadline has passed while the process stood still."""
        return self._at < now - LATE_S and self._at != -math.inf

    def put_off(self, now: float) -> None:
        """Ring again in the next turn of the loop, after the sockets were read."""
        self._at = math.inf
        self.set(now + TIMER_SLACK_S, now)

    def set(self, deadline: float, now: float) -> None:
        """Ring at that time, unless the alarm is set to an earlier time."""
        if deadline >= self._at:
            return
        self.cancel()
        self._at = max(deadline, now)
        self._timer = self._loop.call_later(self._at - now + TIMER_SLACK_S, self._time_has_come)

    def call_instead(self, delay_s: float, step: Callable[[], None]) -> None:
        """Call a closing step of the connection after a delay; ignore all deadlines from now on."""
        self.cancel()
        self._at = -math.inf
        self._timer = self._loop.call_later(delay_s, step)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_has_come(self) -> None:
        self._timer = None
        if self._at >= time.monotonic() - LATE_S:
            self._at = math.inf
        self._ring()
