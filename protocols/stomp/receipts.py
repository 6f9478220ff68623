# Compiled by mypyc: see setup.py.
"""Receipts: what a client is owed once the frames it sent are safe.

A RECEIPT leaves when the store has everything that this client did up to its frame, in the order of
the frames; what other clients do it does not wait for. That of a frame in a transaction waits there
for the COMMIT, leaves just before the COMMIT's own, and never after an ABORT.

Those of neighbouring SENDs wait as one list and leave as one piece. They count as pending until the
shell has taken them: a peer that asks and never reads must not fill the outbox. Those that wait in
a transaction do not count, or the COMMIT could not be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.protocols.stomp.frame import encode
from covey.protocols.stomp.send_plan import SendPlan

if TYPE_CHECKING:
    from covey.protocols.stomp.engine import StompEngine

USUAL: Final = b"RECEIPT\nreceipt-id:%s\n\n\0\n"  # of an id that needs no escapes


class Receipts:
    """The RECEIPT frames of one connection."""

    __slots__ = ("_engine", "_gathered", "_send_gathered", "_written", "pending")

    def __init__(self, engine: StompEngine) -> None:
        """Start with none asked for."""
        self._engine = engine
        self.pending = 0  # asked for and not on their way yet
        self._written = 0  # of those, how many lie in the outbox
        self._gathered: list[bytes] = []  # those that `_send_gathered` is to send
        self._send_gathered: Callable[[], None] | None = None

    def answer(self, plan: SendPlan, receipt: bytes) -> bytes:
        """Write the RECEIPT that a SEND asks for in a line of its own or in its plan, or b""."""
        if receipt:
            return USUAL % receipt
        return b"" if plan.receipt is None else self.written(plan.receipt)

    def written(self, receipt: str) -> bytes:
        """Write a RECEIPT."""
        return encode("RECEIPT", [("receipt-id", receipt)], b"", self._engine.version)

    def owe(self, frame: bytes) -> None:
        """Send a RECEIPT when everything this client did so far is safe."""
        engine = self._engine
        promises = engine.broker.promises
        session = engine.session
        assert session is not None
        if promises.claim_behind(session, self._send_gathered):
            self._gathered.append(frame)
            self.pending += 1
        else:
            self._gathered = [frame]
            self._send_gathered = self.sender(self._gathered)
            promises.after(session, self._send_gathered)

    def sender(self, frames: list[bytes]) -> Callable[[], None]:
        """Return what sends RECEIPTs; more may be added to them until then."""
        self.pending += len(frames)

        def send() -> None:
            self._written += len(frames)
            if not self._engine.is_closed:
                self._engine.send(b"".join(frames))

        return send

    def taken(self) -> None:
        """Hear that everything in the outbox is on its way."""
        self.pending -= self._written
        self._written = 0
