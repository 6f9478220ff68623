"""Pages: lists of things, found and described a few at a time.

There may be tens of thousands of queues and a million groups, and to describe one thing takes some
microseconds. So a list is a walk that fills a `Page` step by step. `Listing` is the job that does
such a walk beside everything else. `whole` does all of it at once, for a caller that can wait.

What a walk comes to later may have changed since it began. A thing that is gone by then is left
out, or shown as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from covey.core.jobs.job import Job, Steps
from covey.core.management.describe import Attributes
from covey.core.session import Session

Thing = TypeVar("Thing")


@dataclass(slots=True)
class Page:
    """Some rows of a list, and how many the whole list has."""

    rows: list[Attributes] = field(default_factory=list)
    total: int = 0


Walk = Callable[[Page], Steps]


class Listing(Job):
    """Fills a page, in portions."""

    def __init__(self, target: str, session: Session | None, walk: Walk) -> None:
        super().__init__("list", target, session, 0)
        self.page = Page()
        self.outlives_session = False
        self._steps_of_walk = walk(self.page)

    def steps(self) -> Steps:
        """Do the walk."""
        yield from self._steps_of_walk


def whole(walk: Walk) -> tuple[list[Attributes], int]:
    """Do all of a walk now; return its rows and the length of the list."""
    page = Page()
    for _ in walk(page):
        pass
    return page.rows, page.total


def describing(
    chosen: Sequence[Thing], describe: Callable[[Thing], Attributes | None], total: int
) -> Walk:
    """Return a walk that describes the chosen things; None leaves a thing out."""

    def walk(page: Page) -> Steps:
        page.total = total
        for thing in chosen:
            row = describe(thing)
            if row is not None:
                page.rows.append(row)
            yield 1

    return walk
