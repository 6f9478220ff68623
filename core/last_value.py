"""LastValues: which message of a last-value queue holds the newest value of each key.

A newer message with the same key takes the place of the older one that nobody has acquired: the
older is dropped, the newer comes in at the end. An acquired one is its consumer's; if it comes
back after a newer one came in, it is dropped then. A message without the key is an ordinary one.

A table of keys and sequence numbers; whether a number still stands for a message the queue's
index knows, so consuming costs nothing here. Keys are compared as text: protocols that have
numbers and those that have only text mean the same thing.
"""

from __future__ import annotations

from typing import Final

from covey.core.entry import ACQUIRED, Entry
from covey.core.index import Index
from covey.core.message import Message

DEAD_SPARED: Final = 64  # keys without a message that are not worth a walk


class LastValues:
    """The newest message of each key."""

    __slots__ = ("_index", "_newest", "header")

    def __init__(self, header: str, index: Index) -> None:
        self.header = header
        self._index = index
        self._newest: dict[str, int] = {}

    def key_of(self, message: Message) -> str:
        """Return the message's key; "" if it has none."""
        value = message.lookup(self.header)
        return "" if value is None else str(value)

    def older(self, key: str) -> Entry | None:
        """Return the entry that a newer message of this key replaces."""
        entry = self._index.get(self._newest.get(key, 0)) if key else None
        return None if entry is None or entry.state == ACQUIRED else entry

    def note(self, key: str, seq: int) -> None:
        """Note the newest message of a key."""
        if not key:
            return
        self._newest[key] = seq
        if len(self._newest) > 2 * self._index.count + DEAD_SPARED:
            living = self._newest.items()
            self._newest = {key: seq for key, seq in living if self._index.get(seq) is not None}

    def is_outdated(self, entry: Entry) -> bool:
        """Say whether a newer message of the same key has come since, and is still there."""
        seq = self._newest.get(self.key_of(entry.content), 0)
        return seq > entry.seq and self._index.get(seq) is not None
