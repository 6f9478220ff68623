"""What people and programs get to see."""

from __future__ import annotations

import io
import sys

import pytest

from covey.cli.output import plain_lines, printable, progress, show


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
