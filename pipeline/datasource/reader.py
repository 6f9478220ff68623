"""Readers: what Spark calls to read queues, in one go or batch by batch.

The driver asks where the queues begin and end, and cuts what lies between into ranges. Each task
browses its range over a connection of its own. A browse takes nothing from the queue, so a range
that is read again after a failure gives the same rows. Driver and tasks wait for a broker that is
away for a while (`patience`).

Only a stream's checkpoint says what was processed. Spark calls `latestOffset` with the end of the
last batch once that batch is in Spark's commit log. So `latestOffset` is where `commit=trim`
removes the messages before that end. `commit` would come too late: Spark calls it when the next
batch is planned, and never after the last one.

Spark sends readers and ranges to its workers. So they hold options and numbers, but no connection.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from re import error as PatternError
from re import fullmatch
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from covey.client.errors import UnreachableError
from covey.pipeline.datasource.client import QueueClient, asked, first_of, said_by_option
from covey.pipeline.datasource.columns import BatchMaker, Told
from covey.pipeline.datasource.filters import Pushed, push
from covey.pipeline.datasource.offsets import (
    Figures,
    Offsets,
    Range,
    limited,
    losses,
    not_beyond,
    ranges,
    resolve,
    rows_between,
    rows_of_bytes,
    split,
)
from covey.pipeline.datasource.options import ReadOptions
from covey.pipeline.datasource.patience import Absence
from covey.pipeline.errors import PipelineError


class BatchReader(DataSourceReader):
    """Reads the messages that the queues have now, or a part of them."""

    def __init__(self, options: ReadOptions, cores: int = 0) -> None:
        self.options = options
        self.cores = cores
        self.pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """Cut what lies between the two offsets into ranges."""
        options = self.options
        figures = ask_all(options)
        start = starting(options, figures)
        end = resolve("endingOffsets", options.ending, figures)
        if not isinstance(options.starting, str):
            check_losses(options, start, figures)
        found = [
            self.pushed.narrowed(one)
            for one in ranges(start, end, figures)
            if self.pushed.admits(one.queue)
        ]
        return _partitions(options, [one for one in found if one.rows], self.cores)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        selector = self.pushed.selector(self.options.selector)
        return read_ranges(self.options, partition.value or (), selector)


class FilteringReader(BatchReader):
    """Reads less if filters allow it; Spark refuses this class while filter pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Use the filters that the broker can apply; return all of them for Spark as well."""
        self.pushed = push(filters, self.options.group_header)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the messages that come, from one offset to the next."""

    def __init__(self, options: ReadOptions, cores: int = 0) -> None:
        self.options = options
        self.cores = cores
        self._initial: Offsets | None = None
        self._target: Offsets | None = None  # where a query ends that reads what is there
        self._few_since: float | None = None  # since when there are too few messages for a batch

    def initialOffset(self) -> Offsets:
        """Return where a new query begins; every call must return the same."""
        if self._initial is None:
            figures = ask_all(self.options)
            self._initial = starting(self.options, figures)
            if not isinstance(self.options.starting, str):
                check_losses(self.options, self._initial, figures)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember where the queues end now."""
        self._target = self.reportLatestOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options ask for."""
        if self.options.rows_max:
            return ReadMaxRows(self.options.rows_max)
        if self.options.bytes_max:
            return ReadMaxBytes(self.options.bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Offsets:
        """Return where the next batch ends; all messages before `start` are processed."""
        figures = ask_all(self.options, start, trims=self.options.is_trimming)
        end = {queue: known.end for queue, known in figures.items()}
        if self._target is not None:
            end = not_beyond(self._target, end, start)
        elif self._are_too_few(rows_between(start, end, figures), time.monotonic()):
            return start
        if isinstance(limit, ReadMaxRows):
            return limited(start, figures, end, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            rows = rows_of_bytes(figures.values(), limit.max_bytes)
            return limited(start, figures, end, rows)
        return end

    def _are_too_few(self, rows: int, now: float) -> bool:
        """Return True if a batch should wait for more messages."""
        if rows >= self.options.rows_min:
            self._few_since = None
            return False
        if self._few_since is None:
            self._few_since = now
        if now - self._few_since < self.options.delay_s:
            return True
        self._few_since = None
        return False

    def reportLatestOffset(self) -> Offsets:
        """Return where the queues end, for the query's progress."""
        return {queue: known.end for queue, known in ask_all(self.options).items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into ranges, if all of it is still there."""
        figures = ask_all(self.options, {**start, **end})
        check_losses(self.options, start, figures)
        return _partitions(self.options, ranges(start, end, figures), self.cores)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        return read_ranges(self.options, partition.value or (), self.options.selector)


def ask_all(
    options: ReadOptions, processed: Offsets | None = None, *, trims: bool = False
) -> dict[str, Figures]:
    """Return the figures of every queue that is read, and of those in `processed`."""

    def ask(client: QueueClient) -> dict[str, Figures]:
        if trims and processed:
            for queue, offset in processed.items():
                client.trim(queue, offset)
        return client.figures_of([*_queues(options, client), *(processed or ())])

    return asked(options.places, options.patience, _what_is_read(options), ask)


def starting(options: ReadOptions, figures: dict[str, Figures]) -> Offsets:
    """Return where a new query begins in each queue."""
    if not options.starting_ms:
        return resolve("startingOffsets", options.starting, figures)
    return {queue: _first_since(options, queue, known) for queue, known in figures.items()}


def _first_since(options: ReadOptions, queue: str, known: Figures) -> int:
    """Return the number of the first message that is not older than the time asked for.

    Numbers rise with time, so this is a binary search. If a message has no time, the next one with
    a time is used instead.
    """
    first, end = known.first, known.end
    is_timed = not known.messages
    while first < end:
        middle = (first + end) // 2
        found = asked(
            options.places,
            options.patience,
            _what_is_read(options),
            partial(_time_from, queue=queue, first=middle, end=end),
        )
        is_timed = is_timed or found is not None
        if found is None or found[1] >= options.starting_ms * 1000:
            end = middle
        else:
            first = found[0] + 1
    if not is_timed:
        raise PipelineError(
            f"startingTimestamp: no message of queue {queue} has a header timestamp; the setting"
            " add_timestamp_header lets the broker write one"
        )
    return first


def _time_from(client: QueueClient, queue: str, first: int, end: int) -> tuple[int, int] | None:
    """Return number and time (us) of the first message of a range that has a time."""
    for rows in client.browse(queue, first, end):
        for seq, theirs in zip(rows.seqs, rows.theirs, strict=True):
            time_us = Told(theirs, ()).time_us
            if time_us is not None:
                return seq, time_us
    return None


def _what_is_read(options: ReadOptions) -> tuple[str, str]:
    if options.pattern:
        return "subscribePattern", options.pattern
    return "subscribe", ",".join(options.subscribe)


def _queues(options: ReadOptions, client: QueueClient) -> list[str]:
    if not options.pattern:
        return list(options.subscribe)
    try:
        found = [name for name in client.queues() if fullmatch(options.pattern, name)]
    except PatternError as error:
        raise PipelineError(
            f"subscribePattern={options.pattern}: no regular expression: {error}"
        ) from None
    return sorted(found)


def check_losses(options: ReadOptions, start: Offsets, figures: dict[str, Figures]) -> None:
    """Raise PipelineError, or warn, if messages are lost that were not read."""
    lost = "; ".join(losses(start, figures))
    if not lost:
        return
    if options.fails_on_loss:
        raise PipelineError(
            f"failOnDataLoss=true: {lost}. Set failOnDataLoss=false to go on with what is there"
        )
    warnings.warn(f"failOnDataLoss=false: {lost}", stacklevel=2)


def _partitions(options: ReadOptions, parts: list[Range], cores: int) -> list[InputPartition]:
    known = cores or os.cpu_count() or 1
    return [InputPartition(one) for one in split(parts, options.partitions_min, known)]


def read_ranges(
    options: ReadOptions, parts: Sequence[Range], selector: str
) -> Iterator[pa.RecordBatch]:
    """Browse the ranges of a task, over one connection as long as it can be used again.

    If there is nothing to read, Spark makes up a partition without a range. If the broker goes
    away, the next connection goes on behind the last message that has come.
    """
    waiting = deque(parts)
    absence = Absence(options.patience)
    with said_by_option(options.places, *_what_is_read(options)):
        while waiting:
            try:
                with first_of(options.places) as client:
                    while waiting and not client.is_spent:
                        yield from _read_next(client, options, waiting, selector, absence)
            except UnreachableError as error:
                absence.wait(error)


def _read_next(
    client: QueueClient,
    options: ReadOptions,
    waiting: deque[Range],
    selector: str,
    absence: Absence,
) -> Iterator[pa.RecordBatch]:
    """Browse the first range; messages that came are cut off from it, even if an error follows."""
    part = waiting[0]
    maker = BatchMaker(
        part.queue,
        options.group_header,
        options.batch_rows,
        has_headers=options.has_headers,
        has_value=options.has_value,
    )
    try:
        for rows in client.browse(part.queue, part.first, part.end, selector):
            absence.end()
            maker.add(rows)
            if rows.seqs:
                waiting[0] = Range(part.queue, rows.seqs[-1] + 1, part.end)
            if maker.is_full:
                yield from maker.take()
    except UnreachableError:
        yield from maker.take()
        raise
    waiting.popleft()
    yield from maker.take()
