"""What people and programs get to see."""

from __future__ import annotations

import io
import re
import signal
import sys
from contextlib import suppress

import pytest

from covey.cli.output import (
    GROUP_COLUMNS,
    GROUP_SPARE,
    fitting,
    plain_lines,
    printable,
    progress,
    repeat,
    show,
)

STYLE = re.compile(r"\x1b\[[0-9;]*m")


class FakeTerminal(io.StringIO):
    """Looks like a person's screen."""

    def isatty(self) -> bool:
        return True


def test_plain_tables_are_aligned_and_have_no_blanks_at_the_end() -> None:
    assert plain_lines(("a", "bcd"), [("long cell", "x"), ("y", "")], has_rule=True) == [
        "a          bcd",
        "================",
        "long cell  x",
        "y",
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (1.25, "1.2"),
        (["a", "b"], "a b"),
        ({"k": 1}, "k=1"),
        ("tab\there", "tab\\there"),
        ("\x1b[31m", "\\x1b[31m"),
        ("Ünïcödé", "Ünïcödé"),
    ],
)
def test_a_cell_is_one_harmless_line(value: object, cell: str) -> None:
    assert printable(value) == cell


def test_a_person_gets_a_drawn_table_and_names_are_not_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", screen)
    show([{"name": "[red]x[/red]"}], ("name",), as_json=False)
    assert "─" in screen.getvalue() or "━" in screen.getvalue()
    assert "[red]x[/red]" in screen.getvalue()


def test_progress_passes_work_on_and_draws_on_stderr_only(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress(range(3), "counting", 3)) == [0, 1, 2]
    assert "counting" in screen.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(progress(range(3), "counting", 3)) == [0, 1, 2]


def drawn(monkeypatch: pytest.MonkeyPatch, columns: int, *, is_wide: bool = False) -> list[str]:
    """Draw a list of groups on a screen of so many columns."""
    screen = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    row: dict[str, object] = dict.fromkeys(GROUP_COLUMNS, 12345)
    row |= {"group": "customer-of-a-long-name", "owner_client": "worker-7.example.com:54321"}
    row["why"] = "consumer 1 (billing) has no credit; it holds 10 messages"
    show([row], GROUP_COLUMNS, as_json=False, spare=GROUP_SPARE, is_wide=is_wide)
    lines = [STYLE.sub("", line) for line in screen.getvalue().splitlines()]
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize("columns", [70, 80, 100, 120, 200])
def test_a_table_fits_the_terminal_and_cuts_no_name(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    lines = drawn(monkeypatch, columns)
    assert max(len(line) for line in lines) <= columns
    text = " ".join(" ".join(lines).split())
    assert "customer-of-a-long-name" in text and "…" not in text
    for word in "consumer 1 (billing) has no credit; it holds 10 messages".split():
        assert word in text  # it wraps between words
    assert ("--wide" in text) == (columns < 150)  # what is left out is told


def test_wide_shows_every_column_on_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    head, *_ = drawn(monkeypatch, 80, is_wide=True)
    assert head.split() == list(GROUP_COLUMNS)


def test_columns_go_in_their_order_and_only_as_many_as_must() -> None:
    widths = {"name": 20, "a": 10, "b": 10, "why": 50}
    assert fitting(widths, ("b", "a"), 200) == ["name", "a", "b", "why"]
    assert fitting(widths, ("b", "a"), 60) == ["name", "a", "why"]
    assert fitting(widths, ("b", "a"), 20) == ["name", "why"]


def test_a_ctrl_c_that_a_look_has_swallowed_ends_the_watch_all_the_same() -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        with suppress(KeyboardInterrupt):  # as a call from C into Python does
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        repeat(look, 0.001)
    assert looks == 1
