"""SqliteStore: the embedded store, one SQLite file in the data directory
(`core.storage.sqlite.database`).

Changes are gathered here on the loop's thread and handed to the `Writer` thread by `flush`. A
thread and not a child process: docs/decisions/010-store-thread.md has the figures.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from covey.config.settings import StoreSettings
from covey.core.errors import StoreError
from covey.core.model.message import Message
from covey.core.storage.sqlite.changes import Changes
from covey.core.storage.sqlite.database import Database
from covey.core.storage.sqlite.reader import read_durables, read_ids, read_messages, read_queues
from covey.core.storage.sqlite.schema import QUEUES_MAX, place_of, row_sum
from covey.core.storage.sqlite.writer import BodyRead, Disk, Notify, Writer
from covey.core.storage.store import (
    DurableRecord,
    IdRecord,
    MessageRecord,
    MessageStore,
    Place,
    QueueRecord,
)

DEFINE: Final = """
    insert into queues values (?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (number) do update set
        host = excluded.host, kind = excluded.kind, name = excluded.name,
        next_seq = max(next_seq, excluded.next_seq),
        dropped_to = max(dropped_to, excluded.dropped_to),
        is_live = excluded.is_live, settings = excluded.settings, crc = excluded.crc
"""
RESERVE: Final = "update queues set next_seq = max(next_seq, ?) where number = ?"
FORGET: Final = "delete from queues where number = ?"
BIND: Final = "insert or replace into durables values (?, ?, ?, ?, ?)"
UNBIND: Final = "delete from durables where host = ? and name = ?"


class SqliteStore(MessageStore):
    """Persistent messages in a directory of their own."""

    def __init__(
        self,
        settings: StoreSettings,
        notify: Notify,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._database = Database(
            Path(settings.path),
            settings.journal_size,
            factory,
            allow_open_files=settings.allow_open_files,
        )
        self._connection = self._database.connection
        self.damages = self._database.damages
        self.exposed = self._database.exposed
        self.losses = self._database.losses
        self._changes = Changes()
        file = self._database.file
        self._writer = Writer(
            self._connection,
            file,
            Disk(file, self._disk_free_min),
            self._database.journal,
            self._database.confirmed,
            notify,
            self._tell,
            self.damages,
        )

    def queues(self) -> list[QueueRecord]:
        """Return every queue, swept ones included."""
        return read_queues(self._connection, self.damages)

    def durables(self) -> list[DurableRecord]:
        """Return every durable subscription."""
        return read_durables(self._connection, self.damages)

    def messages(self) -> Iterator[MessageRecord]:
        """Walk all messages, queue by queue, ascending."""
        rows = read_messages(self._connection, self.damages)
        return self._database.journal.messages(rows)

    def ids(self) -> Iterator[IdRecord]:
        """Walk all remembered message ids, queue by queue, ascending."""
        return read_ids(self._connection)

    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        """Keep a message at its number."""
        self._changes.arrive(place_of(queue, seq), group, message)

    def delete(self, queue: int, seq: int) -> None:
        """Forget a message that was settled."""
        self._changes.deletions.append(place_of(queue, seq))

    def move(self, queue: int, seq: int, to: int) -> None:
        """Give a message another number in its queue."""
        self._changes.moves[place_of(queue, seq)] = place_of(queue, to)

    def remember(self, queue: int, number: int, digest: bytes) -> None:
        """Remember a message id."""
        self._changes.ids[place_of(queue, number)] = digest

    def forget_ids(self, queue: int, below: int) -> None:
        """Forget a queue's message ids below a number."""
        self._changes.forget_ids(queue, below)

    def count_retry(self, queue: int, seq: int, deliveries: int) -> None:
        """Remember how often a message was delivered and came back."""
        self._changes.retries[place_of(queue, seq)] = deliveries

    def spill(self, queue: int, seq: int, message: Message) -> None:
        """Keep a body in the scratch file."""
        self._changes.spill(place_of(queue, seq), message)

    def unspill(self, queue: int, seq: int) -> None:
        """Forget a spilled body."""
        self._changes.unspills.append(place_of(queue, seq))

    def define(self, record: QueueRecord) -> None:
        """Remember a queue, or what changed about it."""
        if record.number >= QUEUES_MAX:
            raise StoreError(f"queue {record.name}: the store has given {QUEUES_MAX} queue numbers")
        named = (record.host, record.kind, record.name)
        is_live = int(record.is_live)
        row = (
            record.number,
            *named,
            record.next_seq,
            is_live,
            record.settings,
            record.dropped_to,
            row_sum(*named, record.settings, str(is_live)),
        )
        self._changes.definitions.append((DEFINE, row))

    def reserve(self, queue: int, next_seq: int) -> None:
        """Never again give a number below this one in that queue."""
        self._changes.definitions.append((RESERVE, (next_seq, queue)))

    def note_dropped(self, queue: int, dropped_to: int) -> None:
        """Remember up to which number messages went without being settled."""
        self._changes.drops[queue] = dropped_to

    def forget(self, queue: int) -> None:
        """Forget a queue with all its messages."""
        self.empty(queue)
        self._changes.definitions.append((FORGET, (queue,)))

    def empty(self, queue: int) -> None:
        """Forget all messages and message ids of a queue, and keep the queue."""
        self._changes.empty(queue)

    def bind(self, record: DurableRecord) -> None:
        """Remember a durable subscription, or what it hears now."""
        heard: object = record.destinations
        if record.not_from:
            heard = {"destinations": record.destinations, "not_from": record.not_from}
        destinations = json.dumps(heard)
        row = (record.host, record.name, destinations, record.selector)
        self._changes.definitions.append((BIND, (*row, row_sum(*row))))

    def unbind(self, host: str, name: str) -> None:
        """Forget a durable subscription; its queue is forgotten by `forget`."""
        self._changes.definitions.append((UNBIND, (host, name)))

    def allow(self, settings: StoreSettings) -> None:
        """Let other limits hold from now on; the disk is looked at at once."""
        self._settings = settings
        self._writer.look()

    def flush(self, ticket: int) -> None:
        """Hand over everything issued so far; the listener hears of it later."""
        changes, self._changes = self._changes, Changes()
        changes.tickets.append(ticket)
        self._writer.submit(changes)

    def page(self, ticket: int, places: list[Place]) -> None:
        """Read bodies back; the listener gets them later."""
        self._writer.ask(BodyRead(ticket, [place_of(queue, seq) for queue, seq in places]))

    def close(self) -> None:
        """Finish what was handed over and let go of the disk."""
        self._writer.close()
        self._database.release()

    def _disk_free_min(self, disk_bytes: int) -> int:
        share = disk_bytes * self._settings.disk_free_percent // 100
        return int(max(self._settings.disk_free_min, share))

    def _tell(self) -> None:
        """Pass the thread's report on, on the loop's thread."""
        report = self._writer.take_report()
        if report is None:
            return
        for ticket in report.tickets:
            self.listener.finished(ticket, report.error)
        for page in report.pages:
            self.listener.paged(page.ticket, page.bodies, report.error)
        if report.pressure is not None:
            self.listener.pressed(report.pressure)
