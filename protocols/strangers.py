"""Strangers: how many connections of one address have not logged in yet.

A stranger costs memory and a file for as long as its login may take, so one address may have only
so many of them. Nobody reports a login here: a connection counts until it is looked at again, and
it is looked at only when its address seems to have too many. So an accept costs the same with ten
connections and with ten thousand. A TLS handshake that goes on is a stranger, too.
"""

from __future__ import annotations

from covey.protocols.engine import Engine


class Handshake:
    """A connection that has no engine yet."""

    is_stranger = True


class Strangers:
    """The connections of each address that may not have logged in."""

    def __init__(self, pending_max: int) -> None:
        self.pending_max = pending_max
        self._by_address: dict[str, set[Engine | Handshake]] = {}

    def admit(self, address: str, engine: Engine | Handshake) -> bool:
        """Count a new connection; False: its address has too many strangers already."""
        pending = self._by_address.setdefault(address, set())
        if len(pending) >= self.pending_max:
            pending.intersection_update([one for one in pending if one.is_stranger])
        if len(pending) >= self.pending_max:
            return False
        pending.add(engine)
        return True

    def forget(self, address: str, engine: Engine | Handshake) -> None:
        """Stop counting a connection that has ended."""
        pending = self._by_address.get(address)
        if pending is not None:
            pending.discard(engine)
            if not pending:
                del self._by_address[address]
