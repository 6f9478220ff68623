"""Judge: all groups of one share, and what is wrong with them.

A sieve lets go of the groups that are plainly innocent. Each of the others goes through a `Fold`
(`audit_rules`), event by event. A violation is shown with its evidence: the events of its group
around it.

A group passes the sieve if all of this is true:
- its messages were enqueued, delivered and acknowledged, each of it at most once;
- this was done by a consumer that never left, in the order of their numbers;
- the consumer changed only while nothing was unsettled.

Whatever else happened (a release, an expiry, a selector) may be right as well, but it takes a
`Fold` to say so. So a group that passes is innocent, and one that does not is only suspect. The
sieve is arithmetic on whole columns: a Fold costs 2 us an event, the sieve a tenth of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from covey.core.events.event import KIND_NAMES, EventKind
from covey.pipeline.event_log.partition import (
    KEY,
    QUEUE_KINDS,
    Dealt,
    Flags,
    Numbers,
    coded,
    gather,
)
from covey.pipeline.jobs.audit_rules import ACK, DELIVER, ENQUEUE, Fold, Surroundings, Violation
from covey.pipeline.report import Report, Span, holdings


class Sorted:
    """Events sorted by group and, within a group, by their ids; groups are 0, 1, 2, ..."""

    def __init__(self, group: Numbers, kind: Numbers, consumer: Numbers, seq: Numbers) -> None:
        self.group = group
        self.kind = kind
        self.consumer = consumer
        self.seq = seq
        self.is_delivery = kind == DELIVER


def suspects(events: Sorted, is_grouped: Flags, is_doubtful: Flags) -> Flags:
    """Say for each group whether it needs a judge; doubtful events alone make it so."""
    is_bad = np.zeros(len(is_grouped), bool)
    is_bad[events.group[is_doubtful]] = True
    is_bad[_lives_that_differ(events)] = True
    is_bad[_numbers_not_rising(events)] = True
    is_unordered = np.zeros(len(is_grouped), bool)
    is_unordered[_out_of_turn(events, len(is_grouped))] = True
    is_unordered[_shared(events)] = True
    result: Flags = is_bad | (is_unordered & is_grouped)
    return result


def _lives_that_differ(events: Sorted) -> Numbers:
    """Return groups of messages whose life is not enqueue, deliver, ack, or its beginning."""
    by_message = np.lexsort((events.seq, events.group))  # stable: ids keep their order
    group, seq = events.group[by_message], events.seq[by_message]
    kind, consumer = events.kind[by_message], events.consumer[by_message]
    is_same = np.zeros(len(group), bool)
    is_same[1:] = (group[1:] == group[:-1]) & (seq[1:] == seq[:-1])
    before = np.zeros_like(kind)
    before[1:] = kind[:-1]
    holder = np.zeros_like(consumer)
    holder[1:] = consumer[:-1]
    begins = ~is_same & (kind == ENQUEUE)
    goes = is_same & (before == ENQUEUE) & (kind == DELIVER) & (consumer > 0)
    ends = is_same & (before == DELIVER) & (kind == ACK) & (consumer == holder)
    found: Numbers = group[~(begins | goes | ends)]
    return found


def _numbers_not_rising(events: Sorted) -> Numbers:
    """Return groups that got a smaller number after a larger one."""
    is_enqueue = events.kind == ENQUEUE
    group, seq = events.group[is_enqueue], events.seq[is_enqueue]
    found: Numbers = group[1:][(group[1:] == group[:-1]) & (seq[1:] <= seq[:-1])]
    return found


def _out_of_turn(events: Sorted, groups: int) -> Numbers:
    """Return groups whose n-th delivery is not their n-th message."""
    is_enqueue = events.kind == ENQUEUE
    enqueued, messages = events.group[is_enqueue], events.seq[is_enqueue]
    delivered, taken = events.group[events.is_delivery], events.seq[events.is_delivery]
    first = np.searchsorted(enqueued, np.arange(groups))
    turn = np.arange(len(delivered)) - np.searchsorted(delivered, delivered)
    if not len(messages):
        every: Numbers = delivered
        return every
    place = np.minimum(first[delivered] + turn, len(messages) - 1)
    found: Numbers = delivered[(messages[place] != taken) | (enqueued[place] != delivered)]
    return found


def _shared(events: Sorted) -> Numbers:
    """Return groups that went to another consumer while something was unsettled."""
    step = np.where(events.is_delivery, 1, np.where(events.kind == ACK, -1, 0))
    unsettled = np.cumsum(step) - step  # before each event, counted over all groups
    at = np.flatnonzero(events.is_delivery)
    group, consumer = events.group[at], events.consumer[at]
    of_earlier_groups = unsettled[np.searchsorted(events.group, group)]
    is_other = np.zeros(len(at), bool)
    is_other[1:] = (group[1:] == group[:-1]) & (consumer[1:] != consumer[:-1])
    found: Numbers = group[is_other & (unsettled[at] != of_earlier_groups)]
    return found


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


SETTLING: Final = (EventKind.ACK, EventKind.RELEASE, EventKind.FAIL, EventKind.REJECT)


class Event(NamedTuple):
    """One event of a group."""

    eid: int
    kind: int
    consumer: int
    seq: int
    ts: datetime


class Proven(NamedTuple):
    """A violation with its evidence, as the table has it."""

    violation: str
    run: str
    queue: str
    group_id: str
    eid: int
    seq: int
    consumer: int
    detail: str
    evidence: list[Event]


def show(report: Report, proven: Proven) -> None:
    """Put a violation and the events around it on the page."""
    group = f" group {proven.group_id}" if proven.group_id else ""
    place = f"queue {proven.queue}{group} message {proven.seq}" if proven.queue else "log"
    report.verdict(f"{proven.violation}: {place}: {proven.detail}", is_good=False)
    if not proven.evidence:
        return
    report.table(
        ("", "event", "time", "what", "message", "consumer"),
        [
            (
                "->" if event.eid == proven.eid else "",
                event.eid,
                str(event.ts),
                KIND_NAMES.get(event.kind, str(event.kind)),
                event.seq or None,
                event.consumer or None,
            )
            for event in proven.evidence
        ],
    )


def draw(report: Report, proven: Proven) -> None:
    """Draw who held what around a violation, if more than one message was held."""
    spans = held_spans(proven.evidence)
    if len(spans) > 1:
        report.figure(holdings(spans, "event id"), "who held which message, by event id")


def held_spans(events: list[Event]) -> list[Span]:
    """Return who held which message from which event to which."""
    since: dict[tuple[int, int], int] = {}
    spans = []
    for event in events:
        if event.kind == EventKind.DELIVER:
            since[event.seq, event.consumer] = event.eid
        elif event.kind in SETTLING:
            start = since.pop((event.seq, event.consumer), events[0].eid)
            spans.append(Span(f"message {event.seq}", event.consumer, start, event.eid))
    for (seq, consumer), start in since.items():
        spans.append(Span(f"message {seq}", consumer, start, events[-1].eid + 1))
    return sorted(spans)
