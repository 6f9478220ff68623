"""The store that keeps nothing: the default of an ephemeral broker, and the tests' double."""

from __future__ import annotations

from collections.abc import Iterator

from covey.config.settings import StoreSettings
from covey.core.model.message import Message
from covey.core.storage.store import (
    DurableRecord,
    IdRecord,
    MessageRecord,
    MessageStore,
    NamedRecord,
    Place,
    QueueRecord,
)


class MemoryStore(MessageStore):
    """Promises nothing, so no entry and no receipt waits; the core reads nothing back from it."""

    is_durable = False

    def queues(self) -> list[QueueRecord]:
        """Find nothing."""
        return []

    def durables(self) -> list[DurableRecord]:
        """Find nothing."""
        return []

    def records(self) -> list[NamedRecord]:
        """Find nothing."""
        return []

    def messages(self) -> Iterator[MessageRecord]:
        """Find nothing."""
        return iter(())

    def ids(self) -> Iterator[IdRecord]:
        """Find nothing."""
        return iter(())

    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        """Keep nothing: the queue has the message."""

    def delete(self, queue: int, seq: int) -> None:
        """Forget nothing."""

    def move(self, queue: int, seq: int, to: int) -> None:
        """Have nothing to move."""

    def remember(self, queue: int, number: int, digest: bytes) -> None:
        """Remember nothing."""

    def forget_ids(self, queue: int, below: int) -> None:
        """Forget nothing."""

    def count_retry(self, queue: int, seq: int, deliveries: int) -> None:
        """Remember nothing."""

    def spill(self, queue: int, seq: int, message: Message) -> None:
        """Keep nothing: the queue has the message."""

    def unspill(self, queue: int, seq: int) -> None:
        """Forget nothing."""

    def define(self, record: QueueRecord) -> None:
        """Remember nothing."""

    def reserve(self, queue: int, next_seq: int) -> None:
        """Remember nothing."""

    def note_dropped(self, queue: int, dropped_to: int) -> None:
        """Remember nothing."""

    def forget(self, queue: int) -> None:
        """Forget nothing."""

    def empty(self, queue: int) -> None:
        """Forget nothing."""

    def bind(self, record: DurableRecord) -> None:
        """Remember nothing."""

    def unbind(self, host: str, name: str) -> None:
        """Forget nothing."""

    def put(self, record: NamedRecord) -> None:
        """Remember nothing."""

    def remove(self, host: str, kind: str, key: str) -> None:
        """Forget nothing."""

    def allow(self, settings: StoreSettings) -> None:
        """Do nothing: memory has no disk to run out of."""

    def flush(self, ticket: int, can_wait: bool = False) -> None:
        """Have nothing to write."""

    def page(self, ticket: int, places: list[Place]) -> None:
        """Have nothing to read."""

    def close(self) -> None:
        """Have nothing to finish."""
