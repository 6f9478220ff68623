"""Failure: what an error of SQLite means: damage, something that passes, or the end."""

from __future__ import annotations

import sqlite3
from typing import Final

PRIMARY: Final = 0xFF  # the lower byte of an SQLite code; the rest says which sort of it
DAMAGE: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
PASSING: Final = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def is_damage(error: Exception) -> bool:
    """Say whether a page of the file is not what it should be."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(code, int) and code & PRIMARY in DAMAGE


def is_passing(error: Exception) -> bool:
    """Say whether the same may work later: there is no room, or somebody reads."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(code, int) and code & PRIMARY in PASSING
