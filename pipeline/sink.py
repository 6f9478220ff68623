"""Sinks: rows of Spark as messages.

    value            the body: binary or string
    queue            where to, unless the option `queue` says it; /topic/NAME for a topic
    message_id       the message's id (`idColumn`)
    group_id         its group (`groupColumn`)
    headers          more headers, map<string,string>

A task sends its rows over one connection and waits until the broker has them. A batch that is
written again after a failure sends the same ids, so a queue with a `duplicate_window` that is
longer than a batch takes each message once; without ids it may be there twice.

Order: the broker keeps a group in the order it comes in, and two tasks come in as they like. So a
group's rows must be in one partition (`in_groups`), where they are sent by `orderColumn`; whoever
forgets it is warned when the batch is done (`spread`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from covey.pipeline.client import QueueClient, connected
from covey.pipeline.errors import PipelineError
from covey.pipeline.frames import frames_of
from covey.pipeline.options import WriteOptions, write_options
from covey.pipeline.spread import NO_GROUPS, Groups, complaint, groups_in, sampled


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """What a task has done: how many rows, of which groups (of very many, a sample)."""

    rows: int
    groups: Groups = NO_GROUPS


class BatchSink(DataSourceArrowWriter):
    """Sends a table."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send one partition."""
        return send_partition(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Look at what the tasks have done."""
        warn_of_spread(messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Sends the batches of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send one partition of a batch."""
        return send_partition(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Look at what the tasks of a batch have done."""
        warn_of_spread(messages)


def sink_options(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> WriteOptions:
    """Read a sink's options; raises PipelineError if the rows are not fit to be sent."""
    if overwrite:
        raise PipelineError("mode: a queue can be appended to only; use mode append")
    options = write_options(given, schema.fieldNames())
    if not isinstance(schema["value"].dataType, BinaryType | StringType):
        raise PipelineError(
            f"value is {schema['value'].dataType.simpleString()}, it must be binary or string"
        )
    return options


def in_groups(frame: DataFrame, group_column: str = "group_id") -> DataFrame:
    """Bring the rows of each group into one partition, so that a sink can keep their order."""
    return frame.repartition(group_column)


def send_partition(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> Sent:
    """Send rows in their order and wait until the broker has them."""
    rows = 0
    groups = NO_GROUPS
    with connected(options.places, "queue", options.queue or "the column's") as client:
        for batch in _in_order(options, batches):
            send_rows(client, options, batch)
            rows += batch.num_rows
            if options.group_column:
                groups = sampled(groups | _groups_of(options, batch))
        client.confirm()
    return Sent(rows, groups)


def warn_of_spread(messages: Iterable[WriterCommitMessage | None]) -> None:
    """Warn if rows of one group were sent by several tasks."""
    found = complaint(message.groups for message in messages if isinstance(message, Sent))
    if found:
        warnings.warn(found, stacklevel=2)


def _groups_of(options: WriteOptions, batch: pa.RecordBatch) -> Groups:
    if options.queue:
        queues = pa.repeat(options.queue, batch.num_rows)
    else:
        queues = batch.column("queue").cast(pa.string())
    return groups_in(queues, batch.column(options.group_column))


def _in_order(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    if not options.order_column:
        return batches
    known = list(batches)  # a partition of a batch; what comes last may have to go first
    if not known:
        return known
    ordered = pa.Table.from_batches(known).sort_by(options.order_column)
    return list(ordered.to_batches())


def send_rows(client: QueueClient, options: WriteOptions, batch: pa.RecordBatch) -> None:
    """Post the rows of one Arrow batch."""
    for frame in frames_of(options, batch):
        client.post_frame(frame)
