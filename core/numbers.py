"""Numbers: where a queue that is gone stopped counting, should it come back under its name.

A sequence number is never given twice, since browsers keep them as bookmarks. Only so many names
are kept; the numbers of those that were forgotten go on from the highest of them, the floor.
"""

from __future__ import annotations

from typing import Final

REMEMBERED_MAX: Final = 100_000  # names, at about 150 bytes each


class Numbers:
    """The next sequence number of every name that was used and is not now."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self.floor = 1  # where names that were forgotten, or never used, begin

    def take(self, name: str) -> int:
        """Return where a new queue of this name begins."""
        return self._next.pop(name, self.floor)

    def keep(self, name: str, next_seq: int) -> str:
        """Remember a name; return the one that had to be forgotten for it, "" if none."""
        self._next[name] = next_seq
        if len(self._next) <= REMEMBERED_MAX:
            return ""
        oldest = next(iter(self._next))
        self.floor = max(self.floor, self._next.pop(oldest))
        return oldest

    def recall(self, name: str, next_seq: int, *, is_floor: bool) -> None:
        """Hear at a restart where a name goes on, or those that were forgotten."""
        if is_floor:
            self.floor = max(self.floor, next_seq)
        else:
            self._next[name] = next_seq
