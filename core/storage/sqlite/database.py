"""Database: a data directory in use, with the SQLite file that everything is in.

    lock         held while a broker uses the directory
    covey.db     everything that survives: WAL, synchronous=FULL
    confirmed    up to which batch something was promised (`core.storage.sqlite.confirmed`)
    scratch.db   bodies of non-persistent messages that memory has no room for; dropped at start

All of it is the broker's own user's alone (`file_modes`); where that cannot be, the start is
refused unless it is allowed.

Opening it brings it in order: a damaged file is salvaged, what the last run left in its journal is
folded into the tables, what was promised and is not there is told. A file that is gone, or empty,
beside others of its store is not made anew: the start is refused. Whatever is wrong beyond that is
a StoreError that names the file.

DirectoryLock: one broker per data directory.

An advisory lock that the system drops when the process ends, however it ends; so there is no
stale lock to clean up after a kill. The file holds the owner's process id, for people.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final

from covey.core.errors import StoreError
from covey.core.file_modes import OWNER_ONLY, close_to_others, exposures, private_files
from covey.core.storage.sqlite.changes import Changes, carry_out
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.evidence import refuse_vanished, set_aside
from covey.core.storage.sqlite.journal import Journal, replay
from covey.core.storage.sqlite.reader import check_schema
from covey.core.storage.sqlite.salvage import CHECK, finish_salvage, salvage
from covey.core.storage.sqlite.schema import SCRATCH, is_damage, is_passing, prepare

LOCK_FILE: Final = "lock"


class DirectoryLock:
    """The right to use a data directory."""

    def __init__(self, directory: Path) -> None:
        try:
            self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"data directory {directory} cannot be written to: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StoreError(
                f"data directory {directory} is in use by another broker (process {owner})"
            ) from error
        with suppress(OSError):  # a full disk takes no number, but the lock is ours
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode("ascii"))

    def release(self) -> None:
        """Give the directory up."""
        os.close(self._descriptor)


FILE: Final = "covey.db"
SCRATCH_FILE: Final = "scratch.db"
CACHE_KIB: Final = 16 * 1024  # pages kept in memory: the right edges of the trees, and room to sort
BUSY_MS: Final = 2000  # patience with a person who looks into the file
LOG_BYTES: Final = 64 * 1024 * 1024
"""What is left of a write-ahead log that had to grow: behind a commit of that size, or beside a
reader, such as a backup, that kept it from being used again."""
OURS: Final = re.compile(
    r"lock|confirmed|scratch\.db(-.*)?"
    r"|covey\.db(-wal|-shm|-journal|\.check|\.salvaging.*|\.salvaged.*|\.damaged-\d+.*)?"
)


class Database:
    """An open connection, the journal that goes with it, and what was found damaged."""

    def __init__(
        self,
        directory: Path,
        journal_size: int,
        factory: type[sqlite3.Connection],
        *,
        allow_open_files: bool = False,
    ) -> None:
        """Make the directory if there is none, lock it, and open what is in it."""
        self.file = directory / FILE
        self.damages: list[str] = []  # texts, with their places
        self.losses: list[str] = []  # those of them that nobody's name is in
        self.journal = Journal(journal_size)
        self._found = 0  # up to which batch the database is complete
        self._journal_size = journal_size
        _make_directory(directory)
        self._lock = DirectoryLock(directory)
        self.exposed: list[str] = []  # what others may read or change
        try:
            if not allow_open_files:
                close_to_others(directory, _ours(directory))
            self.exposed = exposures(directory, _ours(directory))
            if self.exposed and not allow_open_files:
                raise _too_open(directory, self.exposed)
            with nullcontext() if allow_open_files else private_files():
                self.connection = self._open(directory / SCRATCH_FILE, factory)
        except (sqlite3.Error, OSError, ValueError, StoreError) as error:
            self._lock.release()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{self.file} cannot be opened: {error}{_way_on(error)}") from error

    def release(self) -> None:
        """Let others use the directory; the connection is its writer's to close."""
        self._lock.release()

    def _open(self, scratch: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
        """Open the database, and make it sound first if it is damaged."""
        path = self.file
        _check_writable(path)
        finish_salvage(path)
        self.confirmed = Confirmed(path.parent)
        refuse_vanished(path, scratch, self.confirmed)
        kept = set_aside(path, self.confirmed.newest)
        check = path.with_name(FILE + CHECK)
        connection = _connect(path, factory)
        try:
            found = self._prepare(connection, whole=bool(kept) or check.exists())
            found = found or self._replay(connection)
            if found:
                connection.close()
                self.damages += salvage(path, found)
                connection = _connect(path, factory)
                _tune(connection)
                prepare(connection, str(path), whole=True)
                self._replay(connection)
            self._tell_missing(kept)
            check.unlink(missing_ok=True)
            self.confirmed.open()
            _attach_scratch(connection, scratch)
            check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, *, whole: bool) -> list[str]:
        """Make, check or upgrade the database; return what is damaged."""
        try:
            _tune(connection)
            return prepare(connection, str(self.file), whole=whole)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return [str(error)]  # a file that was cut short does not even say what is in it

    def _tell_missing(self, kept: str) -> None:
        """Tell what was promised and is not there."""
        missing = self.confirmed.missing(self._found)
        if missing:
            self.losses.append(missing)
            self.damages.append(f"{missing}; {kept}" if kept else missing)

    def _replay(self, connection: sqlite3.Connection) -> list[str]:
        """Fold the last run's journal into the tables; return the damage that is in its way."""
        try:
            self.journal = replay(connection, self._journal_size, self.damages)
            self._found = self.journal.number
            if self._found < self.confirmed.newest:
                self.journal.is_torn = True  # what is left may be of different times
                self.journal.skip(self.confirmed.newest)
            carry_out(connection, self.journal.fold(Changes()))
            self.journal.written()
        except sqlite3.DatabaseError as error:
            if connection.in_transaction:
                connection.execute("rollback")
            if is_damage(error):
                return [str(error)]
            if not is_passing(error):
                raise
            # A full disk is no reason not to serve: the journal is used as it is.
        return []


def _way_on(error: Exception) -> str:
    """Say what helps when nothing can be read of the file."""
    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.OperationalError):
        return ""  # it is locked, or not there: the next start may find it otherwise
    return (
        "; nothing in it can be read: restore a backup (docs/durability.md), or move the directory"
        " away and begin with an empty one"
    )


def _connect(path: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, factory=factory
    )
    connection.execute(f"pragma busy_timeout = {BUSY_MS}")
    return connection


def _tune(connection: sqlite3.Connection) -> None:
    connection.execute(f"pragma cache_size = -{CACHE_KIB}")
    connection.execute(f"pragma journal_size_limit = {LOG_BYTES}")
    # Else a large batch needs a file in the system's directory for such, which may be read-only or
    # full. What is kept is the pages that one statement changes, some megabytes at most.
    connection.execute("pragma temp_store = memory")
    # Some systems write zeros over whatever is deleted: a fifth of all that would be written.
    connection.execute("pragma secure_delete = off")


def _attach_scratch(connection: sqlite3.Connection, scratch: Path) -> None:
    connection.execute("pragma wal_autocheckpoint = 0")
    scratch.unlink(missing_ok=True)
    connection.execute("attach ? as scratch", (str(scratch),))
    connection.execute("pragma scratch.journal_mode = memory")
    connection.execute("pragma scratch.synchronous = off")
    connection.execute(SCRATCH)


def _check_writable(path: Path) -> None:
    """Refuse what SQLite would open to read only, and fail on at the first message."""
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists() and not os.access(part, os.R_OK | os.W_OK):
            raise StoreError(f"{part} cannot be written to: see whose it is, and its permissions")


def _ours(directory: Path) -> list[Path]:
    """List the files that a broker has made there; the others are not ours to touch."""
    return [path for path in directory.iterdir() if OURS.fullmatch(path.name)]


def _too_open(directory: Path, exposed: list[str]) -> StoreError:
    return StoreError(
        f"data directory {directory} is open to others, and the broker may not change that:"
        f" {'; '.join(exposed)}. Make it the broker's own user's, or let path name a directory"
        " inside it, which the broker makes itself; allow_open_files = true in [store] goes on"
    )


def _make_directory(directory: Path) -> None:
    """Make the directory, its owner's alone, and make sure that a power loss leaves its name."""
    try:
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        directory.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
        for made in missing:
            parent = os.open(made.parent, os.O_RDONLY)
            os.fsync(parent)
            os.close(parent)
    except OSError as error:
        raise StoreError(f"data directory {directory} cannot be made: {error.strerror}") from error
