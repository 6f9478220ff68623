# Compiled by mypyc: see setup.py.
"""Acceptance: very many deliveries that a peer accepts at once, settled in portions.

They are settled in the order they were given, which is that of their deliveries. Until its turn
comes, an entry stays with its consumer, and nobody else gets it. If the consumer leaves meanwhile,
the rest is settled first (`Broker.unsubscribe`): what was accepted is not delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.jobs.job import Job, Steps

if TYPE_CHECKING:
    from covey.core.model.consumer import Consumer
    from covey.core.model.entry import Entry
    from covey.core.session import Session

ROW: Final = 64  # entries settled in one step
AT_ONCE: Final = 1000  # so many deliveries need no job


class Acceptance(Job):
    """Settles rows of entries; each row is of one consumer."""

    def __init__(self, session: Session, rows: list[tuple[Consumer, list[Entry]]]) -> None:
        total = sum([len(row) for _, row in rows])
        super().__init__("accept", f"{total} deliveries", session, total)
        self._rows = rows

    def steps(self) -> Steps:
        """Settle some of a row at a time."""
        for consumer, row in self._rows:
            for start in range(0, len(row), ROW):
                source = consumer.queue
                if source is None:
                    break  # it has left, and what it held is back
                part = row[start : start + ROW]
                source.accept(consumer, part, self.now)
                yield len(part)
