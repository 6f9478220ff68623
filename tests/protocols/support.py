"""Engines that do as little as a test of the shell needs."""

from __future__ import annotations

from covey.protocols.engine import Engine


class SilentEngine(Engine):
    """Takes everything, says what a test puts into `outbox`, and writes down what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = b""
        self.outbox = b""
        self.ticks = 0
        self.deadline: float | None = None
        self.losses = 0
        self.failures = 0

    def receive(self, data: bytes, now: float) -> None:
        self.heard += data

    def outgoing(self) -> bytes:
        data, self.outbox = self.outbox, b""
        return data

    def tick(self, now: float) -> float | None:
        self.ticks += 1
        return self.deadline

    def lost(self, now: float) -> None:
        self.losses += 1

    def shut_down(self, reason: str, now: float) -> None:
        self.outbox += reason.encode()
        self.is_closed = True
        self.wake()

    def count_failure(self) -> None:
        self.failures += 1

    def kick(self, reason: str) -> None:
        self.shut_down(reason, 0.0)
