"""Salvage: a damaged database is replaced by a sound one with everything that can still be read.

SQLite stops at the first damaged page, and writing to such a file would spread the damage. So all
rows that can be read are copied into a new file, queue by queue. What lies on a damaged page is
reported with its place. The damaged file stays beside the new one, for whoever repairs it:

    covey.db.salvaging   being filled; worth nothing until it is complete
    covey.db.salvaged    complete: from now on it is the store, whatever happens
    covey.db.damaged-1   the old file (and its -wal), never touched again
    covey.db.check       left behind by a broker that met damage: the next start checks everything

Each step is one rename or link, so a crash between two of them loses nothing. The next start makes
an unfinished copy again, and puts a complete copy in place. The first page of a file says what is
in the file. If that page is damaged nothing can be read, and the start is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from covey.core.storage.packing import SEQ_BITS, SEQ_MASK
from covey.core.storage.sqlite.schema import APPLICATION_ID, JOURNAL, create

SALVAGING: Final = ".salvaging"
SALVAGED: Final = ".salvaged"
DAMAGED: Final = ".damaged-"
CHECK: Final = ".check"

KEY_MAX: Final = 2**63 - 1  # the largest row number of SQLite
ROWS_PER_COMMIT: Final = 10_000  # only to limit memory: after a crash the whole copy is made again
KEYS: Final = {"queues": "number", "ids": "place", "messages": "id", "journal": "number"}
SMALL: Final = {
    "durables": "durable subscriptions",
    "records": "named records",
    "marks": "marks of the journal",
}
BODY: Final = "select * from bodies where id = ?"

Row = tuple[int | str | bytes, ...]


def finish_salvage(path: Path) -> None:
    """Put a complete copy in place, if the last start ended before it did that."""
    beside(path, SALVAGING).unlink(missing_ok=True)
    salvaged = beside(path, SALVAGED)
    if salvaged.exists():
        # SQLite would take the old file's log for the new file's.
        for suffix in ("-wal", "-shm"):
            beside(path, suffix).unlink(missing_ok=True)
        salvaged.replace(path)
        sync(path.parent)


def salvage(path: Path, found: list[str]) -> list[str]:
    """Replace a damaged database by what can be read of it; return what was lost, with places.

    `found` is what SQLite says about the damage. Raises sqlite3.Error if nothing can be read.
    """
    copy = beside(path, SALVAGING)
    copy.unlink(missing_ok=True)
    source = sqlite3.connect(path, isolation_level=None)
    target = sqlite3.connect(copy, isolation_level=None)
    try:
        source.execute("pragma writable_schema = on")  # else a file cut short cannot be read at all
        source.execute("pragma cell_size_check = on")  # else a torn page may be read as rows
        _check_ours(source, found)
        create(target)
        lost = _Copy(source, target).run()
        target.execute("pragma wal_checkpoint(truncate)")
        target.close()
        kept = _keep(path)
    finally:
        target.close()
        source.close()
    copy.rename(beside(path, SALVAGED))
    sync(path.parent)
    finish_salvage(path)
    return [f"{path}: {'; '.join(found[:5])} (the damaged file is kept as {kept.name})", *lost]


class _Copy:
    """One database copied into another, as far as it can be read."""

    def __init__(self, source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        self.source = source
        self.target = target
        self.names: dict[int, str] = {}
        self.lost: list[str] = []
        self._body_columns = _columns(target, "bodies")
        self._gap: list[int] = []  # places of messages in a row that have no body

    def run(self) -> list[str]:
        """Copy everything; return what could not be read."""
        if _columns(self.source, "journal"):
            self.target.execute(JOURNAL)  # of an earlier format; this start folds it later
        self.target.execute("begin")
        for table, what in SMALL.items():
            self._copy_small(table, what)
        for table in KEYS:
            columns = _columns(self.source, table)
            for count, row in enumerate(self._rows(table, columns), start=1):
                if table == "queues":
                    self.names[int(row[0])] = str(row[columns.index("name")])
                if table != "messages" or self._copy_body(int(row[0])):
                    self._insert(table, columns, row)
                if count % ROWS_PER_COMMIT == 0:
                    self.target.execute("commit")
                    self.target.execute("begin")
        self.target.execute("commit")
        self._report_gap()
        return self.lost

    def _copy_small(self, table: str, what: str) -> None:
        """Copy a table whose key is not a number, as far as it can be read."""
        columns = _columns(self.source, table)
        if not columns:
            return  # an older format had no such table
        try:
            for row in self.source.execute(f"select * from {table}"):
                self._insert(table, columns, row)
        except sqlite3.DatabaseError as error:
            self.lost.append(f"some {what} cannot be read: {error}")

    def _copy_body(self, place: int) -> bool:
        try:
            row = self.source.execute(BODY, (place,)).fetchone()
        except sqlite3.DatabaseError:
            row = None
        if row is None:
            if self._gap and self._gap[0] >> SEQ_BITS != place >> SEQ_BITS:
                self._report_gap()
            self._gap.append(place)
            return False
        self._report_gap()
        self._insert("bodies", self._body_columns, row)
        return True

    def _report_gap(self) -> None:
        """Report messages whose bodies are lost: one line for all that follow each other."""
        gap, self._gap = self._gap, []
        if len(gap) == 1:
            self.lost.append(f"{self._words(gap[0])} cannot be read")
        elif gap:
            numbers = f"from {gap[0] & SEQ_MASK} to {gap[-1] & SEQ_MASK}"
            queue = self._name(gap[0])
            self.lost.append(f"{len(gap)} messages {numbers} of queue {queue} cannot be read")

    def _insert(self, table: str, columns: list[str], row: Row) -> None:
        marks = ",".join("?" * len(columns))
        # A torn row may repeat a key or lack a value. Such a row is left out; the others go on.
        names = ",".join(columns)
        self.target.execute(f"insert or ignore into {table} ({names}) values ({marks})", row)

    def _rows(self, table: str, columns: list[str]) -> Iterator[Row]:
        """Walk a table by its key, and skip the gaps that damaged pages make."""
        if not columns:
            return  # an older format had no such table
        key = KEYS[table]
        query = f"select {','.join(columns)} from {table} where {key} > ? order by {key}"
        last = -1
        while True:
            try:
                for row in self.source.execute(query, (last,)):
                    if row[0] > last:  # a torn page may lead back to smaller keys
                        last = int(row[0])
                        yield row
                return
            except sqlite3.DatabaseError:
                following = _next_readable(self.source, table, key, last)
                self._report(table, last, following)
                if following is None:
                    return
                last = following - 1

    def _report(self, table: str, last: int, following: int | None) -> None:
        if table == "messages":
            start = "the first message" if last < 0 else self._words(last)
            end = "the last message" if following is None else self._words(following)
            self.lost.append(f"messages between {start} and {end} cannot be read")
        elif table == "journal":
            self.lost.append(f"what some commits after {last} wrote cannot be read")
        else:
            self.lost.append(f"rows of {table} after {last} cannot be read")

    def _words(self, place: int) -> str:
        return f"message {place & SEQ_MASK} of queue {self._name(place)}"

    def _name(self, place: int) -> str:
        queue = place >> SEQ_BITS
        return self.names.get(queue, f"number {queue}")


def _next_readable(source: sqlite3.Connection, table: str, key: str, last: int) -> int | None:
    """Return the first key behind the damage after `last` that can be read; None if none can."""
    query = f"select {key} from {table} where {key} > ? order by {key} limit 1"
    step = 1
    while not _reaches(source, query, last + step):
        step *= 2
        if last + step > KEY_MAX:
            return None
    # A damaged page covers a stretch of keys: find where it ends.
    bad, good = last + step // 2, last + step
    while good - bad > 1:
        middle = (bad + good) // 2
        if _reaches(source, query, middle):
            good = middle
        else:
            bad = middle
    row = source.execute(query, (good,)).fetchone()
    return None if row is None else int(row[0])


def _reaches(source: sqlite3.Connection, query: str, key: int) -> bool:
    try:
        row = source.execute(query, (key,)).fetchone()
    except sqlite3.DatabaseError:
        return False
    return row is None or row[0] > key  # a torn page may lead back to smaller keys


def _check_ours(source: sqlite3.Connection, found: list[str]) -> None:
    """Raise sqlite3.Error if the first page does not say that this is a store."""
    (application,) = source.execute("pragma application_id").fetchone()
    if application != APPLICATION_ID or not _columns(source, "messages"):
        raise sqlite3.DatabaseError("; ".join(found[:5]))


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]


def kept_name(path: Path) -> Path:
    """Return an unused name for a damaged file, or its log."""
    number = 1
    while (kept := beside(path, f"{DAMAGED}{number}")).exists() or beside(kept, "-wal").exists():
        number += 1
    return kept


def _keep(path: Path) -> Path:
    """Link the damaged file, and its log, to a name under which they are kept."""
    kept = kept_name(path)
    for suffix in ("", "-wal"):
        part = beside(path, suffix)
        if part.exists():
            os.link(part, beside(kept, suffix))
    return kept


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file's companion: its name with a suffix."""
    return path.with_name(path.name + suffix)


def sync(directory: Path) -> None:
    """Flush a directory, so that the names in it survive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
