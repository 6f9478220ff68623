# Compiled by mypyc: see setup.py.
"""StorageState: what the store and the pager keep in mind about one queue.

    number      the store's name for the queue; 0 with a store that keeps nothing
    secured     numbers below it were reserved on disk and may be seen by anybody
    reserve_at  the number at which the next block is asked for
    resident    bytes of the bodies in memory
    out         entries whose body is not in memory
    dropped_to  what the store knows of the queue's own `dropped_to`

It holds data and no policy. `core.storage.commits`, `core.storage.ledger` and `core.storage.paging`
act on it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.core.model.entry import Entry

SIZES_MAX: Final = 4096  # different sizes shared; random ones are not worth a table
NUMBER_MAX: Final = 2**62  # no sequence number gets here: nothing has to be reserved


class StorageState:
    """One queue's place in the store."""

    __slots__ = (
        "counted",
        "dropped_to",
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
        self.has_spilled = False  # there are, or were, bodies of it in the scratch file
        self.overdue: list[int] = []  # expired, but their dead-letter queue wants the body
        self.loading: set[int] = set()  # numbers whose bodies were asked for
        self.pages = 0  # requests under way
        self.loaded: deque[Entry] = deque()  # what came back, oldest first; may be put out again
        self.loaded_limit = 0
        self.sizes: dict[int, int] = {}

    def shared(self, size: int) -> int:
        """Return the one number object of this size: a backlog of a million has few of them."""
        if len(self.sizes) < SIZES_MAX:
            return self.sizes.setdefault(size, size)
        return self.sizes.get(size, size)
