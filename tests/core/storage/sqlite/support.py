"""A SQLite store on a table.

`Bench` is the store alone, `House` a whole broker on top of one.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from covey.config.settings import BrokerSettings, Settings, StoreSettings
from covey.core.broker.broker import Broker
from covey.core.model.consumer import Window
from covey.core.model.entry import Entry, Outcome
from covey.core.model.message import Message, Neutral, Origin
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity, Principal
from covey.core.selector import Value
from covey.core.storage.sqlite.store import SqliteStore
from tests.core.storage.bench import Loop, StoreBench
from tests.core.support import Reader

ADMIN = Identity("admin", (Principal("role", "admin"),))


class Note(Message):
    """A persistent message whose encoding is its bytes, after its origin, group and expiry."""

    kind = "note"

    def __init__(self, body: bytes, group: str = "", *, persistent: bool = True) -> None:
        super().__init__(len(body))
        self.body = body
        self.group = group
        self.persistent = persistent
        self.came_from = ""  # the queue of a dead letter

    def message_id(self) -> str:
        return ""

    def lookup(self, name: str) -> Value:
        if name == "group":
            return self.group or None
        return len(self.body) if name == "size" else None

    def neutral(self) -> Neutral:
        return Neutral(body=self.body, dead_origin={"queue": self.came_from})

    def encode(self) -> tuple[bytes, bytes]:
        return f"{self.came_from}\n{self.group} {self.expires_ms}".encode(), self.body

    @classmethod
    def restore(cls, head: bytes, body: bytes) -> Note:
        came_from, _, rest = head.decode().partition("\n")
        group, _, expires_ms = rest.rpartition(" ")
        note = cls(body, group)
        note.came_from = came_from
        note.expires_ms = int(expires_ms)
        return note

    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> Message:
        letter = Note(self.body, self.group, persistent=self.persistent)
        letter.came_from = "" if origin is None else origin.queue
        return letter


class Bench(StoreBench[SqliteStore]):
    """A SQLite store in a directory, and what it reported."""

    def __init__(
        self,
        directory: Path,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
        disk_free_min: int = 0,
        journal_size: int = 64 * 1024 * 1024,
    ) -> None:
        settings = StoreSettings(
            kind="sqlite",
            path=str(directory),
            disk_free_min=disk_free_min,
            disk_free_percent=0,
            journal_size=journal_size,
        )
        super().__init__(lambda notify: SqliteStore(settings, notify, factory))

    @property
    def batch(self) -> int:
        """Return the number of the last batch."""
        return self.store._database.journal.number


class House:
    """A broker with a SQLite store; `rest` runs it until nothing is under way."""

    def __init__(
        self,
        directory: Path,
        settings: Settings | None = None,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        self.directory = directory
        self.settings = settings or Settings()
        self.loop = Loop()
        stored = StoreSettings(
            kind="sqlite", path=str(directory), disk_free_min=0, disk_free_percent=0
        )
        self.store = SqliteStore(stored, self.loop.notify, factory)
        self.broker = Broker(self.settings, self.store, {Note.kind: Note.restore})
        self.host = self.broker.host
        self.session = self.broker.open(self.host, ADMIN, 0.0)
        self.receipts: list[str] = []
        self.now = 0.0

    def send(
        self, name: str, body: bytes, group: str = "", *, persistent: bool = True, receipt: str = ""
    ) -> None:
        self.publish(name, Note(body, group, persistent=persistent), receipt)

    def publish(self, name: str, note: Note, receipt: str = "") -> None:
        done = (lambda: self.receipts.append(receipt)) if receipt else None
        self.broker.publishing.publish(self.session, (Destination(Kind.QUEUE, name),), note, done)

    def rest(self) -> None:
        """Run until the disk has everything and nobody waits for a body."""
        broker = self.broker
        assert broker.commits.pager is not None
        broker.run(self.now)
        while (
            broker.commits.in_flight
            or broker.commits.pager.pages_under_way
            or broker.turns.is_any_dirty
        ):
            if not broker.turns.is_any_dirty:
                self.loop.turn()
            broker.run(self.now)

    def reader(self, name: str, count: int = 1000) -> Reader:
        reader = Reader(Window(count))
        self.queue(name).join(reader, self.now)
        return reader

    def queue(self, name: str) -> Queue:
        return self.host.queue(name)

    def settle(self, entry: Entry, outcome: Outcome = Outcome.ACCEPTED) -> None:
        assert entry.holder is not None and entry.holder.queue is not None
        entry.holder.queue.settle(entry, outcome, self.now)

    def restart(self) -> House:
        self.store.close()
        return House(self.directory, self.settings)


def bodies(reader: Reader) -> list[bytes]:
    return [entry.content.neutral().body for entry in reader.entries]


def small_windows(queue: int, total: int, entries: int = 50_000) -> Settings:
    return Settings(
        broker=BrokerSettings(
            memory_window_queue=queue, memory_window_total=total, memory_entries_queue=entries
        )
    )


def snapshot(directory: Path, copy: Path) -> Path:
    """Copy the files of a running store, as a kill would leave them: all of one moment.

    The store's thread may be tidying up; then the copy is made again.
    """
    while True:
        before = _seen(directory)
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(directory, copy)
        except shutil.Error:
            continue  # a segment has got another name
        if _seen(directory) == before:
            return copy


def _seen(directory: Path) -> list[tuple[str, int, int]]:
    try:
        found = [(path.name, path.stat()) for path in sorted(directory.iterdir())]
    except FileNotFoundError:
        return []
    return [(name, each.st_size, each.st_mtime_ns) for name, each in found]
