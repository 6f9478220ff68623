# Compiled by mypyc: see setup.py.
"""Batch: what the core has to do once changes are on disk; the changes themselves are the store's.

A turn's changes are one batch. A long commit of a client is carried out in portions, in many turns.
What it changes is gathered as a `BatchPart`, which joins one batch at the end: it is on disk whole
or not at all. Its entries are shown by whoever carries it out. What goes to the disk meanwhile
knows nothing of it, so

- the event log's position, which the store remembers, stays where it was before the part: a restart
  may find nothing of what was told since then
- who is told that a message is here already, which a part is to bring, waits for that part, and so
  do the promises of later batches, which are kept in order (`behind`)
- a message that goes before its part has come is taken out of the part (`MessageStore.withdraw`)
- room in memory and on disk is counted when the part joins: what is gathered waits for no disk yet.
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
        "entries",
        "handed_at",
        "parts",
        "reserved",
        "size",
        "spilled",
        "spilled_size",
    )

    def __init__(self) -> None:
        self.handed_at = 0.0  # when it was given to the store
        self.size = 0  # as `Overload` counts it
        self.spilled_size = 0
        self.entries: list[tuple[Queue, Entry]] = []
        self.spilled: list[tuple[Queue, Entry]] = []
        self.reserved: list[tuple[Queue, int]] = []
        self.parts: list[BatchPart] = []  # that have joined it
        self.behind: list[BatchPart] = []  # that its promises wait for


class BatchPart:
    """What a long commit changes, until it joins a batch."""

    __slots__ = ("batch", "is_safe", "number", "position")

    def __init__(self, number: int, position: int) -> None:
        self.number = number  # the store's
        self.position = position  # of the event log when it began
        self.batch = Batch()
        self.is_safe = False  # the disk has it
