"""Dealing: which worker process serves which virtual host.

Virtual hosts are dealt evenly, in the order of the configuration: no worker has two more than
another. A virtual host keeps its worker whatever a reload adds, because its messages are in that
worker's memory. The same table and the same virtual hosts always give the same result, so every
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
    """Return the table with the missing virtual hosts added, each to the worker with the fewest.

    If several workers have equally few, the first of them gets it.
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
        """Return True if this worker serves the virtual host."""
        return self.table.get(space) == self.number

    @property
    def others(self) -> list[int]:
        """Return the numbers of the other workers that serve at least one virtual host."""
        return sorted({worker for worker in self.table.values() if worker != self.number})

    def address(self, worker: int) -> str:
        """Return the address of a worker's socket, in the abstract namespace of unix(7)."""
        return f"\0covey-{self.name}-{worker}"
