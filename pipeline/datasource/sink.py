"""Sinks: rows of Spark as messages.

    value            the body: binary or string
    queue            where to, unless the option `queue` says it; /topic/NAME for a topic
    message_id       the message's id (`idColumn`)
    group_id         its group (`groupColumn`)
    headers          more headers, map<string,string>

A task sends its rows over one connection, in pieces, and ends when the broker has all of them. A
piece is a transaction with a fence (`covey.core.publishing.fences`): query, partition, epoch,
number of the piece. A piece may be sent again, by a task that lost its connection or by a batch
that is repeated. Then the broker drops it. That works if the same rows come in the same partition.
A partition of one piece may bring them in any order. A larger one must bring them in the same
order, by `orderColumn` or by a plan without a shuffle. A batch of a stream is identified by the
query's id and the epoch, which Spark tells each task. The write of a table is identified by its
`txnAppId` and `txnVersion`, or else by a name that is made up when the write begins. Tasks that
Spark repeats have the same name, another write has another one.

With `exactlyOnce=false` a piece is sent and confirmed without a transaction. Then its messages may
be there twice, unless the queue has a `duplicate_window` and so recognises their ids.

Order: the broker keeps the order in which a group's messages arrive, but tasks run at the same
time. So all rows of a group must be in one partition (`in_groups`), where they are sent by
`orderColumn`. A sink cannot ask Spark to bring a group's rows together; its user has to. But a sink
can notice. Each task reports which groups it has sent. The driver looks for groups that two tasks
have sent: their order is a matter of chance. The user is warned when the batch is done
(`warn_of_spread`). A task with very many groups reports a sample. All tasks choose the sample by
the same rule, so two tasks with common groups have common groups in their samples, too.

Rows of an Arrow batch become SEND frames, column by column:

    SEND LF destination:PLACE [LF persistent:true] [LF transaction:NAME] [LF message-id:ID]
    [LF GROUP_HEADER:GROUP] [LF more] [LF content-length:SIZE] LF LF value NUL LF

Each column becomes one part of every row's header lines. One search over the whole column finds out
whether any text needs an escape, since nearly none ever does. Doing it row by row took most of a
task's time.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Final, NamedTuple
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from covey.client.errors import UnreachableError
from covey.client.stomp import VERSION
from covey.pipeline.datasource.client import (
    TRANSACTION,
    QueueClient,
    asked,
    destination,
    first_of,
    said_by_option,
)
from covey.pipeline.datasource.options import WriteOptions, write_options
from covey.pipeline.datasource.patience import Absence
from covey.pipeline.datasource.sorted_rows import in_order
from covey.pipeline.errors import PipelineError
from covey.protocols.stomp.frame import header_lines

NAMES_MAX: Final = 5_000  # of groups that one task reports: some 100 kB
SHOWN_MAX: Final = 3
LOTS: Final = 1024  # parts into which rows without a group are divided
PIECE_BYTES: Final = 8 * 1024 * 1024  # of rows; a broker takes 64 MiB in one transaction
PIECES_AHEAD: Final = 4  # sent before the oldest is known to be stored; a task holds them all
PIECES_MAX: Final = 10_000_000  # of one partition of one epoch
QUERY: Final = "sql.streaming.queryId"  # Spark's names of these two properties of a task
EPOCH: Final = "streaming.sql.batchId"

Groups = frozenset[tuple[str, str]]  # queue and group
NO_GROUPS: Final[Groups] = frozenset()


def groups_in(queues: pa.Array, groups: pa.Array) -> Groups:
    """Return the groups of rows, by queue; rows without a group count for none."""
    table = pa.table({"queue": queues, "group": pc.cast(groups, pa.string())})
    named = table.filter(pc.greater(pc.binary_length(table["group"]), 0))
    found = named.group_by(["queue", "group"]).aggregate([])
    names = zip(found["queue"].to_pylist(), found["group"].to_pylist(), strict=True)
    return frozenset(names)


def sampled(groups: Groups) -> Groups:
    """Return all groups; of very many, a sample that every task chooses by the same rule."""
    if len(groups) <= NAMES_MAX:
        return groups
    return frozenset(nsmallest(NAMES_MAX, groups, key=_lot))


def complaint(tasks: Iterable[Groups]) -> str:
    """Return a warning that names groups sent by several tasks; "" if there are none."""
    counts = Counter(group for groups in tasks for group in groups)
    shared = sorted(group for group, count in counts.items() if count > 1)
    if not shared:
        return ""
    names = ", ".join(f"{group} of {queue}" for queue, group in shared[:SHOWN_MAX])
    more = f" and {len(shared) - SHOWN_MAX:,} more" if len(shared) > SHOWN_MAX else ""
    return (
        f"groups were sent by more than one task, so their order is not kept: {names}{more}. Bring"
        " each group into one partition: covey.pipeline.datasource.sink.in_groups(frame)"
    )


def _lot(group: tuple[str, str]) -> int:
    return crc32("\0".join(group).encode("utf-8", "replace"))


# Headers that rows may not set: they would change the frame, or are set by the sink itself.
NOT_SENT: Final = frozenset(
    "destination content-length receipt transaction message-id subscription ack".split()
)
SPECIAL: Final = "\\\n\r:\0"  # characters that a header's value cannot hold unescaped

Pieces = list[str]


def frames_of(
    options: WriteOptions, batch: pa.RecordBatch, transaction: str = ""
) -> Iterator[bytes]:
    """Return the rows of a batch as SEND frames, in their order."""
    columns = [_places(options, batch, transaction)]
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


def _places(options: WriteOptions, batch: pa.RecordBatch, transaction: str) -> Pieces:
    if options.queue:
        targets = [destination(options.queue)] * batch.num_rows
    else:
        targets = [destination(str(name)) for name in batch.column("queue").to_pylist()]
    more = "\npersistent:true" if options.is_persistent else ""
    if transaction:
        more += f"\ntransaction:{transaction}"
    return [f"SEND{line}{more}" for line in _lines("destination", targets)]


def _texts(batch: pa.RecordBatch, name: str) -> Pieces:
    values = batch.column(name).to_pylist()
    return ["" if value is None else str(value) for value in values]


def _lines(name: str, texts: Pieces) -> Pieces:
    """Return a header line for each text; "" for an empty text."""
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
    """What a task has sent: how many rows, of which groups (of very many, a sample)."""

    rows: int
    groups: Groups = NO_GROUPS


class BatchSink(DataSourceArrowWriter):
    """Sends a table."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.name = options.application or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send one partition."""
        return send_partition(self.options, iterator, self.name, self.options.version)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Check what the tasks have sent."""
        warn_of_spread(messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Sends the batches of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send one partition of a batch."""
        query = _property(QUERY)
        return send_partition(self.options, iterator, query, int(_property(EPOCH) or 0))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Check what the tasks of a batch have sent."""
        warn_of_spread(messages)


def _property(name: str) -> str:
    """Return a property that Spark tells a task about its query."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""


def sink_options(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool = False
) -> WriteOptions:
    """Read a sink's options; raises PipelineError if rows of these columns cannot be sent."""
    if overwrite:
        raise PipelineError("mode: a queue can be appended to only; use mode append")
    options = write_options(given, schema.fieldNames())
    if options.application and is_stream:
        raise PipelineError("txnAppId: it is for a batch only; a stream has its own id and epochs")
    if not isinstance(schema["value"].dataType, BinaryType | StringType):
        raise PipelineError(
            f"value is {schema['value'].dataType.simpleString()}, it must be binary or string"
        )
    warn_of_window(options)
    return options


def warn_of_window(options: WriteOptions) -> None:
    """Warn, before anything is sent, if messages may be there twice."""
    if options.is_fenced or not options.queue or options.queue.startswith("/topic/"):
        return
    about = ("queue", options.queue)
    found = asked(
        options.places, options.patience, about, lambda client: client.figures(options.queue)
    )
    if found.duplicate_window and options.id_column:
        return
    why = "has no duplicate_window" if options.id_column else "is sent no ids (idColumn)"
    warnings.warn(
        f"exactlyOnce=false: queue {options.queue} {why}, so what is sent again after a failure is"
        " there twice",
        stacklevel=2,
    )


def in_groups(frame: DataFrame, group_column: str = "group_id") -> DataFrame:
    """Bring the rows of each group into one partition, so that a sink can keep their order.

    Rows without a group are spread over all partitions, the same way each time.
    """
    group = F.col(group_column)
    named = [name for name in ("queue", "seq", "message_id", "value") if name in frame.columns]
    lot = F.pmod(F.xxhash64(*named), F.lit(LOTS)) if named else F.lit(0)
    return frame.repartition(group, F.when(group.isNull() | (group == ""), lot))


def send_partition(
    options: WriteOptions, batches: Iterable[pa.RecordBatch], name: str = "", epoch: int = 0
) -> Sent:
    """Send rows in their order and wait until the broker has them."""
    context = TaskContext.get()
    fence = f"{name}/{context.partitionId() if context else 0}"
    ordered = in_order(batches, options.order_column) if options.order_column else batches
    rows = 0
    groups = NO_GROUPS

    def numbered() -> Iterator[FencedRows]:
        nonlocal rows, groups
        for number, batch in enumerate(cut(ordered, options.piece_rows)):
            rows += batch.num_rows
            if options.group_column:
                groups = sampled(groups | _groups_of(options, batch))
            yield FencedRows(batch, f"{fence}:{epoch * PIECES_MAX + number}" if name else "")

    outbox = Outbox(options, numbered())
    absence = Absence(options.patience)
    with said_by_option(options.places, "queue", options.queue or "the column's"):
        while not outbox.is_done:
            try:
                with first_of(options.places) as client:
                    outbox.send_by(client, absence)
            except UnreachableError as error:
                absence.wait(error)
    return Sent(rows, groups)


class FencedRows(NamedTuple):
    """Rows that are sent together; with a fence the broker takes them only once."""

    batch: pa.RecordBatch
    fence: str


class Outbox:
    """The pieces of a partition, of which some are sent and not known to be stored.

    The task does not wait for the disk after each piece, but sends the next ones meanwhile. Over a
    new connection all pieces in doubt are sent again, in their order. The broker stores what comes
    over a connection in its order. So it has each piece up to some number, and drops those.
    """

    def __init__(self, options: WriteOptions, pieces: Iterator[FencedRows]) -> None:
        self.is_done = False
        self._options = options
        self._pieces = pieces
        self._in_doubt: deque[FencedRows] = deque()

    def send_by(self, client: QueueClient, absence: Absence) -> None:
        """Send what is left over one connection; raises UnreachableError if it breaks."""
        for piece in self._in_doubt:
            self._post(client, piece)
        for piece in self._pieces:
            self._in_doubt.append(piece)
            self._post(client, piece)
            if len(self._in_doubt) > PIECES_AHEAD:
                self._settle(client, absence)
        while self._in_doubt:
            self._settle(client, absence)
        self.is_done = True

    def _post(self, client: QueueClient, piece: FencedRows) -> None:
        is_fenced = self._options.is_fenced and bool(piece.fence)
        send_rows(client, self._options, piece.batch, TRANSACTION if is_fenced else "")
        if is_fenced:
            client.post_commit(piece.fence)
        else:
            client.post_confirm()

    def _settle(self, client: QueueClient, absence: Absence) -> None:
        client.await_oldest()
        self._in_doubt.popleft()
        absence.end()


def cut(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Join rows to pieces of at most a number of rows and a number of bytes."""
    known: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for first in range(0, batch.num_rows, rows_max):
            for part in _light(batch.slice(first, rows_max)):
                if known and (rows + part.num_rows > rows_max or size + part.nbytes > PIECE_BYTES):
                    yield _together(known)
                    known, rows, size = [], 0, 0
                known.append(part)
                rows += part.num_rows
                size += part.nbytes
    if known:
        yield _together(known)


def _light(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part has few enough bytes for one piece."""
    if batch.nbytes <= PIECE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _light(batch.slice(0, half))
    yield from _light(batch.slice(half))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def send_rows(
    client: QueueClient, options: WriteOptions, batch: pa.RecordBatch, transaction: str = ""
) -> None:
    """Post the rows of one Arrow batch."""
    for frame in frames_of(options, batch, transaction):
        client.post_frame(frame)


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
