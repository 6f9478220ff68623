"""Writer: the one thread that owns the database connection after start.

Group commit: it commits what has gathered while the last commit ran, and never waits to gather.
Reads of bodies go between two commits. Everything it has to say goes through `notify`, which runs a
callable on the loop's own thread; what is to be told waits in one report, so a busy loop is asked
only once.

What can go wrong with a commit:

| error                          | answer                                                      |
|--------------------------------|-------------------------------------------------------------|
| the disk is full, file is busy | rolled back and tried again until it works; producers wait  |
| a damaged page is in the way   | final; the next start salvages what can be read             |
| anything else, fsync above all | final. A failed fsync must not be tried again: the system   |
|                                | has dropped the pages and would call the next one a success |

Final means that whoever waits hears of it, and so does whoever comes later. No error ends the
thread without a word, our own mistakes included: the broker would wait for ever.

Checkpoints are made here, not by SQLite after a commit: it would ignore their errors.

Disk: whether there is room for more, told before there is none.

Acknowledgements need room as well: they are written before anything becomes free. So producers
are held back while there still is some, and what remains is the consumers'. What is free:

    what the file system says
    - what is in the write-ahead log alone: at the next checkpoint it needs a place in the file, too
    + pages of the file that hold nothing any more: it does not shrink, they are used again

Report: what the store's thread and the loop hand each other: pages wanted, work done.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread
from typing import Final

from covey.config.record import human_size
from covey.core.errors import StoreError
from covey.core.storage.sqlite.changes import Changes, carry_out
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.journal import Journal
from covey.core.storage.sqlite.reader import read_page
from covey.core.storage.sqlite.salvage import CHECK
from covey.core.storage.sqlite.schema import is_damage, is_passing
from covey.core.storage.store import BodyRecord


class Disk:
    """The file system under a database."""

    def __init__(self, path: Path, free_min: Callable[[int], int]) -> None:
        self._path = path
        self._free_min = free_min  # of a disk of that many bytes

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
        return 0  # whoever writes next will say what is wrong
    return int(pages) * int(page_size)


class BodyRead:
    """Bodies somebody wants, and then the bodies."""

    __slots__ = ("bodies", "places", "ticket")

    def __init__(self, ticket: int, places: list[int]) -> None:
        self.ticket = ticket
        self.places = places
        self.bodies: list[BodyRecord] = []


class Report:
    """What the thread has done since the loop last asked."""

    __slots__ = ("error", "pages", "pressure", "tickets")

    def __init__(self) -> None:
        self.tickets: list[int] = []
        self.pages: list[BodyRead] = []
        self.pressure: str | None = None  # None: nothing new
        self.error: StoreError | None = None


CHECKPOINT_BYTES: Final = 8 * 1024 * 1024  # of WAL: less syncs too often, more slows recovery
LOOK_BYTES: Final = 1024 * 1024  # written between two looks at the disk
COMMIT_BYTES: Final = 16 * 1024  # what a commit adds to the WAL beside bodies, about four pages
ROW_BYTES: Final = 256  # and for each row: a purge writes no bodies, but changes all their pages
RETRY_S: Final = 0.5  # how often a full disk is looked at again

Notify = Callable[[Callable[[], None]], None]


class Writer:
    """Changes and page requests in, reports out."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        disk: Disk,
        journal: Journal,
        confirmed: Confirmed,
        notify: Notify,
        tell: Callable[[], None],
        damages: list[str],
    ) -> None:
        self._damages = damages  # the store's list of what cannot be read
        self._connection = connection
        self._path = path
        self._disk = disk
        self._journal = journal
        self._confirmed = confirmed
        self._notify = notify
        self._tell = tell
        self._awake = Condition()
        self._changes: Changes | None = None
        self._pages: list[BodyRead] = []
        self._report: Report | None = None
        self._is_closing = False
        self._is_look_due = False
        self._error: StoreError | None = None
        self._pressure = ""
        self._unsynced = 0  # bytes written since the last checkpoint
        self._unseen = 0  # and since the disk was looked at
        self._rows = connection.total_changes  # changed until now
        self._thread = Thread(target=self._run, name="covey-store", daemon=True)
        self._thread.start()

    # The loop's side.

    def submit(self, changes: Changes) -> None:
        """Have a batch written; those that meet on the way become one commit."""
        with self._awake:
            if self._changes is None:
                self._changes = changes
            else:
                self._changes.add(changes)
            self._awake.notify()

    def ask(self, page: BodyRead) -> None:
        """Have bodies read."""
        with self._awake:
            self._pages.append(page)
            self._awake.notify()

    def look(self) -> None:
        """Have the disk looked at: another limit holds."""
        with self._awake:
            self._is_look_due = True
            self._awake.notify()

    def take_report(self) -> Report | None:
        """Return what was done since the last time, None if nothing."""
        with self._awake:
            report, self._report = self._report, None
        return report

    def close(self) -> None:
        """Finish what was handed over, and end. A batch that cannot be written is given up."""
        with self._awake:
            self._is_closing = True
            self._awake.notify()
        self._thread.join()
        self._connection.close()
        self._confirmed.close()

    # The thread's side.

    def _run(self) -> None:
        self._look_at_disk()
        while self._wait():
            with self._awake:
                changes, self._changes = self._changes, None
                pages, self._pages = self._pages, []
            if changes is not None:
                self._commit(changes)
            for page in pages:
                self._read(page)
            if self._pressure:
                self._make_room()
            if self._pressure or self._is_look_due:
                self._look_at_disk()
        self._fold()  # a file at rest has everything in its tables

    def _make_room(self) -> None:
        """Let what was settled leave the tables, and what is in the log go to its place."""
        self._fold()
        if self._unsynced and self._error is None:
            self._checkpoint()

    def _fold(self) -> None:
        """Empty the journal, if there is room for that: a batch or a start would do it, too."""
        if self._error is not None:
            return
        try:
            carry_out(self._connection, self._journal.fold(Changes()))
            self._journal.written()
        except Exception as error:
            self._roll_back()
            if is_damage(error):
                self._ask_for_check()
            if not is_passing(error):
                self._fail(f"{self._path}: the journal cannot be folded: {error}")

    def _wait(self) -> bool:
        with self._awake:
            while self._changes is None and not self._pages and not self._is_look_due:
                if self._is_closing:
                    return False
                if not self._awake.wait(RETRY_S if self._pressure else None):
                    return True  # time to look at the disk again
        return True

    def _commit(self, changes: Changes) -> None:
        try:
            self._write(changes)
        except Exception as error:
            self._fail(f"{self._path}: commit failed: {error!r}")
        if self._error is None:
            # Before anybody hears of it: what is promised is noted.
            self._confirmed.note(self._journal.number, len(changes.arrivals))
        with self._awake:
            report = self._reporting()
            report.tickets += changes.tickets
            report.error = self._error
        if self._error is None:
            self._account(changes.size + self._journal.folded + COMMIT_BYTES)

    def _write(self, changes: Changes) -> None:
        statements = self._journal.take(changes) if self._error is None else []
        while self._error is None:
            try:
                carry_out(self._connection, statements)
                self._journal.written()
            except sqlite3.Error as error:
                self._roll_back()
                if is_passing(error) and not self._is_closing:
                    self._wait_for_room(error)
                    continue
                if is_damage(error):
                    self._ask_for_check()
                self._fail(f"{self._path}: commit failed: {error}")
            break

    def _account(self, written: int) -> None:
        """Keep the log short and an eye on the disk."""
        rows, self._rows = self._rows, self._connection.total_changes
        written += (self._rows - rows) * ROW_BYTES
        self._unsynced += written
        self._unseen += written
        # Short of room the log is emptied early: its own space is all there may be left.
        if self._unsynced >= (LOOK_BYTES if self._pressure else CHECKPOINT_BYTES):
            self._checkpoint()
            self._look_at_disk()
        elif self._unseen >= LOOK_BYTES:
            self._look_at_disk()

    def _wait_for_room(self, error: sqlite3.Error) -> None:
        """Wait before a batch is tried again; consumers go on meanwhile, as far as they can."""
        self._checkpoint()
        self._press(f"the store cannot be written: {error}")
        self._pause()
        with self._awake:
            pages, self._pages = self._pages, []
        for page in pages:
            self._read(page)

    def _read(self, page: BodyRead) -> None:
        if self._error is None:
            try:
                page.bodies = self._read_bodies(page.places)
            except Exception as error:
                if is_passing(error):
                    self.ask(page)
                    return
                self._fail(f"{self._path}: a page could not be read: {error}")
        with self._awake:
            report = self._reporting()
            report.pages.append(page)
            report.error = self._error

    def _read_bodies(self, places: list[int]) -> list[BodyRecord]:
        found = self._journal.bodies(places)
        if len(found) == len(places):
            return found
        try:
            # Those of the journal last: they are the newest.
            return read_page(self._connection, places, self._damages) + found
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
        # Some page of the file is damaged: the others' bodies need not suffer for it.
        self._ask_for_check()
        bodies: list[BodyRecord] = []
        for place in places:
            try:
                bodies += read_page(self._connection, [place], self._damages)
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
        return bodies + found

    def _ask_for_check(self) -> None:
        """Have the next start look at the whole file."""
        try:
            self._path.with_name(self._path.name + CHECK).touch()
        except OSError:
            pass  # a disk that takes no empty file has louder troubles

    def _checkpoint(self) -> None:
        try:
            self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
            self._confirmed.sync()
            self._unsynced = 0
        except sqlite3.Error as error:
            if not is_passing(error):
                self._fail(f"{self._path}: checkpoint failed: {error}")

    def _look_at_disk(self) -> None:
        self._unseen = 0
        self._is_look_due = False
        self._press(self._disk.shortage(self._connection, self._unsynced))

    def _press(self, reason: str) -> None:
        if reason == self._pressure:
            return
        self._pressure = reason
        with self._awake:
            self._reporting().pressure = reason

    def _pause(self) -> None:
        with self._awake:
            self._awake.wait_for(lambda: self._is_closing, RETRY_S)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error as error:
            self._fail(f"{self._path}: rollback failed: {error}")

    def _fail(self, text: str) -> None:
        if self._error is None:
            self._error = StoreError(text)

    def _reporting(self) -> Report:
        """Return the report being filled; the first entry asks the loop to fetch it."""
        if self._report is None:
            self._report = Report()
            try:
                self._notify(self._tell)
            except RuntimeError:
                pass  # the loop has ended, so nobody is left to hear it; close() finishes the rest
        return self._report
