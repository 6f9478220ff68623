"""The journal's files: a torn tail is an end, a hole in the middle is damage, and nobody forges."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.packing import HEADER_SIZE, packed_batch
from covey.core.storage.sqlite.segments import (
    GROWTH,
    Scan,
    Segment,
    meaning,
    new_name,
    segment_files,
)

SIZE = 1024 * 1024


def segment(folder: Path, index: int = 1) -> Segment:
    path, mark = new_name(folder, index)
    return Segment(path, index, mark)


def fill(made: Segment, first: int, count: int, size: int = 300) -> list[int]:
    """Write batches; return where each begins."""
    starts = []
    for number in range(first, first + count):
        starts.append(made.end)
        parts = [b"%d" % number * size, b"places", b"ids", b"rest"]
        made.write(packed_batch(made.mark, number, number, parts), number, SIZE)
    return starts


def numbers(content: bytes, mark: bytes) -> list[int]:
    return [batch.number for batch in Scan(content, mark).batches]


def test_batches_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    made = segment(tmp_path)
    starts = fill(made, 7, 3)
    scan = Scan(made.content(), made.mark)
    assert [(batch.number, batch.messages) for batch in scan.batches] == [(7, 7), (8, 8), (9, 9)]
    assert [batch.at - HEADER_SIZE for batch in scan.batches] == starts
    assert scan.batches[1][3:] == (b"8" * 300, b"places", b"ids", b"rest")
    assert (scan.damages, scan.torn) == ([], None)
    made.close()


def test_a_file_is_longer_than_its_batches_and_grows_with_them(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, 1, 1)
    assert made.path.stat().st_size == made.allocated == GROWTH
    fill(made, 2, 1, GROWTH)
    assert made.path.stat().st_size == made.allocated > GROWTH
    assert numbers(made.content(), made.mark) == [1, 2]
    made.close()


def test_whatever_is_cut_off_the_end_is_no_damage(tmp_path: Path) -> None:
    made = segment(tmp_path)
    starts = [*fill(made, 1, 4, 20), made.end]
    content = made.content()
    for length in range(made.end):
        scan = Scan(content[:length] + bytes(100), made.mark)
        whole = len([start for start in starts[1:] if start <= length])
        assert ([batch.number for batch in scan.batches], scan.damages) == (
            list(range(1, whole + 1)),
            [],
        )
    made.close()


def test_any_bit_of_any_batch_but_the_last_is_damage_with_its_numbers(tmp_path: Path) -> None:
    made = segment(tmp_path)
    starts = fill(made, 1, 5, 50)
    content = made.content()
    chance = Random(1)
    for damaged in range(4):
        for _ in range(40):
            noisy = bytearray(content)
            at = chance.randrange(starts[damaged], starts[damaged + 1])
            noisy[at] ^= 1 << chance.randrange(8)
            scan = Scan(bytes(noisy), made.mark)
            left = [number for number in range(1, 6) if number != damaged + 1]
            assert [batch.number for batch in scan.batches] == left
            assert scan.damages == [(damaged, damaged + 2)]
    made.close()


def test_a_last_batch_that_is_cut_says_its_number_if_its_header_is_there(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, 1, 2)
    content = made.content()
    assert Scan(content[: made.end - 5] + bytes(50), made.mark).torn == (2, 2)
    assert Scan(content, made.mark).torn is None
    made.close()


def test_what_a_client_wrote_is_never_a_batch(tmp_path: Path) -> None:
    """A message that looks like a batch of another mark, in a batch that a crash tore."""
    made = segment(tmp_path)
    fill(made, 1, 1)
    forged = packed_batch(bytes(8), 3, 1, [b"forged", b"", b"", b""])
    batch = packed_batch(made.mark, 2, 1, [forged * 3, b"", b"", b""])
    content = made.content()[: made.end] + batch[:-10] + bytes(100)
    scan = Scan(content, made.mark)
    assert ([batch.number for batch in scan.batches], scan.damages) == ([1], [])
    made.close()


def test_what_a_segment_held_before_it_was_used_again_is_gone(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, 1, 10)
    path, mark = new_name(tmp_path, 2)
    made.rename(path, 2, mark)
    assert numbers(made.content(), made.mark) == []
    fill(made, 11, 2, 10)
    assert numbers(made.content(), made.mark) == [11, 12]
    assert [(index, found) for index, found, _ in segment_files(tmp_path)] == [(2, mark)]
    made.close()


def test_segments_are_found_in_their_order_and_nothing_else_is(tmp_path: Path) -> None:
    for index in (3, 100_000_000, 20):
        segment(tmp_path, index).close()
    (tmp_path / "journal-00000001").touch()
    (tmp_path / "journal-00000001-0123456789abcdef.damaged").touch()
    assert [index for index, _, _ in segment_files(tmp_path)] == [3, 20, 100_000_000]


def test_a_large_batch_leaves_no_large_file_behind(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, 1, 1, 2 * SIZE)
    made.shorten(SIZE)
    assert made.path.stat().st_size == made.allocated == SIZE
    made.close()


@pytest.mark.parametrize(
    ("number", "is_passing"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)]
)
def test_no_room_passes_and_all_else_is_final(number: int, is_passing: bool) -> None:
    error = meaning(OSError(number, "cause"), Path("journal-1"))
    assert str(error) == "journal-1: cause"
    assert isinstance(error, StoreError)
    assert isinstance(error, StoreBusyError) == is_passing
