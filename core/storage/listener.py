# Compiled by mypyc: see setup.py.
"""StoreListener: what a store tells the core, whenever that is.

A store works beside the core and answers later. It is made before the core, which may then bring
back what the store holds; so the core says who listens (`MessageStore.listen`), once, before it
asks for anything. All calls are made on the loop's own thread.

| call     | when                                      | the core then                            |
|----------|-------------------------------------------|------------------------------------------|
| finished | a batch is on disk                        | shows its messages, sends its receipts   |
| finished | with an error: nothing can be written     | promises nothing any more; this is final |
| lost     | the same, while no batch was under way    | the same                                 |
| paged    | bodies were read that were asked for      | gives them to their entries              |
| pressed  | the disk is full, or ("") has room again  | lets producers wait, or go on            |

A body that is missing or damaged is not among those that `paged` brings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from covey.core.storage.store import BodyRecord


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreListener(ABC):
    """Whom a store tells."""

    @abstractmethod
    def finished(self, ticket: int, error: Exception | None) -> None:
        """Hear that a batch is on disk, or that nothing will be any more."""

    @abstractmethod
    def lost(self, error: Exception) -> None:
        """Hear that nothing can be written any more, while no batch was under way."""

    @abstractmethod
    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        """Take the bodies that were asked for."""

    @abstractmethod
    def pressed(self, reason: str) -> None:
        """Hear why nothing persistent can be written now; "": it can again."""


class NobodyYet(StoreListener):
    """Whom a store tells before anybody listens: a report then is a mistake of the program."""

    def finished(self, ticket: int, error: Exception | None) -> None:
        """Nothing was handed over."""
        raise AssertionError("the store reported a batch before anybody listened")

    def lost(self, error: Exception) -> None:
        """Nobody could act on it."""
        raise AssertionError(f"the store failed before anybody listened: {error}")

    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        """Nothing was asked for."""
        raise AssertionError("the store brought bodies before anybody listened")

    def pressed(self, reason: str) -> None:
        """Nothing was to be written."""
        raise AssertionError("the store reported its disk before anybody listened")
