"""Sinks: rows of Spark as messages.

    value            the body: binary or string
    queue            where to, unless the option `queue` says it; /topic/NAME for a topic
    message_id       the message's id (`idColumn`)
    group_id         its group (`groupColumn`)
    headers          more headers, map<string,string>

A task sends its rows over one connection, and waits until the broker has them. A batch that is
written again after a failure sends the same ids. So a queue whose `duplicate_window` is longer than
a batch takes each message once. Without ids a message may be there twice.

Order: the broker keeps a group in the order it comes in, and two tasks come in as they like. So the
rows of a group must be in one partition (`in_groups`), where they are sent by `orderColumn`. A sink
cannot ask Spark to bring a group's rows together; its user has to. But a sink notices. Each task
tells which groups it has sent, and the driver looks for those that two tasks name: their order is
chance. The user is warned when the batch is done (`warn_of_spread`). A task with very many groups
tells a sample. It is the same part of all names in every task, so two tasks that share their groups
share their samples, too.

Rows of an Arrow batch become SEND frames, column by column:

    SEND LF destination:PLACE [LF persistent:true] [LF message-id:ID] [LF GROUP_HEADER:GROUP]
    [LF more] [LF content-length:SIZE] LF LF value NUL LF

A column becomes one piece of every row's head. Whether a text of the column needs an escape is
asked once for all of them, since nearly none ever does. Row by row this cost a task most of its
time.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from covey.client.stomp import VERSION
from covey.pipeline.datasource.client import QueueClient, connected, destination
from covey.pipeline.datasource.options import WriteOptions, write_options
from covey.pipeline.errors import PipelineError
from covey.protocols.stomp.frame import header_lines

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


# Lines that would change the frame itself, or what is ours to say.
NOT_SENT: Final = frozenset(
    "destination content-length receipt transaction message-id subscription ack".split()
)
SPECIAL: Final = "\\\n\r:\0"  # what a header's value cannot hold as it is

Pieces = list[str]


def frames_of(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[bytes]:
    """Write the rows of a batch, in their order."""
    columns = [_places(options, batch)]
    if options.id_column:
        columns.append(_lines("message-id", _texts(batch, options.id_column)))
    if options.group_column:
        columns.append(_lines(options.group_header, _texts(batch, options.group_column)))
    if "headers" in batch.schema.names:
        columns.append([_more(pairs) for pairs in batch.column("headers").to_pylist()])
    values = batch.column("value").to_pylist()
    for value, *pieces in zip(values, *columns, strict=True):
        head = "".join(pieces).encode()
        body = value.encode() if isinstance(value, str) else value
        if body:
            yield b"%s\ncontent-length:%d\n\n%s\0\n" % (head, len(body), body)
        else:
            yield b"%s\n\n\0\n" % head


def _places(options: WriteOptions, batch: pa.RecordBatch) -> Pieces:
    if options.queue:
        targets = [destination(options.queue)] * batch.num_rows
    else:
        targets = [destination(str(name)) for name in batch.column("queue").to_pylist()]
    persistent = "\npersistent:true" if options.is_persistent else ""
    return [f"SEND{line}{persistent}" for line in _lines("destination", targets)]


def _texts(batch: pa.RecordBatch, name: str) -> Pieces:
    values = batch.column(name).to_pylist()
    return ["" if value is None else str(value) for value in values]


def _lines(name: str, texts: Pieces) -> Pieces:
    """Return a header line for each text, nothing for an empty one."""
    together = name + "".join(texts)
    if any(together.find(character) >= 0 for character in SPECIAL):
        return [_line(name, text) if text else "" for text in texts]
    return [f"\n{name}:{text}" if text else "" for text in texts]


def _line(name: str, text: str) -> str:
    return header_lines([(name, text)], VERSION).decode()


def _more(pairs: list[tuple[str, Any]] | None) -> str:
    if not pairs:
        return ""
    kept = [pair for pair in pairs if pair[0] not in NOT_SENT and pair[1]]
    return header_lines(kept, VERSION).decode()


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
