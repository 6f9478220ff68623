"""Audit: writes denials, failed logins, clients in trouble and long turns to the log.

A client can cause some of these lines as fast as it can send. They must not flood the log: at most
LINES_PER_S of them are written in a second, and the rest is only counted. Names that come from a
peer are cut to a maximum length.

Each change that an operator makes is always written. Only refused actions have a limit, for they
have changed nothing. That limit is separate, so that other lines cannot crowd them out.
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
    """Counts how many more lines may be written in this second."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def take(self) -> bool:
        """Return True if a line may be written; else count the line as suppressed."""
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
        """Write who was denied what."""
        if self._room.take():
            place = destination[:NAME_LENGTH_MAX]
            self._log.warning("denied", user=user, verb=verb, destination=place, remote=remote)

    def login_failed(self, user: str, remote: str) -> None:
        """Write who failed to log in, and from where."""
        if self._room.take():
            self._log.warning("login_failed", user=user or "unknown", remote=remote)

    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Write which client does not read."""
        if self._room.take():
            self._log.warning(
                "slow_consumer", user=user, remote=remote, waited_s=round(waited_s, 1)
            )

    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Write which producer waits, and for what."""
        if self._room.take():
            self._log.warning(
                "producer_blocked",
                user=user,
                remote=remote,
                reason=reason,
                waited_s=round(waited_s, 1),
            )

    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Write which group is in trouble, and why."""
        if self._room.take():
            name = group[:NAME_LENGTH_MAX]
            self._log.warning("group_trouble", queue=queue, trouble=trouble, group=name)

    def subscription_ended(self, user: str, remote: str, subscription: str, reason: str) -> None:
        """Write whose subscription was ended, and why."""
        if self._room.take():
            self._log.warning(
                "subscription_ended",
                user=user,
                remote=remote,
                subscription=subscription[:NAME_LENGTH_MAX],
                reason=reason[:NAME_LENGTH_MAX],
            )

    def slow_turn(self, length_s: float, doing: str) -> None:
        """Write how long the turn was, and what took so long."""
        if self._room.take():
            length_ms = round(length_s * 1000, 1)
            self._log.warning("slow_turn", length_ms=length_ms, doing=doing[:NAME_LENGTH_MAX])

    def operator_action(self, action: OperatorAction) -> None:
        """Write who did what, from where, and the outcome."""
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
