"""Numbers in texts, and what compares with what."""

from __future__ import annotations

import math

import pytest

from covey.core.selector.values import Value, bounded, divide, equal, order, text_number, truth_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("-42", -42),
        (" +7 ", 7),
        ("4.5", 4.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("007", 7),
        ("9" * 30, 1e30),
        ("", None),
        ("-", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("0x10", None),
        ("٣", None),
        ("²", None),
        ("9" * 5000 + "!", None),
    ],
)
def test_a_text_is_a_number_only_if_it_looks_like_one(
    text: str, number: int | float | None
) -> None:
    assert text_number(text) == number


def test_whole_numbers_in_texts_stay_whole() -> None:
    assert isinstance(text_number("-5"), int)
    assert isinstance(text_number("5.0"), float)


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        ("a", "a", True),
        ("1", "1.0", False),
        ("1.0", 1, True),
        (1, 1.0, True),
        (True, "TRUE", True),
        (False, "no", None),
        (True, 1, None),
        (b"a", b"a", True),
        (b"a", "a", None),
        (None, None, None),
        ("abc", 5, None),
        (math.nan, 1, None),
    ],
)
def test_equality_is_symmetric_and_converts_texts(
    left: Value, right: Value, answer: bool | None
) -> None:
    assert equal(left, right) is answer
    assert equal(right, left) is answer


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [("9", 10, -1), ("9", "10", 1), (2, 2.0, 0), (True, False, None), (b"a", b"b", None)],
)
def test_order_is_of_numbers_or_of_texts(left: Value, right: Value, sign: int | None) -> None:
    assert order(left, right) == sign


def test_a_large_whole_number_compares_exactly() -> None:
    assert order(2**63, 2**63 + 1) == -1


def test_truth_is_spelt_in_any_case() -> None:
    assert truth_of("True") is True
    assert truth_of("FALSE") is False
    assert truth_of("1") is None
    assert truth_of(1) is None


def test_whole_division_rounds_towards_zero() -> None:
    assert [divide(7, 2), divide(-7, 2), divide(7, -2), divide(7, 2.0)] == [3, -3, -3, 3.5]
    assert divide(1, 0) is None
    assert divide(1.0, 0.0) is None


def test_numbers_do_not_grow_beyond_64_bits() -> None:
    assert isinstance(bounded(2**63 - 1), int)
    assert isinstance(bounded(2**63), float)
    assert isinstance(bounded(-(2**63) - 1), float)
