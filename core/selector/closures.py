# Compiled by mypyc: see setup.py.
"""What a compiled selector is made of: small functions that make a test out of other tests.

A condition returns True, False or None (unknown). An operand returns a value. Both are called with
the message's `lookup`. A closure is made once per subscription, and called once per message. So
everything that can be known in advance is worked out when the closure is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from covey.core.naming.pattern import Regex
from covey.core.selector.values import (
    Lookup,
    Number,
    Truth,
    Value,
    equal,
    inverse,
    number_of,
    order,
    truth_of,
)

Condition: TypeAlias = Callable[[Lookup], Truth]
Operand: TypeAlias = Callable[[Lookup], Value]
Arithmetic: TypeAlias = Callable[[Number, Number], Number | None]

ORDERINGS: dict[str, tuple[int, ...]] = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
"""Which results of `order` make each sign true."""


def no_properties(name: str) -> Value:
    """Look up nothing: for expressions of constants."""
    return None


def constant(value: Value) -> Operand:
    """An operand that is always the same."""
    return lambda lookup: value


def constant_truth(truth: bool) -> Condition:
    """A condition that is always the same."""
    return lambda lookup: truth


def named(name: str) -> Operand:
    """The message's property of this name."""
    return lambda lookup: lookup(name)


def as_condition(operand: Operand) -> Condition:
    """A property that stands alone: true if it is or spells true."""
    return lambda lookup: truth_of(operand(lookup))


def negated(test: Condition) -> Condition:
    """NOT: unknown stays unknown."""
    return lambda lookup: inverse(test(lookup))


def all_of(tests: list[Condition]) -> Condition:
    """AND: false if one is false, else unknown if one is unknown."""

    def both(lookup: Lookup) -> Truth:
        result: Truth = True
        for test in tests:
            truth = test(lookup)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return both


def any_of(tests: list[Condition]) -> Condition:
    """OR: true if one is true, else unknown if one is unknown."""

    def either(lookup: Lookup) -> Truth:
        result: Truth = False
        for test in tests:
            truth = test(lookup)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return either


def compared(sign: str, left: Operand, right: Operand) -> Condition:
    """One of the six comparisons."""
    if sign == "=":
        return lambda lookup: equal(left(lookup), right(lookup))
    if sign == "<>":
        return lambda lookup: inverse(equal(left(lookup), right(lookup)))
    wanted = ORDERINGS[sign]

    def ordered(lookup: Lookup) -> Truth:
        found = order(left(lookup), right(lookup))
        return None if found is None else found in wanted

    return ordered


def equal_to_text(operand: Operand, text: str) -> Condition:
    """`name = 'text'`, by far the most common test: a third faster than the general one."""

    def same(lookup: Lookup) -> Truth:
        value = operand(lookup)
        return value == text if isinstance(value, str) else equal(value, text)

    return same


def between(operand: Operand, low: Operand, high: Operand) -> Condition:
    """BETWEEN: both ends belong to the range."""
    return all_of([compared(">=", operand, low), compared("<=", operand, high)])


def member(operand: Operand, listed: list[Value]) -> Condition:
    """IN: equal to one of the constants."""
    general = any_of([compared("=", operand, constant(value)) for value in listed])
    texts = frozenset(value for value in listed if isinstance(value, str))
    if not all(isinstance(value, str) for value in listed):
        return general

    def contained(lookup: Lookup) -> Truth:
        value = operand(lookup)
        return value in texts if isinstance(value, str) else general(lookup)

    return contained


def alike(operand: Operand, regex: Regex) -> Condition:
    """LIKE: for text only, anything else is unknown."""

    def fits(lookup: Lookup) -> Truth:
        value = operand(lookup)
        return regex.matches(value) if isinstance(value, str) else None

    return fits


def missing(operand: Operand) -> Condition:
    """IS NULL: never unknown."""
    return lambda lookup: operand(lookup) is None


def computed(first: Operand, steps: list[tuple[Arithmetic, Operand]]) -> Operand:
    """A chain of sums or products, from left to right; unknown if one operand is no number."""

    def result(lookup: Lookup) -> Value:
        total = number_of(first(lookup))
        for calculate, operand in steps:
            number = number_of(operand(lookup))
            if total is None or number is None:
                return None
            total = calculate(total, number)
        return total

    return result
