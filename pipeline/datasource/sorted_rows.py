"""Rows in the order of one column: any number of rows, in bounded memory.

The last row to come may have to go first, so a task has to see all of its rows before it sends one.
They are sorted in runs of `RUN_BYTES`. If there is more than one run, each is written to a file.
The files are mapped into memory: the system reads what is needed and frees it again. Only the
column that is sorted by stays in memory, 8 bytes a row.

Each run is sorted, and so is the result. So any stretch of the result consists of one stretch of
each run. These stretches are read, joined and brought into order.

The order is the same whenever the same rows come in the same runs. Rows with equal values in the
column keep the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RUN_BYTES: Final = 32 * 1024 * 1024
STRETCH_ROWS: Final = 10_000


def in_order(
    batches: Iterable[pa.RecordBatch], column: str, run_bytes: int = RUN_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of a column; nulls come last."""
    runs = _runs(batches, column, run_bytes)
    first = next(runs, None)
    if first is None:
        return
    second = next(runs, None)
    if second is None:
        yield from first.to_batches(STRETCH_ROWS)
        return
    with TemporaryDirectory(prefix="covey-sink-") as directory:
        keys: list[pa.ChunkedArray] = []
        files: list[Path] = []
        for run in _chain(first, second, runs):
            files.append(Path(directory) / str(len(files)))
            keys.append(run[column])
            with pa.OSFile(str(files[-1]), "wb") as out, pa.ipc.new_file(out, run.schema) as writer:
                writer.write_table(run, STRETCH_ROWS)
        yield from _merged(keys, files)


def _chain(first: pa.Table, second: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield second
    yield from others


def _runs(batches: Iterable[pa.RecordBatch], column: str, run_bytes: int) -> Iterator[pa.Table]:
    """Yield sorted runs of rows, each of about `run_bytes`."""
    known: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        known.append(batch)
        size += batch.nbytes
        if size >= run_bytes:
            yield pa.Table.from_batches(known).sort_by(column).combine_chunks()
            known, size = [], 0
    if known:
        yield pa.Table.from_batches(known).sort_by(column).combine_chunks()


def _merged(keys: list[pa.ChunkedArray], files: list[Path]) -> Iterator[pa.RecordBatch]:
    ends = np.cumsum([len(one) for one in keys])
    whole = pa.chunked_array([chunk for one in keys for chunk in one.chunks])
    order = pc.sort_indices(whole).to_numpy()
    del whole
    # The run of each row of the result; the rows of one run follow each other in their order.
    run_of = np.searchsorted(ends, order, side="right")
    next_row = [0] * len(files)
    for begin in range(0, len(order), STRETCH_ROWS):
        owners = run_of[begin : begin + STRETCH_ROWS]
        counts = np.bincount(owners, minlength=len(files))
        parts = [
            _stretch(files[run], next_row[run], int(count))
            for run, count in enumerate(counts)
            if count
        ]
        next_row = [at + int(count) for at, count in zip(next_row, counts, strict=True)]
        # The place of each row of the stretch in the joined parts.
        places = np.empty(len(owners), np.int64)
        places[np.argsort(owners, kind="stable")] = np.arange(len(owners))
        yield from pa.concat_tables(parts).combine_chunks().take(pa.array(places)).to_batches()


def _stretch(file: Path, first: int, count: int) -> pa.Table:
    """Read some rows of a run; only those batches of the file that hold them are read."""
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        numbers = range(first // STRETCH_ROWS, (first + count - 1) // STRETCH_ROWS + 1)
        table = pa.Table.from_batches([reader.get_batch(number) for number in numbers])
        return table.slice(first % STRETCH_ROWS, count)
