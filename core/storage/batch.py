# Compiled by mypyc: see setup.py.
"""Batch: what the core has to do once changes are on disk. The store has the changes themselves.

A turn's changes are one batch. A client's long commit is carried out in portions, in many turns.
Its changes are gathered as a `BatchPart`, which joins one batch at the end. So the commit is on
disk whole or not at all. The part's entries are shown by the job that carries out the commit. Other
batches go to the disk before the part does, and have nothing of it. So

- the event log's position, which the store remembers, stays where it was before the part began: a
  restart may find nothing of what the event log was told since then
- a producer may send a duplicate of a message that a part has yet to bring. Its receipt waits for
  that part, and so do the promises of later batches, which are kept in order (`behind`)
- a message that is removed before its part joins is taken out of the part (`MessageStore.withdraw`)
- the part's bytes are counted as unwritten when the part joins: until then no disk is behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.core.model.entry import Entry
    from covey.core.queue.queue import Queue


class Batch:
    """The changes of one turn."""

    __slots__ = (
        "behind",
        "can_wait",
        "entries",
        "handed_at",
        "parts",
        "reserved",
        "size",
        "spilled",
        "spilled_size",
    )

    def __init__(self) -> None:
        self.can_wait = False  # it only forgets what was settled, and nobody waits for it
        self.handed_at = 0.0  # when it was given to the store
        self.size = 0  # as `Overload` counts it
        self.spilled_size = 0
        self.entries: list[tuple[Queue, Entry]] = []
        self.spilled: list[tuple[Queue, Entry]] = []
        self.reserved: list[tuple[Queue, int]] = []
        self.parts: list[BatchPart] = []  # those that have joined it
        self.behind: list[BatchPart] = []  # those that its promises wait for

    def is_awaited(self) -> bool:
        """Return True if entries, numbers or memory wait for it."""
        return bool(self.entries or self.spilled or self.reserved or self.parts or self.behind)

    def tell_stored(self) -> None:
        """Tell the listeners of each queue that the disk has its messages."""
        for queue, entry in self.entries:
            events = queue.state.events
            if events is not None:
                events.stored(entry.seq)


class BatchPart:
    """What a long commit changes, until it joins a batch."""

    __slots__ = ("batch", "is_safe", "number", "position")

    def __init__(self, number: int, position: int) -> None:
        self.number = number  # the store's number of the part
        self.position = position  # of the event log when the part began
        self.batch = Batch()
        self.is_safe = False  # the disk has it
