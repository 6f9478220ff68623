"""Dealing: which worker process serves which virtual host.

Virtual hosts are dealt evenly, in the order of the configuration: no worker has two more than
another. One that has a worker keeps it, whatever comes by a reload, for its messages are in that
worker's memory. The same table and the same virtual hosts are always dealt the same way, so every
process works it out for itself. A worker that is started again gets the table from the parent.

    a b c d e  over two workers       0: a c e   1: b d
    and f comes by a reload           0: a c e   1: b d f
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Table = Mapping[str, int]


def deal(spaces: Iterable[str], table: Table, count: int) -> dict[str, int]:
    """Return the table with virtual hosts that it lacks, each at the worker that has fewest.

    Of several workers that have fewest, it is the first.
    """
    dealt = dict(table)
    loads = [0] * count
    for worker in dealt.values():
        loads[worker] += 1
    for space in spaces:
        if space not in dealt:
            worker = loads.index(min(loads))
            dealt[space] = worker
            loads[worker] += 1
    return dealt


@dataclass(slots=True)
class Seat:
    """A worker's place among the others."""

    number: int
    """Its own; they are counted from 0."""
    count: int
    """How many there may be."""
    table: Table
    """Who serves what, as far as it was dealt; a reload replaces it."""
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    """What the workers of one parent have in common; nobody else can guess it."""

    def is_ours(self, space: str) -> bool:
        """Say whether this worker serves a virtual host."""
        return self.table.get(space) == self.number

    @property
    def others(self) -> list[int]:
        """Return the numbers of the workers that serve something, but this one."""
        return sorted({worker for worker in self.table.values() if worker != self.number})

    def address(self, worker: int) -> str:
        """Return where a worker hears the others: a name that is no file's (unix(7))."""
        return f"\0covey-{self.name}-{worker}"
