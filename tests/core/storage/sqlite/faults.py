"""Files and connections that fail on demand: the n-th write or statement, with any error.

A fault may come before the deed or after it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

import pytest

FSYNC_FAILED = sqlite3.SQLITE_IOERR | 4 << 8  # SQLITE_IOERR_FSYNC
DISK_FULL = sqlite3.SQLITE_FULL

Parameters = Sequence[int | str | bytes]


class Plan:
    """Which statement fails, and how. Statements are counted from 1 while it is armed."""

    def __init__(
        self,
        nth: int,
        code: int,
        *,
        is_done_first: bool = False,
        times: int = 1,
        start: str = "",
    ) -> None:
        self.nth = nth
        self.code = code
        self.is_done_first = is_done_first  # torn: carried out, and reported as failed
        self.times = times
        self.start = start  # of the statements that count
        self.is_armed = True
        self.count = 0
        self.failures = 0

    def is_due(self, statement: str) -> bool:
        if not self.is_armed or self.failures == self.times:
            return False
        if not statement.startswith(self.start):
            return False
        if statement == "rollback" and self.code == DISK_FULL:
            return False  # takes no room
        self.count += 1
        return self.count >= self.nth

    def fail(self) -> None:
        self.failures += 1
        error = sqlite3.OperationalError(f"injected into statement {self.count}")
        error.sqlite_errorcode = self.code
        raise error


def failing(plan: Plan) -> type[sqlite3.Connection]:
    """Return a connection class that follows the plan."""

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, parameters: Parameters = (), /) -> sqlite3.Cursor:  # type: ignore[override]
            if not plan.is_due(sql):
                return super().execute(sql, parameters)
            if plan.is_done_first:
                super().execute(sql, parameters)
            plan.fail()
            raise AssertionError

        def executescript(self, script: str, /) -> sqlite3.Cursor:
            if plan.is_due(script):
                plan.fail()
            return super().executescript(script)

    return Failing


class WritePlan:
    """Which write to a file fails, and how. Writes are counted from 1 while it is armed."""

    def __init__(
        self, nth: int, number: int, *, is_done_first: bool = False, times: int = 1
    ) -> None:
        self.nth = nth
        self.number = number  # of the error
        self.is_done_first = is_done_first
        self.times = times
        self.is_armed = False
        self.count = 0
        self.failures = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process's writes at a place, which are the journal's, follow the plan."""
        write = os.pwrite

        def pwrite(descriptor: int, data: bytes, at: int) -> int:
            if self._is_due():
                if self.is_done_first:
                    write(descriptor, data, at)
                self.failures += 1
                raise OSError(self.number, f"injected into write {self.count}")
            return write(descriptor, data, at)

        monkeypatch.setattr(os, "pwrite", pwrite)

    def _is_due(self) -> bool:
        if not self.is_armed or self.failures == self.times:
            return False
        self.count += 1
        return self.count >= self.nth
