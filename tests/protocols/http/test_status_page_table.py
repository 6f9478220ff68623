"""How values are written for people."""

from __future__ import annotations

import pytest

from covey.core.management.describe import Attributes
from covey.protocols.http.status_page import Column, age, size, table, tiles


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 m 0 s"),
        (3599.9, "59 m 59 s"),
        (3600.0, "1 h 0 m"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_an_age_has_the_two_units_that_matter(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**2, "5.0 MiB"), (2**60, None)],
)
def test_a_size_has_its_unit(count: int, text: str | None) -> None:
    assert size(count) == (text or f"{2**60 / 2**40:.1f} TiB")


def test_a_bar_is_drawn_against_the_largest_of_its_column() -> None:
    columns = (Column("N", "n", "bar"),)
    written = table("T", columns, [{"n": 3}, {"n": 12}], 2)
    assert '3 <meter min="0" max="12" value="3"></meter>' in written
    assert '12 <meter min="0" max="12" value="12"></meter>' in written
    assert 'max="1" value="0"' in table("T", columns, [{"n": 0}], 1)


def test_no_value_becomes_markup() -> None:
    row: Attributes = {"name": "<b>", "why": '"&'}
    written = table("T", (Column("<", "name"), Column("W", "why", "prose")), [row], 1)
    assert "<td>&lt;b&gt;</td>" in written
    assert '<td class="prose">&quot;&amp;</td>' in written
    assert "<th>&lt;</th>" in written
    assert tiles([("<i>", "<u>")]) == "<ul><li><b>&lt;i&gt;</b> &lt;u&gt;</li></ul>"


def test_rows_that_are_left_out_are_counted() -> None:
    assert "1 of 9 are shown" in table("T", (Column("N", "n"),), [{"n": 1}], 9)
    assert "none" in table("T", (Column("N", "n"),), [], 0)
