"""Which names a pattern or an expression means, and that finding out is never slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.errors import RefusedError
from covey.core.naming.destination import Syntax
from covey.core.naming.pattern import Pattern, Regex, quote

SYNTAX = Syntax()


def pattern(text: str, *, zero: bool = False) -> Pattern:
    (destination,) = SYNTAX.parse("/topic/" + text, allow_patterns=True)
    return Pattern(destination, descendant_matches_zero=zero)


def canonical(text: str) -> str:
    (destination,) = SYNTAX.parse("/topic/" + text, allow_patterns=False)
    return destination.name


@pytest.mark.parametrize(
    ("text", "names", "others"),
    [
        ("PRICE.**", ["PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK", "PRICE.FX"], ["PRICE", "NEWS.IBM"]),
        ("PRICE.STOCK.**", ["PRICE.STOCK.NYSE.SUNW"], ["PRICE.STOCK", "PRICE.FX.EUR"]),
        (
            "PRICE.STOCK.NASDAQ.*",
            ["PRICE.STOCK.NASDAQ.IBM"],
            ["PRICE.STOCK.NYSE.SUNW", "PRICE.STOCK.NASDAQ", "PRICE.STOCK.NASDAQ.IBM.BID"],
        ),
        (
            "PRICE.STOCK.*.IBM",
            ["PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK.NYSE.IBM"],
            ["PRICE.STOCK.NYSE.SUNW", "PRICE.STOCK.IBM"],
        ),
        (
            "PRICE.STOCK.*.I*",
            ["PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK.NYSE.I"],
            ["PRICE.STOCK.NYSE.SUNW", "PRICE.STOCK.NYSE.I.B"],
        ),
        (
            "PRICE.STOCK.*.*{[0-9]}",
            ["PRICE.STOCK.NYSE.BRK2", "PRICE.STOCK.NYSE.7"],
            ["PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK.NYSE.2B"],
        ),
    ],
)
def test_the_six_price_examples(text: str, names: list[str], others: list[str]) -> None:
    compiled = pattern(text)
    assert [name for name in names + others if compiled.matches(name)] == names


@pytest.mark.parametrize(
    ("text", "name", "answer"),
    [
        ("a.**.b", "a.x.b", True),
        ("a.**.b", "a.x.y.b", True),
        ("a.**.b", "a.b", False),
        ("a.**.b", "a.x.b.c", False),
        ("**", "a", True),
        ("**.**", "a", False),
        ("{a|b.*}", "bcd", True),
        ("{a|b.*}", "xa", False),
        ("{[0-9]{2}}.x", "42.x", True),
        ("{a|b}c", "ac", True),
        ("{a|b}c", "a", False),
        ("é*", "été", True),
        ("{é+}", "éé", True),
        ("*A9", "é", False),
        ("*(1)", "a(1)", True),
    ],
)
def test_a_pattern_matches_whole_parts(text: str, name: str, answer: bool) -> None:
    assert pattern(text).matches(canonical(name)) is answer


def test_any_descendant_matches_no_part_at_all_only_when_asked() -> None:
    assert pattern("PRICE.**", zero=True).matches("PRICE")
    assert pattern("a.**.b", zero=True).matches("a.b")
    assert pattern("**.a.**", zero=True).matches("a")
    assert not pattern("PRICE.**").matches("PRICE")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{(?=a)}", "invalid perl operator"),
        (r"{(a)\1}", "invalid escape"),
        ("x{a)(b}", "unexpected )"),
    ],
)
def test_a_bad_regular_expression_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        pattern(text)
    assert refusal.value.code == "invalid"
    assert reason in refusal.value.text


def naive(parts: list[str], levels: list[str], least: int) -> bool:
    """Try everything, as slowly as it likes."""
    if not parts:
        return not levels
    if parts[0] == "**":
        return any(naive(parts[1:], levels[n:], least) for n in range(least, len(levels) + 1))
    return bool(levels) and parts[0] in ("*", levels[0]) and naive(parts[1:], levels[1:], least)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7),
    st.booleans(),
)
def test_the_quick_way_agrees_with_the_naive_one(
    parts: list[str], levels: list[str], zero: bool
) -> None:
    compiled = pattern(".".join(parts), zero=zero)
    assert compiled.matches(".".join(levels)) is naive(parts, levels, 0 if zero else 1)


def test_hostile_patterns_take_no_time() -> None:
    begun = time.perf_counter()
    assert not pattern(".".join(["**", "a"] * 8) + ".b").matches(".".join("a" * 32))
    assert not pattern(".".join(["**"] * 16) + ".b", zero=True).matches(".".join("a" * 32))
    assert not pattern("{(a+)+b}").matches("a" * 1000)
    assert not pattern("*a" * 16 + "b").matches("a" * 1000)
    assert time.perf_counter() - begun < 1


# RE2 behind one door: whole matches, reasons for refusals, time that is linear.


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
