"""Report: what the store's thread and the loop hand each other: pages wanted, work done."""

from __future__ import annotations

from covey.core.errors import StoreError
from covey.core.stores.base import BodyRecord


class Page:
    """Bodies somebody wants, and then the bodies."""

    __slots__ = ("bodies", "places", "ticket")

    def __init__(self, ticket: int, places: list[int]) -> None:
        self.ticket = ticket
        self.places = places
        self.bodies: list[BodyRecord] = []


class Report:
    """What the thread has done since the loop last asked."""

    __slots__ = ("error", "pages", "pressure", "tickets")

    def __init__(self) -> None:
        self.tickets: list[int] = []
        self.pages: list[Page] = []
        self.pressure: str | None = None  # None: nothing new
        self.error: StoreError | None = None
