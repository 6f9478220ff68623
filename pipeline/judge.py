"""Judge: all groups of one share, and what is wrong with them.

The sieve lets go of the groups that are plainly innocent; each of the others goes through a
`Fold`, event by event. A violation comes with its evidence, the events of its group around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from covey.core.events import EventKind
from covey.pipeline.fold import Fold, Surroundings, Violation
from covey.pipeline.share import KEY, QUEUE_KINDS, Dealt, Flags, Numbers, coded, gather
from covey.pipeline.sieve import Sorted, suspects

EVIDENCE_EACH_SIDE: Final = 3  # events of the group before and after
EVIDENCE_MAX: Final = 100  # violations of a share with their evidence: a report shows no more

EVENT_ARROW: Final = pa.struct(
    [
        *((name, pa.int64()) for name in ("eid", "kind", "consumer", "seq")),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
FOUND_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("violation", *KEY)),
        *((name, pa.int64()) for name in ("eid", "seq", "consumer")),
        ("detail", pa.string()),
        ("evidence", pa.list_(EVENT_ARROW)),
    ]
)


class Found(NamedTuple):
    """A violation, whose it is, and where its group's events are in the share."""

    violation: Violation
    key: tuple[str, str, str]
    begin: int
    end: int


class Share:
    """The events of one share, sorted by group and id."""

    def __init__(self, table: pa.Table) -> None:
        runs, self.runs = coded(table["run"])
        queues, self.queues = coded(table["queue"])
        groups, self.groups = coded(table["group_id"])
        self.place = runs * max(1, len(self.queues)) + queues
        key = self.place * max(1, len(self.groups)) + groups
        kinds = table["kind"].to_numpy().astype("i8")
        self.is_about_queue = np.isin(kinds, [int(kind) for kind in QUEUE_KINDS])
        order = np.lexsort((table["eid"].to_numpy(), key, self.is_about_queue))
        self.messages = int(len(order) - self.is_about_queue.sum())
        self.table = table.take(pa.array(order))
        self.place = self.place[order]
        self.key = key[order]
        self.eid, self.kind, self.consumer, self.seq = (
            self.table[name].to_numpy().astype("i8") for name in ("eid", "kind", "consumer", "seq")
        )

    def key_at(self, row: int) -> tuple[str, str, str]:
        """Return run, queue and group of an event."""
        place, group = divmod(int(self.key[row]), len(self.groups))
        run, queue = divmod(place, len(self.queues))
        return self.runs[run], self.queues[queue], self.groups[group]

    def surroundings(self, begins_whole: dict[str, bool]) -> dict[int, Surroundings]:
        """Return what is known of each queue by its place."""
        found: dict[int, Surroundings] = {}
        for place in np.unique(self.place).tolist():
            run = self.runs[place // len(self.queues)]
            found[place] = Surroundings(begins_whole=begins_whole[run])
        rows = np.arange(self.messages, len(self.eid))
        for row in rows[np.argsort(self.eid[rows])].tolist():
            around = found[int(self.place[row])]
            eid, kind = int(self.eid[row]), int(self.kind[row])
            if kind == EventKind.DELETE:
                around.deletes.append(eid)
            else:
                change = (eid, kind == EventKind.JOIN)
                around.changes.setdefault(int(self.consumer[row]), []).append(change)
        return found

    def doubtful(self) -> Flags:
        """Say of which message's events a queue's end or a consumer's leave makes us look."""
        rest = slice(self.messages, None)
        deleted = self.place[rest][self.kind[rest] == EventKind.DELETE]
        has_left = self.kind[rest] == EventKind.LEAVE
        leavers = (self.place[rest] << 32 | self.consumer[rest])[has_left]
        front = slice(0, self.messages)
        who = self.place[front] << 32 | self.consumer[front]
        is_doubtful: Flags = np.isin(who, leavers) | np.isin(self.place[front], deleted)
        return is_doubtful


def judge(dealt: Iterable[Dealt], begins_whole: dict[str, bool]) -> pa.Table:
    """Return every broken promise of one share, the earliest first."""
    table = gather(dealt)
    if not table.num_rows:
        return FOUND_ARROW.empty_table()
    share = Share(table)
    found = sorted(_find(share, begins_whole), key=lambda one: (one.key[0], one.violation.eid))
    rows = []
    for number, (violation, key, begin, end) in enumerate(found):
        evidence = _evidence(share, violation.eid, begin, end) if number < EVIDENCE_MAX else []
        rows.append((violation.kind, *key, *violation[1:], evidence))
    if not rows:
        return FOUND_ARROW.empty_table()
    arrays = [
        pa.array(list(column), field.type)
        for column, field in zip(zip(*rows, strict=True), FOUND_ARROW, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=FOUND_ARROW)


def _find(share: Share, begins_whole: dict[str, bool]) -> Iterator[Found]:
    key = share.key[: share.messages]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    ends = np.append(starts[1:], share.messages)
    plain = share.groups.index("") if "" in share.groups else -1
    is_grouped = key[starts] % max(1, len(share.groups)) != plain
    group = np.repeat(np.arange(len(starts)), ends - starts)
    front = slice(0, share.messages)
    events = Sorted(group, share.kind[front], share.consumer[front], share.seq[front])
    queues = share.surroundings(begins_whole)
    for number in np.flatnonzero(suspects(events, is_grouped, share.doubtful())).tolist():
        begin, end = int(starts[number]), int(ends[number])
        fold = Fold(queues[int(share.place[begin])], is_grouped=bool(is_grouped[number]))
        _judge_group(fold, share, begin, end)
        for violation in fold.violations:
            yield Found(violation, share.key_at(begin), begin, end)


def _judge_group(fold: Fold, share: Share, begin: int, end: int) -> None:
    columns: list[Numbers] = [share.eid, share.kind, share.consumer, share.seq]
    for event in zip(*[column[begin:end].tolist() for column in columns], strict=True):
        fold.take(*event)
    fold.finish()


def _evidence(share: Share, eid: int, begin: int, end: int) -> list[dict[str, object]]:
    """Return the events of a group around one, which may be its queue's and not its own."""
    centre = begin + int(np.searchsorted(share.eid[begin:end], eid, "right")) - 1
    first = max(begin, centre - EVIDENCE_EACH_SIDE)
    last = min(end, centre + EVIDENCE_EACH_SIDE + 1)
    around = share.table.select([field.name for field in EVENT_ARROW]).slice(first, last - first)
    rows: list[dict[str, object]] = around.to_pylist()
    return rows
