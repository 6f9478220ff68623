"""Stores: `open_store` makes the one that the settings ask for."""

from __future__ import annotations

from covey.config.settings import StoreSettings
from covey.core.stores.base import MessageStore
from covey.core.stores.memory import MemoryStore
from covey.core.stores.sqlite import SqliteStore
from covey.core.stores.writer import Notify

__all__ = ["open_store"]


def open_store(settings: StoreSettings, notify: Notify) -> MessageStore:
    """Open the store; `notify` runs a callable on the loop's thread, from any other.

    Raises StoreError if it cannot serve: in use, damaged, of a newer release.
    """
    if settings.kind == "memory":
        return MemoryStore()
    return SqliteStore(settings, notify)
