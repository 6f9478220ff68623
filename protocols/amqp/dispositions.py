"""Dispositions: what is to be said of deliveries, joined to ranges.

Deliveries are mostly answered in their order and alike, so one frame answers for all of a read.
What is said of one delivery keeps its order.

Source: AMQP 1.0 section 2.7.6.
"""

from __future__ import annotations

from covey.protocols.amqp.encoder import NULL, boolean, uint
from covey.protocols.amqp.performatives import DISPOSITION, MASK, frame_of, performative


class Dispositions:
    """What one session has to say as a receiver, or as a sender."""

    __slots__ = ("_first", "_following", "_is_settled", "_ranges", "_state", "receives")

    def __init__(self, *, receives: bool) -> None:
        self.receives = receives
        self._ranges: list[tuple[int, int, bool, bytes]] = []
        self._state: bytes | None = None  # of the range that may still grow; None: there is none
        self._is_settled = False
        self._first = 0
        self._following = 0

    def add(self, number: int, state: bytes, is_settled: bool) -> None:
        """Say something of one delivery."""
        if number == self._following and state == self._state and is_settled == self._is_settled:
            self._following = (number + 1) & MASK
            return
        self._finish()
        self._state = state
        self._is_settled = is_settled
        self._first = number
        self._following = (number + 1) & MASK

    def write(self, channel: int, parts: list[bytes]) -> None:
        """Write everything there is to say."""
        if self._state is None:
            return
        self._finish()
        for first, last, is_settled, state in self._ranges:
            fields = (
                boolean(self.receives),
                uint(first),
                uint(last) if last != first else NULL,
                boolean(is_settled),
                state,
            )
            parts.append(frame_of(channel, performative(DISPOSITION, *fields)))
        self._ranges.clear()

    def _finish(self) -> None:
        if self._state is not None:
            last = (self._following - 1) & MASK
            self._ranges.append((self._first, last, self._is_settled, self._state))
            self._state = None
