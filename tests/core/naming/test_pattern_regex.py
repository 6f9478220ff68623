"""RE2 behind one door: whole matches, reasons for refusals, time that is linear."""

from __future__ import annotations

import time

import pytest

from covey.core.errors import RefusedError
from covey.core.naming.pattern import Regex, quote


def test_an_expression_matches_whole_texts_only() -> None:
    assert Regex("a|bc").matches("bc")
    assert not Regex("a|bc").matches("abc")
    assert Regex("a.c").matches("a\nc")
    assert Regex("é.").matches("éü")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a", "missing )"),
        ("a(?=b)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{2000}", "invalid repetition size"),
    ],
)
def test_a_bad_expression_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        Regex(text)
    assert refusal.value.code == "invalid"
    assert reason in refusal.value.text


def test_a_text_that_is_no_unicode_does_not_match_and_does_not_fail() -> None:
    assert not Regex("a").matches("\ud800")
    assert not Regex("\ud800").matches("a")


def test_what_makes_backtrackers_hang_takes_no_time() -> None:
    begun = time.perf_counter()
    assert not Regex("(a+)+b").matches("a" * 5000)
    assert time.perf_counter() - begun < 1


def test_quoted_text_is_literal() -> None:
    assert Regex(quote("a.b*é")).matches("a.b*é")
    assert not Regex(quote("a.b")).matches("axb")
