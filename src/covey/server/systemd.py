"""Systemd: tells the service manager that the broker is ready, alive and about to stop.

It sends the words of sd_notify(3) to the socket that NOTIFY_SOCKET names. Without that variable it
sends nothing. The event loop, which does all the work, reports to a watchdog (WATCHDOG_USEC) twice
in the watchdog's time. So systemd restarts a broker that hangs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

MICROSECONDS = 1_000_000
ABSTRACT = "@"  # stands for the NUL byte before an abstract name (unix(7))


class Systemd:
    """The service manager, if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith(ABSTRACT) else name
        self._interval_s = _interval_s(environ)
        self._told_at = 0.0

    def ready(self) -> None:
        """Tell that the ports are open."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Tell that the broker stops."""
        self._tell("STOPPING=1")

    def alive(self, now: float) -> None:
        """Tell the watchdog that the event loop runs, if a report is due."""
        if self._interval_s and now - self._told_at >= self._interval_s:
            self._told_at = now
            self._tell("WATCHDOG=1")

    def _tell(self, word: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto(word.encode(), self._address)


def _interval_s(environ: Mapping[str, str]) -> float:
    """Return half of the watchdog's time; 0 if there is none, or it watches another process."""
    given = environ.get("WATCHDOG_USEC", "")
    if not given.isdecimal() or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    return int(given) / MICROSECONDS / 2
