"""Storage: what waits for the disk, which bodies are in memory, and the stores themselves.

Read `store` first: the interface of every store, with its records; `listener` is what a store tells
the core. `commits` is what goes to the store and what can be seen once it is there. `overload`
makes producers wait for disk and memory. `ledger` tells the store of queues and durable
subscriptions. `paging` moves bodies out and in. `memory` keeps nothing, `sqlite/` keeps files.
`open_store` makes the store that the settings ask for. Imports `queue` and what is below it.
"""

from __future__ import annotations

from covey.config.settings import StoreSettings
from covey.core.storage.memory import MemoryStore
from covey.core.storage.sqlite.store import SqliteStore
from covey.core.storage.sqlite.writer import Notify
from covey.core.storage.store import MessageStore

__all__ = ["open_store"]


def open_store(settings: StoreSettings, notify: Notify) -> MessageStore:
    """Open the store; `notify` runs a callable on the loop's thread, from any other.

    Raises StoreError if it cannot serve: in use, damaged, of a newer release.
    """
    if settings.kind == "memory":
        return MemoryStore()
    return SqliteStore(settings, notify)
