# Compiled by mypyc: see setup.py.
"""Query: the table that answers a QUERY, filled and encoded a row at a time.

A page has up to a thousand rows with some thirty values each. To describe and encode them takes
longer than others should have to wait, so a QUERY is a job (`core.management.pages`). One answer
has as many rows as a message may have values, and at least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from covey.core.jobs.job import Steps
from covey.core.management.admin import Admin
from covey.core.management.describe import Attributes, Plain
from covey.core.management.pages import Page, Walk
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.links.management_request import Encoded, Request
from covey.protocols.amqp.links.management_types import SELF, SELF_TYPE, entity

ROWS_MAX: Final = 1000


class Query:
    """One request for a table of entities."""

    def __init__(
        self,
        admin: Admin,
        request: Request,
        types: Sequence[str],
        names: Sequence[str],
        now: float,
    ) -> None:
        """Read the request; raises RefusedError if its user may not see one of the types."""
        self._admin = admin
        self._now = now
        self._types = types
        self._names = names
        self._start = request.number("offset", 0)
        self._left = min(request.number("count", ROWS_MAX), ROWS_MAX)
        self._queue = str(request.option("queue") or "")
        self._waiting = request.option("waiting") is True
        self._parked = request.option("parked") is True
        self._rows: list[bytes] = []
        self._total = 0
        for type_name in types:  # so that what is refused is refused now
            if type_name != SELF_TYPE:
                self._walk(type_name, 0, 0)

    def steps(self, values_max: int) -> Steps:
        """Find the entities of one type after the other, and encode them."""
        left = values_max
        is_full = False
        for type_name in self._types:
            found = Page([SELF], 1)
            first = max(0, self._start - self._total)
            if type_name == SELF_TYPE:
                found.rows = found.rows[first : first + self._left]
            else:
                found = Page()
                yield from self._walk(type_name, first, self._left)(found)
            self._left -= len(found.rows)
            self._total += found.total
            for row in found.rows:
                values = self._values_of(type_name, row)
                left -= _count(values)
                is_full = is_full or (left < 0 and bool(self._rows))
                if not is_full:
                    self._rows.append(encoder.value(values))
                yield 1

    def body(self) -> Encoded:
        """Return the table, encoded."""
        parts = [
            encoder.string("attributeNames"),
            encoder.value(self._names),
            encoder.string("results"),
            encoder.compound(self._rows),
            encoder.string("total"),
            encoder.whole(self._total),
        ]
        return Encoded(encoder.compound(parts, is_map=True))

    def _walk(self, type_name: str, start: int, count: int) -> Walk:
        return self._admin.walk(
            type_name,
            self._now,
            start,
            count,
            queue=self._queue,
            waiting=self._waiting,
            parked=self._parked,
        )

    def _values_of(self, type_name: str, row: Attributes) -> list[Plain]:
        found = row if type_name == SELF_TYPE else entity(type_name, row)
        return [found.get(name) for name in self._names]


def _count(value: Plain) -> int:
    """Count a value and all values in it."""
    if isinstance(value, dict):
        return 1 + len(value) + sum([_count(each) for each in value.values()])
    if isinstance(value, list | tuple):
        return 1 + sum([_count(each) for each in value])
    return 1
