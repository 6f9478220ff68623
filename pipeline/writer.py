"""Writer: the broker's child process that turns chunks of events into Parquet files.

    python -m covey.pipeline.writer DIR RUN ROTATE_BYTES ROTATE_AGE_S < chunks

Chunks are as `covey.core.event_log` draws them. Records are kept as they came until there are
enough for a row group, then become columns at once. A file is written under a name that readers
do not see and gets its own when its footer is on disk, so every file a reader sees is whole. It
is finished when it is large enough, old enough, or the pipe ends.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.event_log import FORGET, HEADER, LENGTH, MAGIC, RECORD
from covey.pipeline.schema import ARROW_SCHEMA, finished_name, unfinished_name

ROW_GROUP_RECORDS: Final = 131_072  # 4 MB packed; smaller row groups read slower
BYTES_PER_ROW_GUESS: Final = 8  # compressed; for the size of what is not written yet
READ_BYTES: Final = 1 << 20
POLL_S: Final = 1.0  # how late an idle file may be finished

RECORD_TYPE: Final = np.dtype(
    [
        ("kind", "u1"),
        ("queue", "<u4"),
        ("group", "<u4"),
        ("consumer", "<u4"),
        ("seq", "<u8"),
        ("time", "<f8"),
    ]
)
assert RECORD_TYPE.itemsize == RECORD.size

Records = np.ndarray[Any, np.dtype[np.void]]


class Writer:
    """One run's files, one after the other."""

    def __init__(self, directory: Path, run: str, rotate_bytes: int, rotate_age_s: float) -> None:
        self.directory = directory
        self.run = run
        self.rotate_bytes = rotate_bytes
        self.rotate_age_s = rotate_age_s
        self._names = [""]
        self._pending: list[tuple[int, Records]] = []  # first event id, records
        self._pending_count = 0
        self._parquet: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._first_eid = 0
        self._opened_at = 0.0

    def take(self, first_eid: int, flags: int, names: bytes, records: bytes, now: float) -> None:
        """Take one chunk."""
        if flags & FORGET:
            self._write_row_group()
            self._names = [""]
        self._names += _names_in(names)
        if self._first_eid == 0:
            self._first_eid = first_eid
            self._opened_at = now
        packed = np.frombuffer(records, RECORD_TYPE)
        self._pending.append((first_eid, packed))
        self._pending_count += len(packed)
        if self._pending_count >= ROW_GROUP_RECORDS:
            self._write_row_group()
        if self._size() >= self.rotate_bytes:
            self.finish()

    def finish_if_old(self, now: float) -> None:
        """Finish the file once its time is over."""
        if self._first_eid and now - self._opened_at >= self.rotate_age_s:
            self.finish()

    def finish(self) -> None:
        """Write the footer, make it safe, and give the file its name."""
        self._write_row_group()
        if self._parquet is None or self._sink is None:
            return
        self._parquet.close()
        self._sink.close()
        unfinished = self.directory / unfinished_name(self.run, self._first_eid)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.rename(self.directory / finished_name(self.run, self._first_eid))
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
            self._parquet = pq.ParquetWriter(self._sink, ARROW_SCHEMA, compression="zstd")
        self._parquet.write_table(self._table())
        self._pending.clear()
        self._pending_count = 0

    def _table(self) -> pa.Table:
        records = np.concatenate([packed for _, packed in self._pending])
        ids = np.concatenate(
            [np.arange(first, first + len(packed)) for first, packed in self._pending]
        )
        names = pa.array(self._names, pa.string())
        microseconds = np.rint(records["time"] * 1e6).astype("i8")
        columns = [
            pa.repeat(self.run, len(records)),
            pa.array(ids),
            pa.array(microseconds).cast(ARROW_SCHEMA.field("ts").type),
            pa.array(records["kind"].astype("i1")),
            names.take(pa.array(records["queue"])),
            names.take(pa.array(records["group"])),
            pa.array(records["consumer"].astype("i8")),
            pa.array(records["seq"].astype("i8")),
        ]
        return pa.Table.from_arrays(columns, schema=ARROW_SCHEMA)


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
    """Take the whole chunks at the start of the data out of it and hand them to the writer."""
    at = 0
    while len(data) - at >= HEADER.size:
        magic, flags, first_eid, names_size, count = HEADER.unpack_from(data, at)
        assert magic == MAGIC, f"the pipe holds {magic!r} where a chunk must begin"
        names_at = at + HEADER.size
        records_at = names_at + names_size
        end = records_at + count * RECORD.size
        if end > len(data):
            break
        names = bytes(data[names_at:records_at])
        writer.take(first_eid, flags, names, bytes(data[records_at:end]), now)
        at = end
    del data[:at]


def main(arguments: list[str]) -> None:
    """Write what standard input brings until it ends."""
    directory, run, rotate_bytes, rotate_age_s = arguments
    writer = Writer(Path(directory), run, int(rotate_bytes), float(rotate_age_s))
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
    main(sys.argv[1:])
