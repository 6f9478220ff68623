"""Rows in the order of one column: from one run, from many in files, with ties and nulls."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from covey.pipeline.datasource import sorted_rows
from covey.pipeline.datasource.sorted_rows import in_order


def batches_of(keys: list[int | None], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut numbered rows with these keys into batches."""
    table = pa.table(
        {"seq": pa.array(keys, pa.int64()), "name": [str(at) for at in range(len(keys))]}
    )
    yield from table.to_batches(rows)


def rows_of(batches: object) -> list[tuple[int | None, str]]:
    found = pa.Table.from_batches(list(batches))  # type: ignore[call-overload]
    return list(zip(found["seq"].to_pylist(), found["name"].to_pylist(), strict=True))


def expected(keys: list[int | None]) -> list[tuple[int | None, str]]:
    named = [(key, str(at)) for at, key in enumerate(keys)]
    return sorted(named, key=lambda row: (row[0] is None, row[0] or 0))


@pytest.mark.parametrize("run_bytes", [1, 300, 2_000, 1 << 20])
def test_rows_come_in_order_whatever_has_room_in_memory(
    run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_rows, "STRETCH_ROWS", 7)
    chance = random.Random(run_bytes)
    keys: list[int | None] = [chance.randrange(60) for _ in range(500)]
    assert rows_of(in_order(batches_of(keys, 13), "seq", run_bytes)) == expected(keys)


def test_rows_without_a_number_come_last() -> None:
    keys: list[int | None] = [3, None, 1, None, 2]
    assert rows_of(in_order(batches_of(keys, 2), "seq", 1)) == expected(keys)


def test_nothing_is_in_order() -> None:
    assert list(in_order([], "seq")) == []


def test_a_stretch_reads_only_a_part_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "STRETCH_ROWS", 10)
    keys: list[int | None] = [*range(0, 100, 2), *range(1, 100, 2)]
    found = list(in_order(batches_of(keys, 25), "seq", 300))
    assert max(batch.num_rows for batch in found) <= 10
    assert rows_of(found) == expected(keys)
