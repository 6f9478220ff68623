"""Filters: turns Spark's filters into conditions by which the broker sends less.

    queue      equal, in                       these queues only
    seq        equal, <, <=, >, >=             a narrower range
    group_id   equal, in, starts with          a selector
    message_id equal, in, starts with          a selector

Spark applies every filter once more. So a condition may let too many messages through, but never
too few. A group id may be in any of several headers, so the selector names them all. All other
filters are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from covey.groups.key import DEFAULT_HEADERS
from covey.pipeline.datasource.offsets import Range

NUMBER_MAX: Final = 2**63
NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)  # as in a selector
TERMS_MAX: Final = 50  # a selector has limited length and depth


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the broker is asked for."""

    selectors: tuple[str, ...] = ()
    queues: frozenset[str] | None = None  # None: all
    first: int = 0
    end: int = NUMBER_MAX

    def admits(self, queue: str) -> bool:
        """Return True if a queue can have a row that passes."""
        return self.queues is None or queue in self.queues

    def narrowed(self, part: Range) -> Range:
        """Return the part of a range that can have a row that passes."""
        return Range(part.queue, max(part.first, self.first), min(part.end, self.end))

    def selector(self, given: str) -> str:
        """Return one selector that combines these conditions with the user's selector."""
        every = [f"({text})" for text in (given, *self.selectors) if text]
        return " AND ".join(every)


def push(filters: Iterable[Filter], group_header: str) -> Pushed:
    """Return what the broker can do of these filters; a row must pass all of them."""
    pushed = Pushed()
    for one in filters:
        column = getattr(one, "attribute", ())
        if column == ("queue",):
            pushed = _by_queue(pushed, one)
        elif column == ("seq",):
            pushed = _by_number(pushed, one)
        elif column in (("group_id",), ("message_id",)):
            names = (group_header,) if group_header else DEFAULT_HEADERS
            text = _selector(one, ("JMSMessageID",) if column == ("message_id",) else names)
            if text:
                pushed = replace(pushed, selectors=(*pushed.selectors, text))
    return pushed


def _by_queue(pushed: Pushed, one: Filter) -> Pushed:
    named = _texts(one)
    if not named:
        return pushed
    known = frozenset(named)
    return replace(pushed, queues=known if pushed.queues is None else pushed.queues & known)


def _by_number(pushed: Pushed, one: Filter) -> Pushed:
    first, end = 0, NUMBER_MAX
    if isinstance(one, EqualTo):
        first, end = one.value, one.value + 1
    elif isinstance(one, GreaterThan):
        first = one.value + 1
    elif isinstance(one, GreaterThanOrEqual):
        first = one.value
    elif isinstance(one, LessThan):
        end = one.value
    elif isinstance(one, LessThanOrEqual):
        end = one.value + 1
    return replace(pushed, first=max(pushed.first, first), end=min(pushed.end, end))


def _selector(one: Filter, headers: tuple[str, ...]) -> str:
    if not all(NAME.fullmatch(header) for header in headers):
        return ""
    if isinstance(one, StringStartsWith):
        start = re.sub(r"([%_\\])", r"\\\1", one.value)
        tests = [f"{header} LIKE {_quoted(start + '%')} ESCAPE '\\'" for header in headers]
    else:
        values = ", ".join(_quoted(text) for text in _texts(one))
        tests = [f"{header} IN ({values})" for header in headers] if values else []
    return " OR ".join(tests)


def _texts(one: Filter) -> list[str]:
    """Return the texts that a filter allows for a column; empty if it is another filter."""
    values: tuple[object, ...] = ()
    if isinstance(one, EqualTo):
        values = (one.value,)
    elif isinstance(one, In):
        values = tuple(one.value)
    texts = [value for value in values if isinstance(value, str)]
    return texts if len(texts) == len(values) <= TERMS_MAX else []


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
