"""Database: a data directory in use, with the SQLite file that everything is in.

    lock         held while a broker uses the directory
    covey.db     tables: everything that survives and is not in the journal alone
    journal-*    what was committed last, in segments (`core.storage.sqlite.segments`)
    confirmed    up to which batch something was promised (`core.storage.sqlite.confirmed`)
    scratch.db   bodies of non-persistent messages that memory has no room for; dropped at start

Only the broker's own user may use these files (`file_modes`). Where that cannot be arranged, the
start is refused, unless `allow_open_files` is set.

Opening a database brings it in order. A damaged file is salvaged. What the last run left in its
journal is folded into the tables. What was promised and is missing is reported. So everything that
survives is in the tables once the database is open. If the database file is gone or empty, and
other files of its store are there, no new one is made: the start is refused. Any other trouble is a
StoreError that names the file.

DirectoryLock: one broker per data directory.

It is an advisory lock. The system drops it when the process ends, however it ends, so there is no
stale lock to clean up after a kill. The file holds the owner's process id, for people.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final

from covey.config.record import human_size
from covey.core.errors import StoreError
from covey.core.file_modes import OWNER_ONLY, close_to_others, exposures, private_files
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.evidence import refuse_vanished, set_aside
from covey.core.storage.sqlite.journal import Journal
from covey.core.storage.sqlite.journal_rows import fold_rows
from covey.core.storage.sqlite.reader import check_schema, read_folded
from covey.core.storage.sqlite.replay import Replay
from covey.core.storage.sqlite.salvage import CHECK, finish_salvage, salvage
from covey.core.storage.sqlite.schema import (
    FOLDED,
    SCRATCH,
    fold_mark,
    is_damage,
    is_passing,
    prepare,
)
from covey.core.storage.sqlite.statements import carry_out

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
        with suppress(OSError):  # a full disk may take no process id, but the lock is ours
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode("ascii"))

    def release(self) -> None:
        """Give the directory up."""
        os.close(self._descriptor)


FILE: Final = "covey.db"
SCRATCH_FILE: Final = "scratch.db"
CACHE_KIB: Final = 16 * 1024  # pages kept in memory: the right edges of the trees, and room to sort
BUSY_MS: Final = 2000  # how long to wait for a person who looks into the file
LOG_BYTES: Final = 64 * 1024 * 1024
"""What is left of a write-ahead log that had to grow: behind a commit of that size, or beside a
reader, such as a backup, that kept it from being used again."""
JOURNAL_SHARE: Final = 4  # a small disk gets a small journal: at most a quarter of what is free
START_ROWS: Final = 4096  # messages brought into the tables by one transaction of a start
START_BYTES: Final = 1024 * 1024
OURS: Final = re.compile(
    r"lock|confirmed|scratch\.db(-.*)?|journal-[0-9]{8,}-[0-9a-f]{16}(\.damaged)?"
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
        self.damages: list[str] = []  # texts that say what is damaged, and where
        self.losses: list[str] = []  # what was confirmed and is missing; no name is in these texts
        self._is_upgraded = False  # the file was of a format that had its journal in a table
        make_directory(directory)
        self._lock = DirectoryLock(directory)
        self._journal_size = _journal_size(directory, journal_size)
        self.journal = Journal(directory, self._journal_size)
        self.exposed: list[str] = []  # what other users may read or change
        try:
            if not allow_open_files:
                close_to_others(directory, _ours(directory))
            self.exposed = exposures(directory, _ours(directory))
            if self.exposed and not allow_open_files:
                raise too_open(directory, self.exposed)
            with nullcontext() if allow_open_files else private_files():
                self.connection = self._open(directory / SCRATCH_FILE, factory)
        except (sqlite3.Error, OSError, ValueError, StoreError) as error:
            self._lock.release()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{self.file} cannot be opened: {error}{_way_on(error)}") from error

    def release(self) -> None:
        """Let other brokers use the directory; the engine closes the connection."""
        self._lock.release()

    def _open(self, scratch: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
        """Open the database, and make it sound first if it is damaged."""
        path = self.file
        _check_writable(path)
        finish_salvage(path)
        self.confirmed = Confirmed(path.parent)
        refuse_vanished(path, scratch, self.confirmed)
        kept = set_aside(path)
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
            check.unlink(missing_ok=True)
            self.confirmed.open()
            _attach_scratch(connection, scratch)
            check_schema(connection)
        except BaseException:
            self.journal.close()
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
            return [str(error)]  # the file was cut short: not even its tables can be listed

    def _replay(self, connection: sqlite3.Connection) -> list[str]:
        """Fold what the last run left in its journal; return the damage that prevents it."""
        try:
            had_rows = fold_rows(connection, self.damages)
            self._is_upgraded = self._is_upgraded or had_rows
            folded = read_folded(connection)
            replay = Replay(
                self.file.parent,
                self._journal_size,
                folded,
                self.confirmed,
                is_new=self._is_upgraded,
            )
            self.journal = replay.journal
            for _ in fold_all(connection, self.journal):
                pass
            connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        except sqlite3.DatabaseError as error:
            if connection.in_transaction:
                connection.execute("rollback")
            self.journal.close()
            if is_damage(error):
                return [str(error)]
            if is_passing(error):
                raise StoreError(
                    f"{self.file}: there is no room to bring the journal into the tables: {error};"
                    f" free {human_size(2 * self._journal_size)} on its disk, and start again"
                ) from error
            raise
        self._tell_missing(replay)
        self.journal.release(self.journal.number)
        self.journal.remove_unused()
        return []

    def _tell_missing(self, replay: Replay) -> None:
        """Report what was promised and is missing."""
        losses = replay.losses()
        kept = replay.set_damaged_aside()
        self.losses += losses
        self.damages += ["; ".join([loss, *kept]) for loss in losses]


def fold_all(connection: sqlite3.Connection, journal: Journal) -> Iterator[int]:
    """Fold the whole journal; yield the number of the last batch of each segment that is done."""
    fold = journal.next_fold(START_ROWS, START_BYTES, everything=True)
    while fold is not None:
        carry_out(connection, fold.statements)
        journal.written(fold)
        if fold.is_last and fold.segment is not None:
            yield fold.segment.last
        fold = journal.next_fold(START_ROWS, START_BYTES, everything=True)
    if journal.number > read_folded(connection):
        connection.execute(FOLDED, fold_mark(journal.number))


def _journal_size(directory: Path, wanted: int) -> int:
    """Return the journal's size: as wanted, but at most its share of the disk's free space."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return wanted
    return min(wanted, disk.f_bavail * disk.f_frsize // JOURNAL_SHARE)


def _way_on(error: Exception) -> str:
    """Return advice for a file of which nothing can be read, "" for any other error."""
    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.OperationalError):
        return ""  # the file is locked, or not there: the next start may succeed
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
    # Else a large batch needs a file in the system's temporary directory, which may be read-only or
    # full. Memory holds the pages that one statement changes, some megabytes at most.
    connection.execute("pragma temp_store = memory")
    # On some systems SQLite overwrites deleted data with zeros: a fifth of all bytes written.
    connection.execute("pragma secure_delete = off")


def _attach_scratch(connection: sqlite3.Connection, scratch: Path) -> None:
    connection.execute("pragma wal_autocheckpoint = 0")
    scratch.unlink(missing_ok=True)
    connection.execute("attach ? as scratch", (str(scratch),))
    connection.execute("pragma scratch.journal_mode = memory")
    connection.execute("pragma scratch.synchronous = off")
    connection.execute(SCRATCH)


def _check_writable(path: Path) -> None:
    """Raise StoreError for a file that SQLite would open read-only, to fail at the first write."""
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists() and not os.access(part, os.R_OK | os.W_OK):
            raise StoreError(f"{part} cannot be written to: see whose it is, and its permissions")


def _ours(directory: Path) -> list[Path]:
    """List the files that a broker has made there; other files must not be touched."""
    return [path for path in directory.iterdir() if OURS.fullmatch(path.name)]


def too_open(directory: Path, exposed: list[str]) -> StoreError:
    """Return the error that says what is open to others, and what to do."""
    return StoreError(
        f"data directory {directory} is open to others, and the broker may not change that:"
        f" {'; '.join(exposed)}. Make it the broker's own user's, or let path name a directory"
        " inside it, which the broker makes itself; allow_open_files = true in [store] goes on"
    )


def make_directory(directory: Path) -> None:
    """Make the directory, for its owner alone; its name survives a power loss."""
    try:
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        directory.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
        for made in missing:
            parent = os.open(made.parent, os.O_RDONLY)
            os.fsync(parent)
            os.close(parent)
    except OSError as error:
        raise StoreError(f"data directory {directory} cannot be made: {error.strerror}") from error
