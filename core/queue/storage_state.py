# Compiled by mypyc: see setup.py.
"""StorageState: what the store and the pager know about one queue.

    number      the store's name for the queue; 0 with a store that keeps nothing
    secured     sequence numbers below it are reserved on disk, so consumers may see them
    reserve_at  the sequence number at which the next block is reserved
    resident    bytes of the bodies in memory
    out         entries whose body is not in memory
    dropped_to  the value of the queue's `dropped_to` that is in the store

It holds data and no policy. `core.storage.commits`, `core.storage.ledger` and `core.storage.paging`
act on it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.core.model.entry import Entry

SIZES_MAX: Final = 4096  # distinct sizes in the table; random sizes are not worth more
NUMBER_MAX: Final = 2**62  # no sequence number gets here: nothing has to be reserved


class StorageState:
    """One queue's place in the store."""

    __slots__ = (
        "counted",
        "dropped_to",
        "has_kept",
        "has_spilled",
        "loaded",
        "loaded_limit",
        "loading",
        "number",
        "out",
        "overdue",
        "pages",
        "reserve_at",
        "resident",
        "secured",
        "sizes",
    )

    def __init__(self) -> None:
        self.number = 0
        self.secured = NUMBER_MAX
        self.reserve_at = NUMBER_MAX
        self.resident = 0
        self.counted = 0  # the part of `resident` that is in the pager's total
        self.out = 0
        self.dropped_to = 0
        self.has_kept = False  # the store has, or had, messages of this queue that are to survive
        self.has_spilled = False  # the scratch file has, or had, bodies of this queue
        self.overdue: list[int] = []  # expired, but the dead-letter queue needs the body
        self.loading: set[int] = set()  # numbers whose bodies were asked for
        self.pages = 0  # requests under way
        self.loaded: deque[Entry] = deque()  # read back, oldest first; may leave memory again
        self.loaded_limit = 0
        self.sizes: dict[int, int] = {}

    def shared(self, size: int) -> int:
        """Return one shared number object per size: a million messages have few sizes."""
        if len(self.sizes) < SIZES_MAX:
            return self.sizes.setdefault(size, size)
        return self.sizes.get(size, size)
