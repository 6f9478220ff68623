"""Duplicates: the last so many message ids of a queue, so that a message sent twice enters once.

Only ids that clients gave count: the broker makes none twice. A message whose id is known is
taken, receipted and dropped. Known are the ids of the last `window` messages that had one, also
after they were consumed; ids of persistent messages survive a restart.

An id may be as long as a header, so what is kept is a digest of fixed size: two different ids
with one digest are less likely than a disk that makes one of two messages up.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from covey.core.message import Message

DIGEST_BYTES: Final = 16
FIRST_ID: Final = 1
IDS_MAX: Final = 1 << 41  # no number gets here
PRUNE_EVERY: Final = 1000  # stored ids beyond the window that are not worth a statement


class Duplicates:
    """The ids one queue remembers."""

    __slots__ = ("_known", "next_number", "pruned", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self._known: dict[bytes, int] = {}  # by number, which is the order they came in
        self.next_number = FIRST_ID
        self.pruned = FIRST_ID  # the store has none below it

    @property
    def count(self) -> int:
        """Return how many ids are known."""
        return len(self._known)

    def holds(self, message: Message) -> bool:
        """Say whether a message of this id was taken before."""
        given = message.duplicate_id()
        return bool(given) and digest(given) in self._known

    def add(self, message: Message) -> tuple[int, bytes] | None:
        """Remember a message's id; return its number and digest, None if it has no id."""
        given = message.duplicate_id()
        if not given:
            return None
        known = digest(given)
        number = self.next_number
        self._add(number, known)
        return number, known

    def restore(self, number: int, known: bytes) -> None:
        """Remember what a restart found; numbers ascend."""
        self._add(number, known)

    def outdated(self) -> int:
        """Return below which number the store may forget, 0 if that is not worth it yet."""
        limit = self.next_number - self.window
        if limit - self.pruned < PRUNE_EVERY:
            return 0
        self.pruned = limit
        return limit

    def resize(self, window: int) -> None:
        """Remember so many from now on."""
        self.window = window
        self._trim()

    def _add(self, number: int, known: bytes) -> None:
        self.next_number = number + 1
        self._known[known] = number
        self._trim()

    def _trim(self) -> None:
        while len(self._known) > self.window:
            del self._known[next(iter(self._known))]


def digest(given: str) -> bytes:
    """Return what stands for an id."""
    return blake2b(given.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
