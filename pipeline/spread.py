"""Spread: groups whose rows were sent by more than one task, so that their order is chance.

A sink cannot ask Spark to bring a group's rows together; its user has to (`sink.in_groups`). It can
notice: each task tells which groups it has sent, and the driver looks for those that two of them
name. A task with very many groups tells a sample, the same part of all names in every task, so that
two which share their groups share their samples, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

NAMES_MAX: Final = 5_000  # of one task: some 100 kB on their way to the driver
SHOWN_MAX: Final = 3

Groups = frozenset[tuple[str, str]]  # queue and group
NO_GROUPS: Final[Groups] = frozenset()


def groups_in(queues: pa.Array, groups: pa.Array) -> Groups:
    """Return the groups that rows belong to, by queue; rows without one belong to none."""
    table = pa.table({"queue": queues, "group": pc.cast(groups, pa.string())})
    named = table.filter(pc.greater(pc.binary_length(table["group"]), 0))
    found = named.group_by(["queue", "group"]).aggregate([])
    names = zip(found["queue"].to_pylist(), found["group"].to_pylist(), strict=True)
    return frozenset(names)


def sampled(groups: Groups) -> Groups:
    """Return all groups, or that part of very many which every task would choose."""
    if len(groups) <= NAMES_MAX:
        return groups
    return frozenset(nsmallest(NAMES_MAX, groups, key=_lot))


def complaint(tasks: Iterable[Groups]) -> str:
    """Say which groups several tasks have sent; "" if none."""
    counts = Counter(group for groups in tasks for group in groups)
    shared = sorted(group for group, count in counts.items() if count > 1)
    if not shared:
        return ""
    names = ", ".join(f"{group} of {queue}" for queue, group in shared[:SHOWN_MAX])
    more = f" and {len(shared) - SHOWN_MAX:,} more" if len(shared) > SHOWN_MAX else ""
    return (
        f"groups were sent by more than one task, so their order is not kept: {names}{more}. Bring"
        " each group into one partition: covey.pipeline.sink.in_groups(frame)"
    )


def _lot(group: tuple[str, str]) -> int:
    return crc32("\0".join(group).encode("utf-8", "replace"))
