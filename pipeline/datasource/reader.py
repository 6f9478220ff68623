"""Readers: what Spark calls to read queues, in one go or batch by batch.

The driver asks where the queues begin and end, and cuts what lies between into ranges. Each task
browses its range over a connection of its own. Nothing is taken from the queue, so a range that is
read again after a failure gives the same rows.

A stream's checkpoint alone says what was processed. Spark calls `latestOffset` with the end of the
last batch once that batch is in Spark's commit log. So `commit=trim` lets the broker forget there
what lies before. `commit` would come too late: Spark calls it when the next batch is planned, and
never after the last one.

Readers and ranges travel to the workers: they hold options and numbers, no connection.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
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

from covey.pipeline.datasource.client import QueueClient, connected
from covey.pipeline.datasource.columns import BatchMaker
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
    rows_of_bytes,
    split,
)
from covey.pipeline.datasource.options import ReadOptions
from covey.pipeline.errors import PipelineError


class BatchReader(DataSourceReader):
    """Reads what the queues hold now, or a part of it."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """Cut what lies between the two offsets into ranges."""
        options = self.options
        figures = ask_all(options)
        start = resolve("startingOffsets", options.starting, figures)
        end = resolve("endingOffsets", options.ending, figures)
        if not isinstance(options.starting, str):
            check_losses(options, start, figures)
        found = [
            self.pushed.narrowed(one)
            for one in ranges(start, end, figures)
            if self.pushed.admits(one.queue)
        ]
        return _partitions(options, [one for one in found if one.rows])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a range."""
        selector = self.pushed.selector(self.options.selector)
        return read_ranges(self.options, partition.value or (), selector)


class FilteringReader(BatchReader):
    """Reads less where a filter allows it; Spark refuses this class while pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Take what the broker can do, and leave all filters to Spark as well."""
        self.pushed = push(filters, self.options.group_header)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes, from one offset to the next."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._initial: Offsets | None = None
        self._target: Offsets | None = None  # where a query that reads what is there now ends

    def initialOffset(self) -> Offsets:
        """Return where a new query begins; asked twice, it must not change its mind."""
        if self._initial is None:
            figures = ask_all(self.options)
            self._initial = resolve("startingOffsets", self.options.starting, figures)
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
        """Return where the next batch ends; all before `start` is processed for good."""
        figures = ask_all(self.options, start, trims=self.options.is_trimming)
        end = {queue: known.end for queue, known in figures.items()}
        if self._target is not None:
            end = not_beyond(self._target, end, start)
        if isinstance(limit, ReadMaxRows):
            return limited(start, figures, end, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            rows = rows_of_bytes(figures.values(), limit.max_bytes)
            return limited(start, figures, end, rows)
        return end

    def reportLatestOffset(self) -> Offsets:
        """Return where the queues end, for the query's progress."""
        return {queue: known.end for queue, known in ask_all(self.options).items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into ranges, if all of it is still there."""
        figures = ask_all(self.options, {**start, **end})
        check_losses(self.options, start, figures)
        return _partitions(self.options, ranges(start, end, figures))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a range."""
        return read_ranges(self.options, partition.value or (), self.options.selector)


def ask_all(
    options: ReadOptions, processed: Offsets | None = None, *, trims: bool = False
) -> dict[str, Figures]:
    """Ask every queue that is read, and those of `processed`, what it has."""
    with connected(options.places, *_what_is_read(options)) as client:
        if trims and processed:
            for queue, offset in processed.items():
                client.trim(queue, offset)
        return client.figures_of([*_queues(options, client), *(processed or ())])


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
    """Raise PipelineError, or warn, if messages are gone that were not read."""
    lost = "; ".join(losses(start, figures))
    if not lost:
        return
    if options.fails_on_loss:
        raise PipelineError(
            f"failOnDataLoss=true: {lost}. Set failOnDataLoss=false to go on with what is there"
        )
    warnings.warn(f"failOnDataLoss=false: {lost}", stacklevel=2)


def _partitions(options: ReadOptions, parts: list[Range]) -> list[InputPartition]:
    cores = os.cpu_count() or 1
    return [InputPartition(one) for one in split(parts, options.partitions_min, cores)]


def read_ranges(
    options: ReadOptions, parts: Sequence[Range], selector: str
) -> Iterator[pa.RecordBatch]:
    """Browse the ranges of a task, over one connection as long as it can be used again.

    Where there is nothing to read, Spark makes up a partition that has no range.
    """
    waiting = deque(parts)
    while waiting:
        with connected(options.places, *_what_is_read(options)) as client:
            while waiting and not client.is_spent:
                yield from _read_range(client, options, waiting.popleft(), selector)


def _read_range(
    client: QueueClient, options: ReadOptions, part: Range, selector: str
) -> Iterator[pa.RecordBatch]:
    maker = BatchMaker(
        part.queue, options.group_header, options.batch_rows, has_headers=options.has_headers
    )
    for rows in client.browse(part.queue, part.first, part.end, selector):
        maker.add(rows)
        if maker.is_full:
            yield from maker.take()
    yield from maker.take()
