"""Writer: the broker's child process that turns chunks of events into Parquet files.

    python -m covey.pipeline.event_log.writer DIR RUN ROTATE_BYTES ROTATE_AGE_S < chunks

`covey.core.events.event_log` says how a chunk is laid out. Chunks are kept as they came until there
are enough for a row group. Then they become one table.

A file is written under a name that readers do not see. It gets its final name, in the directory of
its hour, when its footer is on disk. So every file that a reader sees is complete. A file is
finished when it is large enough or old enough, when its hour is over, or when the pipe ends.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.events.event import ENQUEUE, RECOVER
from covey.core.events.event_log import (
    CODES,
    EVENT_BYTES,
    FORGET,
    GROUP_SHIFT,
    HEADER,
    LENGTH,
    LINE,
    MAGIC,
    MOMENT_BYTES,
    MOMENT_CODES,
    PERSISTENT,
    QUEUE_SHIFT,
    SIZE_MAX,
)
from covey.pipeline.event_log.schema import (
    ARROW_SCHEMA,
    RANGED,
    finished_name,
    hour_name,
    unfinished_name,
)

ROW_GROUP_EVENTS: Final = 131_072  # 4 MB as chunks; smaller row groups are slower to read
BYTES_PER_ROW_GUESS: Final = 8  # compressed; to estimate events that are not written yet
# Numbers that rise a little with each event are stored as differences. Parquet's default is a
# dictionary. For such numbers it takes longer than all the rest until Parquet gives it up, and it
# makes files four times as long.
RISING: Final = ["eid", "ts", "seq"]
REPEATING: Final = [
    *("run", "kind", "queue", "group_id", "consumer", "size", "virtual_host", "predecessor")
]
ARRIVALS: Final = (ENQUEUE, RECOVER)
HOUR_S: Final = 3600
READ_BYTES: Final = 1 << 20
POLL_S: Final = 1.0  # how late a file without new events may be finished

KIND_MASK: Final = (1 << QUEUE_SHIFT) - 1
QUEUE_MASK: Final = (1 << GROUP_SHIFT - QUEUE_SHIFT) - 1

Column = np.ndarray[Any, np.dtype[Any]]


class Events(NamedTuple):
    """Events of one or several chunks, column by column."""

    what: Column
    consumer: Column
    seq: Column
    time: Column

    @classmethod
    def unpack(cls, data: bytes, count: int, moment_count: int) -> Events:
        """Read the columns of a chunk, and give each event the time of its moment."""
        what, consumer, seq = _columns(data, CODES, count)
        starts, times = _columns(data[count * EVENT_BYTES :], MOMENT_CODES, moment_count)
        lengths = np.diff(starts, append=np.uint32(count))
        return cls(what, consumer, seq, np.repeat(times, lengths))


class Writer:
    """One run's files, one after the other."""

    def __init__(self, directory: Path, run: str, rotate_bytes: int, rotate_age_s: float) -> None:
        self.directory = directory
        self.run = run
        self.rotate_bytes = rotate_bytes
        self.rotate_age_s = rotate_age_s
        self._names = [""]
        self._pending: list[tuple[int, Events]] = []  # the first event's id, and the events
        self._pending_count = 0
        self._parquet: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._first_eid = 0
        self._opened_at = 0.0
        self._began = 0.0  # the time of the first event

    def take(self, first_eid: int, flags: int, names: bytes, events: Events, now: float) -> None:
        """Take one chunk."""
        if flags & FORGET:
            self._write_row_group()
            self._names = [""]
        began = float(events.time[0])
        if self._first_eid and began // HOUR_S != self._began // HOUR_S:
            self.finish()
        self._names += _names_in(names)
        if self._first_eid == 0:
            self._first_eid = first_eid
            self._opened_at = now
            self._began = began
        self._pending.append((first_eid, events))
        self._pending_count += len(events.seq)
        if self._pending_count >= ROW_GROUP_EVENTS:
            self._write_row_group()
        if self._size() >= self.rotate_bytes:
            self.finish()

    def finish_if_old(self, now: float) -> None:
        """Finish the file once its time is over."""
        if self._first_eid and now - self._opened_at >= self.rotate_age_s:
            self.finish()

    def finish(self) -> None:
        """Write the footer, sync the file to disk, and give it its final name."""
        self._write_row_group()
        if self._parquet is None or self._sink is None:
            return
        self._parquet.close()
        self._sink.close()
        unfinished = self.directory / unfinished_name(self.run, self._first_eid)
        _sync(unfinished)
        hour = self.directory / hour_name(self._began)
        is_new = not hour.is_dir()
        hour.mkdir(parents=True, exist_ok=True)
        unfinished.rename(hour / finished_name(self.run, self._first_eid))
        # Else a crash of the machine might undo the new name.
        for place in (hour, hour.parent, self.directory) if is_new else (hour,):
            _sync(place)
        self._parquet = None
        self._sink = None
        self._first_eid = 0

    def _size(self) -> int:
        written = 0 if self._sink is None else self._sink.tell()
        return int(written) + self._pending_count * BYTES_PER_ROW_GUESS

    def _write_row_group(self) -> None:
        if not self._pending:
            return
        if self._parquet is None:
            path = self.directory / unfinished_name(self.run, self._first_eid)
            self._sink = pa.OSFile(str(path), "wb")
            self._parquet = open_parquet(self._sink)
        self._parquet.write_table(self._table())
        self._pending.clear()
        self._pending_count = 0

    def _table(self) -> pa.Table:
        chunks = [events for _, events in self._pending]
        events = Events(*(np.concatenate(column) for column in zip(*chunks, strict=True)))
        ids = [np.arange(first, first + len(chunk.seq)) for first, chunk in self._pending]
        names = pa.array(self._names, pa.string())
        hosts, before, queues = (pa.array(part, pa.string()) for part in _parts_of(self._names))
        microseconds = np.rint(events.time * 1e6).astype("i8")
        kind = (events.what & KIND_MASK).astype("i1")
        queue = pa.array(events.what >> QUEUE_SHIFT & QUEUE_MASK)
        is_other = ~np.isin(kind, ARRIVALS)
        number = events.consumer.astype("i8")
        columns = [
            pa.repeat(self.run, len(events.seq)),
            pa.array(np.concatenate(ids)),
            pa.array(microseconds).cast(ARROW_SCHEMA.field("ts").type),
            pa.array(kind),
            queues.take(queue),
            names.take(pa.array(events.what >> GROUP_SHIFT)),
            pa.array(np.where(is_other, number, 0)),
            pa.array(events.seq.astype("i8")),
            pa.array(number >= PERSISTENT, mask=is_other),
            pa.array(number & SIZE_MAX, mask=is_other),
            hosts.take(queue),
            before.take(queue),
        ]
        return pa.Table.from_arrays(columns, schema=ARROW_SCHEMA)


def open_parquet(sink: pa.NativeFile) -> pq.ParquetWriter:
    """Begin a file of an event log."""
    return pq.ParquetWriter(
        sink,
        ARROW_SCHEMA,
        compression="zstd",
        use_dictionary=REPEATING,
        column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
        write_statistics=RANGED,
    )


def _parts_of(names: list[str]) -> Iterable[tuple[str, ...]]:
    """Return host, run before and shown name of each queue; a group's name has no such parts."""
    return zip(*([*name.split(LINE, 2), "", ""][:3] for name in names), strict=True)


def _sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _columns(data: bytes, codes: tuple[str, ...], count: int) -> list[Column]:
    columns: list[Column] = []
    at = 0
    for code in codes:
        columns.append(np.frombuffer(data, code, count, at))
        at += columns[-1].nbytes
    return columns


def _names_in(block: bytes) -> list[str]:
    names = []
    at = 0
    while at < len(block):
        (length,) = LENGTH.unpack_from(block, at)
        at += LENGTH.size
        names.append(block[at : at + length].decode())
        at += length
    return names


def feed(writer: Writer, data: bytearray, now: float) -> None:
    """Remove the complete chunks from the start of the data and hand them to the writer."""
    at = 0
    while len(data) - at >= HEADER.size:
        magic, flags, first_eid, names_size, count, moments = HEADER.unpack_from(data, at)
        assert magic == MAGIC, f"the pipe holds {magic!r} where a chunk must begin"
        names_at = at + HEADER.size
        columns_at = names_at + names_size
        end = columns_at + count * EVENT_BYTES + moments * MOMENT_BYTES
        if end > len(data):
            break
        names = bytes(data[names_at:columns_at])
        events = Events.unpack(bytes(data[columns_at:end]), count, moments)
        writer.take(first_eid, flags, names, events, now)
        at = end
    del data[:at]


def main(arguments: list[str]) -> int:
    """Write what standard input brings until it ends; return the exit code."""
    directory, run, rotate_bytes, rotate_age_s = arguments
    writer = Writer(Path(directory), run, int(rotate_bytes), float(rotate_age_s))
    try:
        write_all(writer)
    except (OSError, pa.ArrowException) as error:  # a full disk, a directory that went away
        sys.stderr.write(f"covey: the event log in {directory} cannot be written: {error}\n")
        return 1
    return 0


def write_all(writer: Writer) -> None:
    """Hand chunks from standard input to the writer until it ends."""
    pipe = sys.stdin.fileno()
    data = bytearray()
    while True:
        is_ready = select.select([pipe], [], [], POLL_S)[0]
        now = time.monotonic()
        if is_ready:
            received = os.read(pipe, READ_BYTES)
            if not received:
                break
            data += received
            feed(writer, data, now)
        writer.finish_if_old(now)
    writer.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
