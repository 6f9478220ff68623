"""A store on a table: reports wait until the test takes them, as a loop would, without a loop."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from covey.core.storage.listener import StoreListener
from covey.core.storage.store import QUEUE, BodyRecord, MessageStore, QueueRecord
from covey.core.storage.writer import Notify

PATIENCE_S = 20  # how long a test waits for the store's thread before it fails

AnyStore = TypeVar("AnyStore", bound=MessageStore)


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


class StoreBench(StoreListener, Generic[AnyStore]):
    """An open store, and what it reported."""

    def __init__(self, open_store: Callable[[Notify], AnyStore]) -> None:
        self.loop = Loop()
        self.open_store = open_store
        self.done: dict[int, Exception | None] = {}
        self.pages: dict[int, list[BodyRecord]] = {}
        self.page_error: Exception | None = None
        self.failure: Exception | None = None
        self.pressures: list[str] = []
        self.ticket = 0
        self.store = open_store(self.loop.notify)
        self.store.listen(self)

    def reopen(self) -> None:
        """Close the store, and open what it left."""
        self.store.close()
        self.loop = Loop()
        self.store = self.open_store(self.loop.notify)
        self.store.listen(self)

    def lost(self, error: Exception) -> None:
        self.failure = error

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
        """Open the store again, and return the places of all messages."""
        self.reopen()
        return [(record.queue, record.seq) for record in self.store.messages()]


def queue_record(number: int, name: str = "a", next_seq: int = 1) -> QueueRecord:
    return QueueRecord(number, "default", QUEUE, name, next_seq, True, "")
