"""SqliteEngine: what the store's thread does with the database (`core.storage.writer`).

| error of a commit              | answer                                                      |
|--------------------------------|-------------------------------------------------------------|
| the disk is full, file is busy | rolled back, and StoreBusyError: it is tried again          |
| a damaged page is in the way   | final; the next start salvages what can be read             |
| anything else, fsync above all | final                                                       |

A commit is one write to the journal. The tables are changed later, in steps between two commits. A
step does not flush the tables' write-ahead log. What the log may lose is still in the journal,
until a checkpoint has brought the whole log into the database file. Checkpoints are made here, and
not by SQLite after a step: SQLite would ignore their errors, and commits would wait for them.

`Disk` says that room is short before there is none left. Acknowledgements need room as well: they
are written before their messages' room becomes free. So producers are held back while some room is
left, and the consumers have the rest. How many bytes are free:

    what the file system says
    - what is in the write-ahead log alone: the next checkpoint writes it to the file, too
    + empty pages of the file: the file does not shrink, but they are used again
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from covey.config.record import human_size
from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.changes import Changes
from covey.core.storage.packing import SEQ_BITS, SEQ_MASK, place_of
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.database import Database, fold_all
from covey.core.storage.sqlite.journal import FOLD_BYTES, FOLD_ROWS, Fold
from covey.core.storage.sqlite.reader import read_page
from covey.core.storage.sqlite.salvage import CHECK
from covey.core.storage.sqlite.schema import is_damage, is_passing
from covey.core.storage.sqlite.statements import Statement, carry_out, spillings
from covey.core.storage.store import BodyRecord
from covey.core.storage.writer import Engine

CHECKPOINT_BYTES: Final = 8 * 1024 * 1024  # of WAL: fewer would sync too often, more take room
LOG_RESTART: Final = 4  # times `CHECKPOINT_BYTES`: the log is restarted when it is larger
LOOK_BYTES: Final = 1024 * 1024  # written between two checks of the disk
COMMIT_BYTES: Final = 512  # that a commit adds beside bodies
ROW_BYTES: Final = 256  # counted for each changed row: a purge writes no bodies, but many pages


class Disk:
    """The file system under a database."""

    def __init__(self, path: Path, free_min: Callable[[int], int]) -> None:
        self._path = path
        self._free_min = free_min  # the bytes to keep free, by the size of the disk

    def shortage(self, connection: sqlite3.Connection, logged: int) -> str:
        """Say what is short, "" if nothing is; `logged` bytes are in the log alone."""
        try:
            disk = os.statvfs(self._path)
        except OSError as error:
            return f"the disk cannot be asked for its free space: {error}"
        free = disk.f_bavail * disk.f_frsize - logged
        least = self._free_min(disk.f_blocks * disk.f_frsize)
        if free < least:
            free += _reusable(connection)
        if free >= least:
            return ""
        return f"the disk has {human_size(max(0, free))} free, less than {human_size(least)}"


def _reusable(connection: sqlite3.Connection) -> int:
    try:
        (pages,) = connection.execute("pragma freelist_count").fetchone()
        (page_size,) = connection.execute("pragma page_size").fetchone()
    except sqlite3.Error:
        return 0  # the next write will report the error
    return int(pages) * int(page_size)


class Checkpoint:
    """One checkpoint, on a thread and a connection of its own, so that commits do not wait."""

    def __init__(self, path: Path, confirmed: Confirmed, folded: int) -> None:
        """Begin; the tables know everything up to batch `folded`."""
        self.folded = folded
        self.error: sqlite3.Error | OSError | None = None
        self._path = path
        self._confirmed = confirmed
        self._worker = Thread(target=self._run, name="covey-checkpoint", daemon=True)
        self._worker.start()

    def is_done(self) -> bool:
        """Return True if it has ended."""
        return not self._worker.is_alive()

    def wait(self) -> None:
        """Wait for its end."""
        self._worker.join()

    def _run(self) -> None:
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                connection.execute("pragma synchronous = normal")
                bring_home(connection, self._path)
            self._confirmed.sync()
        except (sqlite3.Error, OSError) as error:
            self.error = error


def bring_home(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the log into the database file; flush what a reader keeps in the log.

    While there is a reader, such as a backup, a checkpoint leaves frames in the log and does not
    flush the log. Nothing else would flush it, and the journal's segments that hold the same
    changes are about to be used again.
    """
    _, logged, done = connection.execute("pragma wal_checkpoint(passive)").fetchone()
    if done < logged:
        descriptor = os.open(path.with_name(f"{path.name}-wal"), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class SqliteEngine(Engine):
    """The journal, the tables and their disk."""

    def __init__(self, database: Database, disk: Disk, damages: list[str]) -> None:
        """Work on an open database; what cannot be read is added to `damages`."""
        self._database = database
        self._connection = database.connection
        self._journal = database.journal
        self._confirmed = database.confirmed
        self._disk = disk
        self._damages = damages
        self._short = ""
        self._folded = self._journal.number  # batch up to which the tables know everything
        self._unsynced = 0  # bytes written to the tables since the last checkpoint
        self._unseen = 0  # bytes written anywhere since the last check of the disk
        self._unfolded = 0  # bytes written to the journal since the last step of a fold
        self._rows = self._connection.total_changes  # rows changed until now
        self._checkpoint: Checkpoint | None = None

    def commit(self, changes: Changes) -> None:
        """Append a batch to the journal, and note it as confirmed."""
        spillings_of = spillings(changes)
        if spillings_of:
            self._carry_out(spillings_of)
        try:
            is_written = self._journal.commit(changes)
        except StoreBusyError:
            self._unseen = LOOK_BYTES
            with suppress(StoreBusyError):
                self.finish()
            raise
        if is_written:
            # The note is made before any receipt is sent.
            self._confirmed.note(self._journal.number, len(changes.arrivals))
        written = changes.size + COMMIT_BYTES
        self._unfolded += written
        self._unseen += written
        if self._unseen >= LOOK_BYTES:
            self.look()

    def read(self, places: list[int]) -> list[BodyRecord]:
        """Return bodies from the journal and the tables."""
        found = self._journal.bodies(places)
        if len(found) == len(places):
            return found
        wanted = self._journal.places_in_tables(places)
        bodies = [_under(body, wanted) for body in self._read_tables(list(wanted))]
        return bodies + found  # the journal's come last: they are the newest

    def tidy(self) -> bool:
        """Fold a little of the journal if it is nearly full; begin and end checkpoints."""
        self._end_checkpoint()
        size = max(FOLD_BYTES, 2 * self._unfolded)  # fold faster than the journal fills
        rows = max(FOLD_ROWS, size // ROW_BYTES // 4)
        fold = self._journal.next_fold(rows, size)
        if fold is not None:
            self._fold(fold)
        self._unfolded = 0
        self._journal.prepare()
        return self._journal.is_full

    def shortage(self) -> str:
        """Return what was short on the disk when it was last checked."""
        return self._short

    def look(self) -> None:
        """Check the disk's free space."""
        self._unseen = 0
        self._short = self._disk.shortage(self._connection, self._unsynced)

    def make_room(self) -> None:
        """Delete settled messages from the tables, and bring the log into the database file."""
        self.finish()
        self.look()

    def finish(self) -> None:
        """Bring everything into the tables: a store at rest has no journal."""
        self._end_checkpoint(wait=True)
        self._journal.remove_unused()
        try:
            # A checkpoint after each segment: its room is free before the next one needs some.
            for number in fold_all(self._connection, self._journal):
                self._checkpoint_now(number)
            self._checkpoint_now(self._journal.number)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the files."""
        if self._checkpoint is not None:
            self._checkpoint.wait()
        self._journal.close()
        self._connection.close()
        self._confirmed.close()

    def _fold(self, fold: Fold) -> None:
        self._carry_out(fold.statements)
        self._journal.written(fold)
        if fold.is_last and fold.segment is not None:
            self._folded = max(self._folded, fold.segment.last)
        rows, self._rows = self._rows, self._connection.total_changes
        written = fold.size + COMMIT_BYTES + (self._rows - rows) * ROW_BYTES
        self._unsynced += written
        self._unseen += written
        # When room is short the log is emptied early: its space may be all that is left.
        is_due = self._unsynced >= (LOOK_BYTES if self._short else CHECKPOINT_BYTES)
        if is_due or len(self._journal.folded) > 1:
            self._begin_checkpoint()

    def _checkpoint_now(self, folded: int) -> None:
        bring_home(self._connection, self._database.file)
        self._folded = max(self._folded, folded)
        self._unsynced = 0
        self._journal.release(folded)
        self._journal.remove_unused()

    def _begin_checkpoint(self) -> None:
        if self._checkpoint is None:
            self._unsynced = 0
            self._checkpoint = Checkpoint(self._database.file, self._confirmed, self._folded)

    def _end_checkpoint(self, *, wait: bool = False) -> None:
        """Free the segments whose changes a finished checkpoint has brought to the disk."""
        checkpoint = self._checkpoint
        if checkpoint is None or not (wait or checkpoint.is_done()):
            return
        checkpoint.wait()
        self._checkpoint = None
        if checkpoint.error is None:
            self._journal.release(checkpoint.folded)
            self._restart_log()
            self.look()
        elif isinstance(checkpoint.error, OSError) or not is_passing(checkpoint.error):
            raise StoreError(f"checkpoint failed: {checkpoint.error}")

    def _restart_log(self) -> None:
        """Restart a log that has grown too large; little of it is left to checkpoint."""
        log = self._database.file.with_name(self._database.file.name + "-wal")
        try:
            if log.stat().st_size > LOG_RESTART * CHECKPOINT_BYTES:
                self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except FileNotFoundError:
            pass
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _carry_out(self, statements: list[Statement]) -> None:
        try:
            carry_out(self._connection, statements)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        """Roll a failed transaction back; return what the error means for the store."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")
        if is_damage(error):
            self._ask_for_check()
        return _meaning(error)

    def _read_tables(self, places: list[int]) -> list[BodyRecord]:
        try:
            return read_page(self._connection, places, self._damages)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise _meaning(error) from error
        # Some page of the file is damaged. Read each body by itself: the others may be sound.
        self._ask_for_check()
        bodies: list[BodyRecord] = []
        for place in places:
            try:
                bodies += read_page(self._connection, [place], self._damages)
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise _meaning(error) from error
        return bodies

    def _ask_for_check(self) -> None:
        """Have the next start check the whole file."""
        path = self._database.file
        try:
            path.with_name(path.name + CHECK).touch()
        except OSError:
            pass  # a disk that takes no empty file has worse troubles, which are reported


def _under(body: BodyRecord, wanted: dict[int, int]) -> BodyRecord:
    """Return a body with the place that it was asked for by."""
    place = wanted[place_of(body.queue, body.seq)]
    return body._replace(queue=place >> SEQ_BITS, seq=place & SEQ_MASK)


def _meaning(error: sqlite3.Error) -> StoreError:
    """Return what an error of SQLite means for the store."""
    return StoreBusyError(str(error)) if is_passing(error) else StoreError(str(error))
