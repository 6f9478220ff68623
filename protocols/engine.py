# Compiled by mypyc: see setup.py.
"""Engine: the seam between a wire protocol and everything that waits.

An engine takes bytes and gives bytes. It never waits, has no socket and no clock; one thin shell
(`protocols.connection`) does all waiting. So a protocol is tested by feeding it bytes, and the
shell is the same for every protocol.

The shell's side of the contract:

    receive(data, now)   bytes from the peer, as they came; call only while `reading`
    outgoing()           bytes for the peer, all there are now; b"" if none. If there are very many,
                         the engine returns a part and wakes the shell for the next part. A body of
                         LARGE bytes may be a part by itself: all who read it share it
    tick(now)            do what is due by time; returns the next deadline, or None
    sign_of_life(now)    bytes came, but the transport still keeps them: a WebSocket does so with a
                         part of a message
    lost(now)            the peer is gone: let go of everything

The engine's side: the engine calls `wake` whenever there is something new to do for the shell
(bytes to send, reading again, closed). However often the engine calls, the shell acts once. After
`is_closed` the shell sends the rest of the output and ends the connection.

An exception is the engine's fault, never its peer's. The shell logs it, calls `count_failure` and
`break_off`, and sends nothing more than the engine's last words. An engine may raise while the
broker delivers in another peer's turn. The engine keeps that exception (`failed`), so that the
shell finds it in this peer's own turn: the other peer is not to blame.

The log tells the operator who a peer is and what it did wrong (`report_login`, `report`): a
client's author is seldom the one who reads the broker's log.

`Peer` is what is known of the other end of a connection before it says a word.
"""

from __future__ import annotations

import ipaddress
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from mypy_extensions import mypyc_attr

from covey.core.errors import BrokerError
from covey.core.session import Client, Session

Log = structlog.typing.FilteringBoundLogger

# Ends of a connection that are not logged: the operator wanted them, or the log already tells of
# them (`core.events.audit`, an exception).
KNOWN_ENDS: Final = frozenset(
    {"denied", "throttled", "shutdown", "cancelled", "internal-error", "moved"}
)

FAILED: Final = "the broker failed; its log says how"

LARGE: Final = 128 * 1024  # bytes of a body that is not copied on its way out

FIELD_MAX: Final = 200  # characters of a field in the log: a cause may quote what the peer has sent


def _nobody() -> None:
    """Wake nobody: an engine without a shell, as in a test."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine(Client):
    """One connection's protocol, without its socket."""

    def __init__(self, remote: str = "", log: Log | None = None) -> None:
        self.remote = remote
        self.log = log  # the port's: a log bound to each peer would cost a kilobyte a peer
        self.reading = True  # False: the shell must not read on (quota, receipts, outbox)
        self.is_closed = False
        self.is_stranger = True  # until the peer has logged in; strangers of an address are limited
        self.answer_delay_s = 0.0  # how long the shell delays the next output, after a failed login
        self.close_delay_s = 0.0  # how long the shell lets the peer read before it closes
        self.wake: Callable[[], None] = _nobody
        self.exception: Exception | None = None  # raised in another peer's turn

    @abstractmethod
    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the peer."""

    @abstractmethod
    def outgoing(self) -> bytes:
        """Give the bytes for the peer."""

    @abstractmethod
    def tick(self, now: float) -> float | None:
        """Do what is due; return when to be called again."""

    def sign_of_life(self, now: float) -> None:
        """Called when bytes came that the transport cannot hand over yet: the peer is alive."""

    @abstractmethod
    def lost(self, now: float) -> None:
        """Let go of everything: the peer is gone."""

    @abstractmethod
    def shut_down(self, reason: str, now: float) -> None:
        """Tell the peer that the broker ends the connection, and close."""

    def refuse(self, error: BrokerError, now: float) -> None:
        """Tell the peer what the transport found wrong with what it sent, and close."""
        self.shut_down(error.text, now)

    def break_off(self, now: float) -> None:
        """Tell the peer that the broker has failed, and close: this engine has raised."""
        self.shut_down(FAILED, now)

    def failed(self, error: Exception) -> None:
        """Keep an exception raised by work for this peer, maybe in another peer's turn."""
        if self.exception is None:
            self.exception = error
            self.wake()

    @abstractmethod
    def count_failure(self) -> None:
        """Count an exception that came out of this engine."""

    def resume(self) -> None:
        """Ask the shell for a `tick`, which starts reading again."""
        self.wake()

    def report(self, event: str, **fields: str | None) -> None:
        """Log what a peer did wrong."""
        if self.log is not None:
            clipped = {name: text and text[:FIELD_MAX] for name, text in fields.items()}
            self.log.warning(event, remote=self.remote, **clipped)

    def report_login(self, session: Session) -> None:
        """Log who a connection turned out to be."""
        if self.log is not None:
            self.log.info(
                "logged_in",
                remote=self.remote,
                connection=session.id,
                user=session.identity.name,
                protocol=session.protocol,
                client_id=session.client_id[:FIELD_MAX],
                host=session.host.id,
            )

    def report_end(self, error: BrokerError) -> None:
        """Log why a connection is ended, unless the log tells so already."""
        if error.code not in KNOWN_ENDS:
            self.report("connection_refused", code=error.code, cause=error.text)

    def when_done(self, call: Callable[[], None]) -> None:
        """Call back when everything received so far is done and on disk; at once if it is now."""
        call()


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end."""

    host: str
    port: int
    is_loopback: bool
    socket_buffer: int
    certificate_name: str | None = None

    @property
    def remote(self) -> str:
        """Return the peer's address for people."""
        return f"{self.host}:{self.port}"


MakeEngine = Callable[[Peer, float], Engine]


def is_loopback(address: str) -> bool:
    """Return True if this is a loopback address; False if it is no address at all."""
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_loopback
    except ValueError:
        return False
