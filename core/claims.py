"""Claims: names that one reader at a time may have, and who has each.

A client that comes back before the broker has noticed that its old connection is dead takes its
place: whoever claims a name ends the one that has it. The name is the protocol's to choose; it
must say whose it is (host, user, client), or strangers could end each other.
"""

from __future__ import annotations

from collections.abc import Callable

Name = tuple[str, ...]


class Claims:
    """Who has which name."""

    def __init__(self) -> None:
        self._held: dict[Name, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def evict(self, name: Name) -> None:
        """End whoever has the name."""
        lost = self._held.pop(name, None)
        if lost is not None:
            lost()

    def hold(self, name: Name, lost: Callable[[], None]) -> None:
        """Have a free name; `lost` is called when another claims it."""
        assert name not in self._held, f"{name} is taken: evict first"
        self._held[name] = lost

    def release(self, name: Name, lost: Callable[[], None]) -> None:
        """Give a name back, unless another has it by now."""
        if self._held.get(name) == lost:
            del self._held[name]
