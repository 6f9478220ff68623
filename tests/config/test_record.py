"""Sizes mean powers of 1024, and what is not a size is refused."""

from __future__ import annotations

import pytest

from covey.config.record import GIB, MIB, SIZE_MAX, format_size, human_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10k", 10240),
        ("10K", 10240),
        ("100M", 104857600),
        ("2G", 2 << 30),
        ("0", 0),
        (" 17 ", 17),
        (655360, 655360),
    ],
)
def test_letters_are_powers_of_1024_and_plain_numbers_are_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["10q", "10kb", "10kk", "k", "", "-1", "1.5M", "1e3", "٣k", -1, 1.5, True, None],
)
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_a_size_beyond_every_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="between"):
        parse_size(SIZE_MAX + 1)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1536, 10240, 1 << 20, 5 << 30])
def test_a_formatted_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 * MIB, "3.0 MiB"),
     (75931021312, "70.7 GiB"), (100_000 * GIB, "100,000.0 GiB")],
)  # fmt: skip
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert human_size(size) == text
