"""Audit: denials, failed logins, slow clients, blocked producers, long turns: as log lines.

What a client can repeat as fast as it can send must not become a flood: at most LINES_PER_S of
these lines a second are written, and the rest is counted. Names that come from a peer are cut.

Who has changed what is always written. Only an action that was refused, which has changed nothing,
has a limit: one of its own, so that no other noise hides it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from typing import Final

import structlog

from covey.core.events.audit import OK, REFUSED, Audit, OperatorAction

LINES_PER_S: Final = 100  # beyond this nobody reads them, and the disk fills
NAME_LENGTH_MAX: Final = 200  # characters of a destination in a line

Log = structlog.typing.FilteringBoundLogger


class Room:
    """How many lines may be written yet in this second."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def take(self) -> bool:
        """Take room for a line; False if there is none, and the line is counted instead."""
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                self._log.warning("audit_lines_left_out", count=self._left_out)
            self._second = second
            self._lines = 0
            self._left_out = 0
        self._lines += 1
        if self._lines > LINES_PER_S:
            self._left_out += 1
        return self._lines <= LINES_PER_S


class LogAudit(Audit):
    """Writes the lines."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._room = Room(log)
        self._refusals = Room(log)

    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Write who asked for what they may not."""
        if self._room.take():
            place = destination[:NAME_LENGTH_MAX]
            self._log.warning("denied", user=user, verb=verb, destination=place, remote=remote)

    def login_failed(self, user: str, remote: str) -> None:
        """Write where somebody failed to log in."""
        if self._room.take():
            self._log.warning("login_failed", user=user or "unknown", remote=remote)

    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Write who does not read."""
        if self._room.take():
            self._log.warning(
                "slow_consumer", user=user, remote=remote, waited_s=round(waited_s, 1)
            )

    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Write who waits, and for what."""
        if self._room.take():
            self._log.warning(
                "producer_blocked",
                user=user,
                remote=remote,
                reason=reason,
                waited_s=round(waited_s, 1),
            )

    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Write which group it is, and what is the matter."""
        if self._room.take():
            name = group[:NAME_LENGTH_MAX]
            self._log.warning("group_trouble", queue=queue, trouble=trouble, group=name)

    def slow_turn(self, length_s: float, doing: str) -> None:
        """Write how long everybody had to wait, and for what."""
        if self._room.take():
            length_ms = round(length_s * 1000, 1)
            self._log.warning("slow_turn", length_ms=length_ms, doing=doing[:NAME_LENGTH_MAX])

    def operator_action(self, action: OperatorAction) -> None:
        """Write who did what, from where, and what came of it."""
        is_refused = action.result == REFUSED
        if is_refused and not self._refusals.take():
            return
        fields = asdict(action) | {
            "name": action.name[:NAME_LENGTH_MAX],
            "reason": action.reason[:NAME_LENGTH_MAX],
        }
        given = {name: value for name, value in fields.items() if value not in ("", None)}
        level = logging.INFO if action.result == OK else logging.WARNING
        self._log.log(level, "operator_action", **given)
