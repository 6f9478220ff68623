# Compiled by mypyc: see setup.py.
"""StoreListener: what a store tells the core, and when.

A store works beside the core and answers later. The store is made first, so that the core can
recover what the store holds. So the core names its listener (`MessageStore.listen`), once, before
it asks for anything. All calls are made on the event loop's thread.

| call     | when                                      | the core then                            |
|----------|-------------------------------------------|------------------------------------------|
| finished | a batch is on disk                        | shows its messages, sends its receipts   |
| finished | with an error: nothing can be written     | promises nothing any more; this is final |
| lost     | the same, while no batch was under way    | the same                                 |
| paged    | bodies were read that were asked for      | gives them to their entries              |
| pressed  | the disk is full, or ("") has room again  | lets producers wait, or go on            |

`paged` leaves out bodies that are missing or damaged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from covey.core.storage.store import BodyRecord


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreListener(ABC):
    """Who gets a store's reports."""

    @abstractmethod
    def finished(self, ticket: int, error: Exception | None) -> None:
        """Called when a batch is on disk; with an error: nothing can be written any more."""

    @abstractmethod
    def lost(self, error: Exception) -> None:
        """Called when nothing can be written any more, while no batch was under way."""

    @abstractmethod
    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        """Take the bodies that were asked for."""

    @abstractmethod
    def pressed(self, reason: str) -> None:
        """Called with the reason why nothing persistent can be written now, "" when it can."""


class NobodyYet(StoreListener):
    """The listener until `listen` is called: a report so early is a bug."""

    def finished(self, ticket: int, error: Exception | None) -> None:
        """Fail: no batch was handed over."""
        raise AssertionError("the store reported a batch before anybody listened")

    def lost(self, error: Exception) -> None:
        """Fail: nobody could act on it."""
        raise AssertionError(f"the store failed before anybody listened: {error}")

    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        """Fail: no body was asked for."""
        raise AssertionError("the store brought bodies before anybody listened")

    def pressed(self, reason: str) -> None:
        """Fail: nothing was to be written."""
        raise AssertionError("the store reported its disk before anybody listened")
