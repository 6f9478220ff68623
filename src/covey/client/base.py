"""MessageClient: what a command does with messages, whatever wire they go over.

Destinations and headers are STOMP's, the plainest words there are; a client of another protocol
translates them. Refusals are raised as `client.errors` says, at the latest by the next `confirm`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

TIMEOUT_S: Final = 10.0
SEQ_HEADER: Final = "covey-seq"  # where a browse is told each message's number

Headers = list[tuple[str, str]]


class Delivery:
    """A message that came, in STOMP's words."""

    __slots__ = ("body", "headers")

    def __init__(self, headers: dict[str, str], body: bytes) -> None:
        self.headers = headers
        self.body = body

    @property
    def is_end(self) -> bool:
        """True for the mark behind the last message of a browse."""
        return self.headers.get("browser") == "end"


class Closing(ABC):
    """Something that is let go at the end of a `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let the broker go; what is unacknowledged goes to others."""


class MessageClient(Closing):
    """A connection to one broker that sends, or reads from one destination."""

    timeout_s = TIMEOUT_S

    @abstractmethod
    def send(self, destination: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a message."""

    @abstractmethod
    def confirm(self) -> None:
        """Wait until the broker has handled everything sent so far."""

    @abstractmethod
    def subscribe(self, destination: str, headers: Iterable[tuple[str, str]]) -> None:
        """Read a destination; returns when the broker has agreed."""

    @abstractmethod
    def message(self, timeout_s: float | None) -> Delivery | None:
        """Return the next message, or None if none comes in time; None waits for ever."""

    @abstractmethod
    def ack(self, delivery: Delivery, *, credit: int = 0) -> None:
        """Settle a message; `credit` opens a window that does not open by itself."""
