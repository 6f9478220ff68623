"""MessageClient: what a command does with messages, in any protocol.

Destinations and headers are STOMP's, because these are the simplest. A client of another protocol
translates them. Refusals are raised as errors of `client.errors`, at the latest by the next
`confirm`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

TIMEOUT_S: Final = 10.0
SEQ_HEADER: Final = "covey-seq"  # the header with a message's number in a browse

Headers = list[tuple[str, str]]


class Delivery:
    """A message that came, in STOMP's words."""

    __slots__ = ("body", "headers")

    def __init__(self, headers: dict[str, str], body: bytes) -> None:
        self.headers = headers
        self.body = body

    @property
    def is_end(self) -> bool:
        """Return True if this is the end mark after the last message of a browse."""
        return self.headers.get("browser") == "end"


class Closing(ABC):
    """Something that is closed at the end of a `with`."""

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
        """Disconnect; unacknowledged messages go to other consumers."""


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
        """Subscribe to a destination; returns when the broker has confirmed."""

    @abstractmethod
    def message(self, timeout_s: float | None) -> Delivery | None:
        """Return the next message, or None if none comes in time; no timeout waits for ever."""

    @abstractmethod
    def ack(self, delivery: Delivery, *, credit: int = 0) -> None:
        """Acknowledge a message; `credit` adds to a window that acknowledgements do not reopen."""
