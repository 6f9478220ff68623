"""A store on a table: reports wait until the test takes them, as a loop would, without a loop.

`Bench` is the store alone, `House` a whole broker on top of one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from covey.config.settings import BrokerSettings, Settings, StoreSettings
from covey.core.broker.broker import Broker
from covey.core.model.consumer import Window
from covey.core.model.entry import Entry, Outcome
from covey.core.model.message import Message, Neutral
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity, Principal
from covey.core.selector import Value
from covey.core.storage.listener import StoreListener
from covey.core.storage.sqlite.store import SqliteStore
from covey.core.storage.store import QUEUE, BodyRecord, QueueRecord
from tests.core.support import Reader

ADMIN = Identity("admin", (Principal("role", "admin"),))
PATIENCE_S = 20  # how long a test waits for the store's thread before it fails


class Note(Message):
    """A persistent message whose encoding is its bytes, after its group and its expiry."""

    kind = "note"

    def __init__(self, body: bytes, group: str = "", *, persistent: bool = True) -> None:
        super().__init__(len(body))
        self.body = body
        self.group = group
        self.persistent = persistent

    def message_id(self) -> str:
        return ""

    def lookup(self, name: str) -> Value:
        return len(self.body) if name == "size" else None

    def neutral(self) -> Neutral:
        return Neutral(body=self.body)

    def encode(self) -> tuple[bytes, bytes]:
        return f"{self.group} {self.expires_ms}".encode(), self.body

    @classmethod
    def restore(cls, head: bytes, body: bytes) -> Note:
        group, _, expires_ms = head.decode().rpartition(" ")
        note = cls(body, group)
        note.expires_ms = int(expires_ms)
        return note

    def as_dead_letter(self, reason: str) -> Message:
        return Note(self.body, self.group, persistent=self.persistent)


class Loop:
    """Calls made from another thread, run when the test says so."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def notify(self, call: Callable[[], None]) -> None:
        self.calls.put(call)

    def turn(self) -> None:
        """Wait for the next call and run it."""
        self.calls.get(timeout=PATIENCE_S)()

    def until(self, is_done: Callable[[], bool]) -> None:
        """Run calls until something is true; fails if none comes any more."""
        while not is_done():
            self.turn()

    def is_idle(self) -> bool:
        """Say whether nothing was reported that nobody took."""
        try:
            self.calls.put(self.calls.get_nowait())
        except Empty:
            return True
        return False


class Bench(StoreListener):
    """A SQLite store in a directory, and what it reported."""

    def __init__(
        self,
        directory: Path,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
        disk_free_min: int = 0,
    ) -> None:
        self.loop = Loop()
        settings = StoreSettings(
            kind="sqlite", path=str(directory), disk_free_min=disk_free_min, disk_free_percent=0
        )
        self.store = SqliteStore(settings, self.loop.notify, factory)
        self.done: dict[int, Exception | None] = {}
        self.pages: dict[int, list[BodyRecord]] = {}
        self.page_error: Exception | None = None
        self.pressures: list[str] = []
        self.ticket = 0
        self.store.listen(self)

    def finished(self, ticket: int, error: Exception | None) -> None:
        self.done[ticket] = error

    def pressed(self, reason: str) -> None:
        self.pressures.append(reason)

    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        self.pages[ticket] = bodies
        self.page_error = error

    def flush(self) -> Exception | None:
        """Flush, and wait until it is reported."""
        self.ticket += 1
        ticket = self.ticket
        self.store.flush(ticket)
        self.loop.until(lambda: ticket in self.done)
        return self.done[ticket]

    def until_unpressed(self) -> None:
        """Wait until producers may go on."""
        self.loop.until(lambda: self.pressures[-1:] == [""])

    def page(self, *places: tuple[int, int]) -> list[BodyRecord]:
        """Ask for bodies, and wait for them."""
        self.ticket += 1
        ticket = self.ticket
        self.store.page(ticket, list(places))
        self.loop.until(lambda: ticket in self.pages)
        return self.pages[ticket]

    def numbers(self) -> list[tuple[int, int]]:
        """Return the places of all messages."""
        return [(record.queue, record.seq) for record in self.store.messages()]


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
        self.host = self.broker.hosts[0]
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


def small_windows(queue: int, total: int) -> Settings:
    return Settings(broker=BrokerSettings(memory_window_queue=queue, memory_window_total=total))


def queue_record(number: int, name: str = "a", next_seq: int = 1) -> QueueRecord:
    return QueueRecord(number, "default", QUEUE, name, next_seq, True, "")
