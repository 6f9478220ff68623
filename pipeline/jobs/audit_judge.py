"""Judge: judges the groups of one task, one after the other.

Spark brings the events of a group together, in their order, and spills to disk what does not fit
into memory (`audit`). A task reads them in pieces of some hundred thousand rows. A group may have
any length: one that is longer than a piece goes through its `Fold` piece by piece.

Among the groups that fit into a piece, a sieve drops those that are plainly innocent
(`audit_sieve`). Each of the others goes through a `Fold` (`audit_fold`), event by event. Each task
first gets the events of whole queues (`audit_story`), since every group must know them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from covey.pipeline.event_log.histories import History
from covey.pipeline.jobs.audit_fold import Fold
from covey.pipeline.jobs.audit_rules import Violation
from covey.pipeline.jobs.audit_sieve import QUEUE_PART, Key, Piece
from covey.pipeline.jobs.audit_story import Story

PIECE_ROWS: Final = 200_000  # judged at a time; they take some 100 MB of a task's memory
STATE_KIND: Final = -1  # not an event: the state that an earlier audit has saved of the group
SAVED: Final = "(state)"  # not a violation: the state that a later audit must know of the group
UNJUDGED: Final = "cannot-be-judged"

# The columns of a task's rows, which are sorted by all columns up to the position.
ROWS_SCHEMA: Final = (
    "slot long, history int, name string, group_id string, part int, pos long,"
    " kind int, consumer long, seq long, persistent boolean, state string"
)
ROW_NAMES: Final = [part.split()[0] for part in ROWS_SCHEMA.split(",")]
ROWS_ARROW: Final = pa.schema(
    [
        ("slot", pa.int64()),
        ("history", pa.int32()),
        ("name", pa.string()),
        ("group_id", pa.string()),
        ("part", pa.int32()),
        ("pos", pa.int64()),
        ("kind", pa.int32()),
        ("consumer", pa.int64()),
        ("seq", pa.int64()),
        ("persistent", pa.bool_()),
        ("state", pa.string()),
    ]
)
FOUND_SCHEMA: Final = (
    "violation string, run string, queue string, group_id string, eid long, seq long,"
    " consumer long, detail string, part int"
)
FOUND_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("violation", "run", "queue", "group_id")),
        *((name, pa.int64()) for name in ("eid", "seq", "consumer")),
        ("detail", pa.string()),
        ("part", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Book:
    """What the driver tells every task."""

    histories: list[History]
    is_incremental: bool = False  # later calls go on: save the groups' states
    settled: dict[int, int] = field(default_factory=dict)
    """By history: the position before which all that must follow is in the log by now."""
    known: dict[str, int] = field(default_factory=dict)  # by history/queue: above all numbers


class Judge:
    """Takes sorted rows, piece by piece."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.queues: dict[tuple[int, str], Story] = {}
        self.found: list[tuple[object, ...]] = []
        self._open: tuple[Key, Fold] | None = None
        self._rest: pa.Table | None = None

    def take(self, table: pa.Table, *, is_last: bool) -> None:
        """Judge all groups that are complete in this piece; keep the rest for the next piece."""
        if self._rest is not None:
            table = pa.concat_tables([self._rest, table])
            self._rest = None
        piece = Piece(table)
        for number, begin in enumerate(piece.starts):
            if piece.part[begin] != QUEUE_PART:
                break
            self._tell(piece.rows(number))
        groups = [n for n, begin in enumerate(piece.starts) if piece.part[begin] != QUEUE_PART]
        if self._open is not None:
            if groups and piece.key(groups[0]) == self._open[0]:
                self._feed(self._open[1], piece.rows(groups.pop(0)))
                self._take_out(*self._open)
            if groups or is_last:
                self._close(*self._open)
                self._open = None
        if groups and not is_last:
            self._keep_last(piece, groups.pop())
        if groups:
            self._judge(piece, groups[0], groups[-1] + 1)

    def _keep_last(self, piece: Piece, number: int) -> None:
        """Keep the last group, which may go on in the next piece; a long one is judged so far."""
        begin, end = piece.starts[number], piece.ends[number]
        rows = piece.table.slice(begin, end - begin)
        if rows.num_rows < PIECE_ROWS:
            self._rest = rows
            return
        key = piece.key(number)
        fold = self._fold(key)
        self._feed(fold, rows)
        self._open = (key, fold)

    def _tell(self, rows: pa.Table) -> None:
        """Take the events of whole queues."""
        names = ("history", "name", "state", "pos", "kind", "consumer", "seq")
        columns = [rows[name].to_pylist() for name in names]
        for history, name, text, pos, kind, consumer, seq in zip(*columns, strict=True):
            self._story(history, name).take(pos, kind, text, consumer, seq)

    def _story(self, history: int, name: str) -> Story:
        story = self.queues.get((history, name))
        if story is None:
            known = self.book.histories[history]
            given = self.book.known.get(f"{history}/{name}", 0)
            story = self.queues[history, name] = Story(
                known, given, goes_on=self.book.is_incremental
            )
        return story

    def _fold(self, key: Key) -> Fold:
        queue = self._story(key.history, key.name).surroundings
        return Fold(queue, is_grouped=key.group != "")

    def _feed(self, fold: Fold, rows: pa.Table) -> None:
        names = ("pos", "kind", "consumer", "seq", "persistent", "state")
        for pos, kind, consumer, seq, persistent, state in zip(
            *(rows[name].to_pylist() for name in names), strict=True
        ):
            if kind == STATE_KIND:
                fold.load(json.loads(state))
            else:
                fold.take(pos, kind, consumer, seq, bool(persistent))

    def _take_out(self, key: Key, fold: Fold) -> None:
        """Move what a fold has found so far to `found`, so that a long group's fold stays small."""
        for violation in fold.violations:
            self._add(key, violation)
        for violation in fold.unjudged:
            self._add(key, violation._replace(kind=UNJUDGED))
        fold.violations, fold.unjudged = [], []

    def _close(self, key: Key, fold: Fold) -> None:
        book = self.book
        if book.is_incremental:
            fold.finish(book.settled.get(key.history, 0))
            if not fold.is_idle:
                self._add(key, Violation(SAVED, 0, 0, 0, json.dumps(fold.saved())))
        else:
            fold.finish()
        self._take_out(key, fold)

    def _add(self, key: Key, violation: Violation) -> None:
        history = self.book.histories[key.history]
        kind, pos, seq, consumer, detail = violation
        run, eid = (str(key.history), 0) if kind == SAVED else history.place_of(pos)
        queue = key.name if kind == SAVED else history.prefix + key.name
        self.found.append((kind, run, queue, key.group, eid, seq, consumer, detail, key.part))

    def _judge(self, piece: Piece, first: int, end: int) -> None:
        """Judge groups that are complete."""
        for number in piece.suspects(first, end, self._story):
            key = piece.key(number)
            fold = self._fold(key)
            self._feed(fold, piece.rows(number))
            self._close(key, fold)

    @property
    def rest(self) -> pa.Table | None:
        """Return the rows kept for the next piece; an empty table if a long group's fold waits."""
        if self._rest is None and self._open is not None:
            return ROWS_ARROW.empty_table()
        rest, self._rest = self._rest, None
        return rest

    def results(self) -> pa.RecordBatch | None:
        """Return what was found since the last call."""
        if not self.found:
            return None
        columns = zip(*self.found, strict=True)
        arrays = [
            pa.array(list(column), one.type)
            for column, one in zip(columns, FOUND_ARROW, strict=True)
        ]
        self.found = []
        return pa.RecordBatch.from_arrays(arrays, schema=FOUND_ARROW)


def judge_rows(batches: Iterable[pa.RecordBatch], book: Book) -> Iterator[pa.RecordBatch]:
    """Judge the sorted rows of one task; yield what is found, as soon as it is found."""
    judge = Judge(book)
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= PIECE_ROWS:
            judge.take(pa.Table.from_batches(waiting), is_last=False)
            waiting, rows = [], 0
            found = judge.results()
            if found is not None:
                yield found
    table = pa.Table.from_batches(waiting) if waiting else judge.rest
    if table is not None:
        judge.take(table, is_last=True)
    found = judge.results()
    if found is not None:
        yield found
