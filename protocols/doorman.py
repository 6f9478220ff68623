"""Doorman: serves a connection until it is known which virtual host it wants.

Each virtual host has a broker of its own, and an engine belongs to one broker. So the first engine
of a connection is a doorman. It reads no more than it must (`Opening`): a STOMP peer's first frame,
an AMQP peer's login and its open. Then the engine of that virtual host takes its place, and gets
all that was read.

The doorman judges nothing. The limits and deadlines of a login are the engine's alone. So a peer
whose bytes make no sense, are too many or come too late is handed to the engine of the first
virtual host, which refuses the peer as usual. Only a virtual host that nobody serves is refused
here. In a cluster the doorman waits a little before that: a broker that takes over from another
needs a moment.

A virtual host may be served by another process (`protocols.passing`). Then the connection goes
there, with all that the doorman has read and agreed on (`Passed`). The engine is made there.

Where a port has one virtual host to choose from, there is no doorman.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, RefusedError
from covey.protocols.engine import Engine, Log, MakeEngine, Peer

if TYPE_CHECKING:
    from covey.core.broker.directory import Directory

WAIT_S: Final = 2.0  # for somebody to serve a virtual host of a cluster
LOOK_EVERY_S: Final = 0.05

Replace = Callable[[Engine], None]
Login = Mapping[str, str | bool]


@dataclass(frozen=True, slots=True)
class Passed:
    """What goes with a connection that another process is to serve."""

    space: str
    """The virtual host that it wants."""
    peer: Peer
    age_s: float
    """How long ago it was accepted: the engine's deadlines count from there."""
    login: Login
    """What the doorman has agreed on with the peer; nothing if the login comes yet."""
    read: bytes
    """What the engine is to read."""


PassOn = Callable[[Passed], bool]


class Opening(ABC):
    """What a protocol's peer says until its virtual host is known, bytes in and bytes out."""

    def __init__(self, timeout_s: float) -> None:
        """Wait for the peer; the engine's own deadline is `timeout_s` after the accept."""
        self.timeout_s = timeout_s
        self.is_known = False  # True: the virtual host is known, no more need be read
        self.host: str | None = None  # what the peer asks for; None: no host, or not known yet

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""

    def outgoing(self) -> bytes:
        """Give the bytes for the peer."""
        return b""

    @abstractmethod
    def hand_over(self, engine: Engine, now: float, *, is_refused: bool) -> None:
        """Let an engine go on with what was read; without the open if it is to refuse the peer."""

    @abstractmethod
    def packed(self) -> tuple[Login, bytes] | None:
        """Return what was agreed on and what was read, for an opening in another process.

        Return None if the peer is to be refused: any engine of this process can do that.
        """

    @abstractmethod
    def unpack(self, login: Login, read: bytes) -> None:
        """Continue an opening of another process; raises RefusedError if that is impossible."""


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
        """Wait for the peer; `make` returns the factory of a virtual host's engines."""
        super().__init__(peer.remote, log)
        self.opening = opening
        self.replace: Replace = _nobody  # set by the connection
        self.pass_on: PassOn = _nowhere  # set by the connection; False: no other process serves it
        self._directory = directory
        self._make = make
        self._peer = peer
        self._accepted_at = now
        self._successor: Engine | None = None
        self._is_passed = False  # the connection is on its way to another process
        self._space: str | None = None  # the virtual host that is wanted, once it is known
        self._patience_ends = 0.0

    def receive(self, data: bytes, now: float) -> None:
        """Read until the virtual host is known."""
        self.opening.receive(data)
        if self.opening.is_known:
            self._open(now)
        else:
            self.wake()  # the opening may have output

    def outgoing(self) -> bytes:
        """Return the output of the opening."""
        return self.opening.outgoing()

    def tick(self, now: float) -> float | None:
        """Hand a peer that is too late to an engine; check if the virtual host is served by now."""
        if self._is_passed or not self._directory.has_any_broker:
            return None
        if self._space is not None:
            return None if self._successor is not None else self._look(now)
        deadline = self._accepted_at + self.opening.timeout_s
        if now < deadline:
            return deadline
        self._hand_over(self._any_space(), now)
        return None

    def lost(self, now: float) -> None:
        """Called when the peer is gone; a doorman holds nothing in the core."""
        self.is_closed = True

    def shut_down(self, reason: str, now: float) -> None:
        """Have an engine tell the peer."""
        self._refuse(RefusedError(reason, "shutdown"), now)

    def refuse(self, error: BrokerError, now: float) -> None:
        """Have an engine tell the peer."""
        self._refuse(error, now)

    def break_off(self, now: float) -> None:
        """Close the connection: this doorman has raised."""
        self.is_closed = True

    def kick(self, reason: str) -> None:
        """Close the connection; the core never calls this, since it has no session yet."""
        self.is_closed = True

    def count_failure(self) -> None:
        """Count an exception that came out of this engine."""
        self._directory.internal_errors += 1

    def _open(self, now: float) -> None:
        try:
            space = self._directory.space_named(self.opening.host)
        except RefusedError:
            # The engine of any virtual host refuses the name, once the peer has logged in.
            space = self._any_space() if self._directory.has_any_broker else ""
        self._space = space
        self._patience_ends = now if self._directory.shared.cluster is None else now + WAIT_S
        if self._look(now) is not None:
            self.reading = False
            self.wake()  # `tick` checks again

    def _look(self, now: float) -> float | None:
        """Go on if somebody serves the virtual host; return when to check again, if at all."""
        space = self._space or ""
        if self._directory.is_served(space):
            self._hand_over(space, now)
        elif (packed := self.opening.packed()) is None:
            self._refuse_as_engine(now)
        elif self._pass_on(Passed(space, self._peer, now - self._accepted_at, *packed)):
            self.wake()  # the output of the opening must be sent first
        elif now < self._patience_ends and not self._directory.is_elsewhere(space, now):
            return now + LOOK_EVERY_S
        else:
            self._directory.shared.clock.turn(now)
            self._refuse(self._directory.absence(space), now)
        return None

    def _pass_on(self, passed: Passed) -> bool:
        """Let another process serve the peer, if one does; then nothing more is read here."""
        self._is_passed = self.pass_on(passed)
        self.reading = not self._is_passed
        return self._is_passed

    def _refuse_as_engine(self, now: float) -> None:
        """Hand the peer to any engine, which finds out what is wrong and refuses the peer."""
        if self._directory.has_any_broker:
            self._hand_over(self._any_space(), now)
        else:
            self._close()

    def _any_space(self) -> str:
        """Return a virtual host that is served here; preferably the first one."""
        return self._directory.any_broker.host.id

    def _hand_over(self, space: str, now: float, *, is_refused: bool = False) -> Engine:
        """Let the engine of a virtual host take the doorman's place."""
        engine = self._make(space)(self._peer, self._accepted_at)
        self._successor = engine
        self.replace(engine)
        self.opening.hand_over(engine, now, is_refused=is_refused)
        self.reading = engine.reading
        return engine

    def _refuse(self, error: BrokerError, now: float) -> None:
        if not self._directory.has_any_broker:
            self._close()
            return
        engine = self._successor or self._hand_over(self._any_space(), now, is_refused=True)
        engine.refuse(error, now)

    def _close(self) -> None:
        """Close the connection without an error message: there is no engine to write one."""
        self.is_closed = True
        self.wake()


def _nobody(engine: Engine) -> None:
    """Replace nothing: this doorman has no shell."""


def _nowhere(passed: Passed) -> bool:
    """Pass nothing on: this process serves all there is."""
    return False


def not_served(space: str) -> RefusedError:
    """Make the refusal for a client that wants a virtual host that nobody serves."""
    return RefusedError(f"virtual host {space} is not served now", "unavailable")
