"""Doorman: serves a connection until it is known which virtual host it wants.

Each virtual host has a broker of its own, and an engine belongs to one broker. So the first engine
of a connection is a doorman. It reads no more than it must (`Opening`): a STOMP peer's first frame,
an AMQP peer's login and its open. Then the engine of that virtual host takes its place, and gets
all that was read.

The doorman judges nothing. What makes no sense, what is too long and who is too late goes to the
engine of the first virtual host, which says so as it always did: the limits and deadlines of a
login are the engine's alone. Only a virtual host that nobody serves is refused here.

Where a port has one virtual host to choose from, there is no doorman.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.core.errors import BrokerError, RefusedError
from covey.protocols.engine import Engine, Log, MakeEngine, Peer

if TYPE_CHECKING:
    from covey.core.broker.directory import Directory

Replace = Callable[[Engine], None]


class Opening(ABC):
    """What a protocol's peer says until its virtual host is known, bytes in and bytes out."""

    def __init__(self, timeout_s: float) -> None:
        """Wait for the peer; the engine's own deadline is `timeout_s` after the accept."""
        self.timeout_s = timeout_s
        self.is_known = False  # no more need be read
        self.host: str | None = None  # what the peer asks for; None: nothing, or it is not known

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""

    def outgoing(self) -> bytes:
        """Give the bytes for the peer."""
        return b""

    @abstractmethod
    def hand_over(self, engine: Engine, now: float, *, is_refused: bool) -> None:
        """Let an engine go on with what was read; if it is to refuse the peer, without an open."""


class Doorman(Engine):
    """The first engine of a connection."""

    def __init__(
        self,
        opening: Opening,
        directory: Directory,
        make: Callable[[str], MakeEngine],
        peer: Peer,
        log: Log,
        now: float,
    ) -> None:
        """Wait for the peer; `make` returns what makes the engines of a virtual host."""
        super().__init__(peer.remote, log)
        self.opening = opening
        self.replace: Replace = _nobody  # set by the connection
        self._directory = directory
        self._make = make
        self._peer = peer
        self._accepted_at = now
        self._successor: Engine | None = None

    def receive(self, data: bytes, now: float) -> None:
        """Read until the virtual host is known."""
        self.opening.receive(data)
        if self.opening.is_known:
            self._open(now)
        else:
            self.wake()  # the opening may have something to say

    def outgoing(self) -> bytes:
        """Give what the opening has to say."""
        return self.opening.outgoing()

    def tick(self, now: float) -> float | None:
        """Let the engine give up on who says nothing."""
        deadline = self._accepted_at + self.opening.timeout_s
        if now < deadline:
            return deadline
        self._hand_over(self._any_space(), now)
        return None

    def lost(self, now: float) -> None:
        """Let go: nothing is held."""
        self.is_closed = True

    def shut_down(self, reason: str, now: float) -> None:
        """Have an engine tell the peer."""
        self._refuse(RefusedError(reason, "shutdown"), now)

    def refuse(self, error: BrokerError, now: float) -> None:
        """Have an engine tell the peer."""
        self._refuse(error, now)

    def break_off(self, now: float) -> None:
        """Close: this doorman has raised."""
        self.is_closed = True

    def kick(self, reason: str) -> None:
        """Close: nobody in the core knows of it."""
        self.is_closed = True

    def count_failure(self) -> None:
        """Count an exception that came out of this engine."""
        self._directory.internal_errors += 1

    def _open(self, now: float) -> None:
        try:
            space = self._directory.space_named(self.opening.host)
        except RefusedError:
            space = self._any_space()  # its engine refuses the name, once it knows who asks
        if space in self._directory.brokers:
            self._hand_over(space, now)
        else:
            self._refuse(
                RefusedError(f"virtual host {space} is not served now", "unavailable"), now
            )

    def _any_space(self) -> str:
        """Return a virtual host that is served here; the first one if it is."""
        return self._directory.any_broker.host.id

    def _hand_over(self, space: str, now: float, *, is_refused: bool = False) -> Engine:
        """Let the engine of a virtual host take this one's place."""
        engine = self._make(space)(self._peer, self._accepted_at)
        self._successor = engine
        self.replace(engine)
        self.opening.hand_over(engine, now, is_refused=is_refused)
        self.reading = engine.reading
        return engine

    def _refuse(self, error: BrokerError, now: float) -> None:
        engine = self._successor or self._hand_over(self._any_space(), now, is_refused=True)
        engine.refuse(error, now)


def _nobody(engine: Engine) -> None:
    """Replace nothing: a doorman without a shell."""
