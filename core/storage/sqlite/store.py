"""SqliteStore: the embedded store, one SQLite file in the data directory
(`core.storage.sqlite.database`).

It reads what a restart finds. Changes go to its engine (`core.storage.sqlite.engine`) by way of
`core.storage.threaded`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from covey.config.settings import StoreSettings
from covey.core.storage.sqlite.database import Database
from covey.core.storage.sqlite.engine import Disk, SqliteEngine
from covey.core.storage.sqlite.reader import (
    read_durables,
    read_ids,
    read_messages,
    read_queues,
    read_records,
)
from covey.core.storage.store import (
    DurableRecord,
    IdRecord,
    MessageRecord,
    NamedRecord,
    QueueRecord,
)
from covey.core.storage.threaded import ThreadedStore
from covey.core.storage.writer import Notify


class SqliteStore(ThreadedStore):
    """Persistent messages in a directory of their own."""

    def __init__(
        self,
        settings: StoreSettings,
        notify: Notify,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        self._settings = settings
        self._database = Database(
            Path(settings.path),
            settings.journal_size,
            factory,
            allow_open_files=settings.allow_open_files,
        )
        self._connection = self._database.connection
        damages = self._database.damages
        disk = Disk(self._database.file, self._disk_free_min)
        engine = SqliteEngine(self._database, disk, damages)
        super().__init__(str(self._database.file), engine, notify)
        self.damages = damages
        self.exposed = self._database.exposed
        self.losses = self._database.losses

    def queues(self) -> list[QueueRecord]:
        """Return every queue, swept ones included."""
        return read_queues(self._connection, self.damages)

    def durables(self) -> list[DurableRecord]:
        """Return every durable subscription."""
        return read_durables(self._connection, self.damages)

    def records(self) -> list[NamedRecord]:
        """Return every named record."""
        return read_records(self._connection, self.damages)

    def messages(self) -> Iterator[MessageRecord]:
        """Walk all messages, queue by queue, ascending."""
        return read_messages(self._connection, self.damages)

    def ids(self) -> Iterator[IdRecord]:
        """Walk all remembered message ids, queue by queue, ascending."""
        return read_ids(self._connection)

    def allow(self, settings: StoreSettings) -> None:
        """Apply new limits; the disk is checked at once."""
        self._settings = settings
        super().allow(settings)

    def close(self) -> None:
        """Finish what was handed over and let go of the disk."""
        super().close()
        self._database.release()

    def _disk_free_min(self, disk_bytes: int) -> int:
        share = disk_bytes * self._settings.disk_free_percent // 100
        return int(max(self._settings.disk_free_min, share))
