"""Rows in the order of one column, however many there are, in bounded memory.

What comes last may have to go first, so a task has to see all of its rows before it sends one.
They are sorted in runs of `RUN_BYTES`. If there is more than one, the runs lie in a file, which is
mapped into memory: the system reads what is asked for and lets go of it again. Only the column that
is sorted by stays in memory, 8 bytes a row.

Each run is sorted, and so is the whole. So any stretch of the whole is one stretch of each run:
that many rows are put together, and brought into their order.

The order is the same whenever the same rows come in the same runs. Rows that are alike in the
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
    """Give all rows in the order of a column; nulls come last."""
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
    """Give the rows sorted, so many bytes at a time."""
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
    # Which run each row of the whole is of; within a run the rows come one after the other.
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
        # Where a row of the stretch lies when the parts stand one behind the other.
        places = np.empty(len(owners), np.int64)
        places[np.argsort(owners, kind="stable")] = np.arange(len(owners))
        yield from pa.concat_tables(parts).combine_chunks().take(pa.array(places)).to_batches()


def _stretch(file: Path, first: int, count: int) -> pa.Table:
    """Read some rows of a run: only the pieces of the file in which they are."""
    with pa.memory_map(str(file)) as source:
        reader = pa.ipc.open_file(source)
        numbers = range(first // STRETCH_ROWS, (first + count - 1) // STRETCH_ROWS + 1)
        table = pa.Table.from_batches([reader.get_batch(number) for number in numbers])
        return table.slice(first % STRETCH_ROWS, count)
