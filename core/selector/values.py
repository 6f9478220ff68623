# Compiled by mypyc: see setup.py.
"""What selectors compute with: values, and the three-valued logic of SQL on them.

STOMP headers are all text, AMQP properties have types, and one selector must serve both. Hence:

    text with a number    the text is read as a number; if it is no number, the result is unknown
    text with a boolean   the text is read as true or false, in any case
    text with text        compared as text; the order is by code point
    anything else mixed   unknown; a comparison with a missing property (None) is unknown, too

"Unknown" is None, and a message matches only when the whole selector is True. Whole numbers stay
whole as in JMS (7 / 2 is 3). Beyond 64 bits they become floats, so no arithmetic can grow without
bound. Dividing by zero is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | bytes | None
Number: TypeAlias = int | float
Truth: TypeAlias = bool | None
Lookup: TypeAlias = Callable[[str], Value]

WHOLE_MAX = 2**63 - 1
WHOLE_MIN = -(2**63)
WHOLE_DIGITS_MAX = 18  # this many decimal digits always fit in 64 bits
NUMBER_LENGTH_MAX = 64  # no real number is longer; a longer text is not parsed
DECIMAL = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)


def text_number(text: str) -> Number | None:
    """Read a text as a number; None if it is not one."""
    if len(text) <= WHOLE_DIGITS_MAX and text.isascii() and text.isdigit():
        return int(text)
    if len(text) > NUMBER_LENGTH_MAX or not DECIMAL.fullmatch(text):
        return None
    if len(text) <= WHOLE_DIGITS_MAX and not any(char in text for char in ".eE"):
        return int(text)
    return float(text)


def number_of(value: Value) -> Number | None:
    """Return the number that a value is, or that its text spells; None if it is neither."""
    if isinstance(value, str):
        return text_number(value)
    if isinstance(value, (bool, bytes)):
        return None
    return value


def truth_of(value: Value) -> Truth:
    """Return the truth value that a value is, or that its text spells; else None (unknown)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.lower()
        if word == "true":
            return True
        if word == "false":
            return False
    return None


def equal(left: Value, right: Value) -> Truth:
    """Return True if two values are equal."""
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        truth = truth_of(left)
        other = truth_of(right)
        return None if truth is None or other is None else truth == other
    if isinstance(left, bytes) or isinstance(right, bytes):
        return left == right if type(left) is type(right) else None
    sign = order(left, right)
    return None if sign is None else sign == 0


def order(left: Value, right: Value) -> int | None:
    """Return -1, 0 or 1 as left is less, equal or greater; None if they have no order."""
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    number = number_of(left)
    other = number_of(right)
    if number is None or other is None:
        return None
    if number != number or other != other:  # NaN, which only an AMQP property can be
        return None
    return (number > other) - (number < other)


def inverse(truth: Truth) -> Truth:
    """Return NOT of a truth value; unknown stays unknown."""
    return None if truth is None else not truth


def add(left: Number, right: Number) -> Number:
    """Add within 64 bits."""
    return bounded(left + right)


def subtract(left: Number, right: Number) -> Number:
    """Subtract within 64 bits."""
    return bounded(left - right)


def multiply(left: Number, right: Number) -> Number:
    """Multiply within 64 bits."""
    return bounded(left * right)


def divide(left: Number, right: Number) -> Number | None:
    """Divide; two whole numbers give a whole one, rounded towards zero."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return bounded(quotient if (left < 0) == (right < 0) else -quotient)
    return left / right


def bounded(number: Number) -> Number:
    """Turn a whole number that does not fit in 64 bits into a float."""
    if isinstance(number, int) and not WHOLE_MIN <= number <= WHOLE_MAX:
        return float(number)
    return number
