"""Errors: what a sentence shows of a client's own text."""

from __future__ import annotations

import pytest

from covey.core.errors import quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("C:\\temp 'x'", "'C:\\temp 'x''"),
        ("h\u00e9", "'h\u00e9'"),
        ("a\nb\0\x1b[31m", "'a%0Ab%00%1B[31m'"),
        ("\u202e", "'%E2%80%AE'"),
        ("\ud800", "'%ED%A0%80'"),
        ("x" * 1000, f"'{'x' * 80}'"),
    ],
)
def test_a_text_is_shown_as_it_stands_if_it_can_be_printed(text: str, shown: str) -> None:
    assert quoted(text) == shown
