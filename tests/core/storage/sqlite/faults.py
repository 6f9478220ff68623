"""Connections that fail on demand: the n-th statement, with any error, before it or after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

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
