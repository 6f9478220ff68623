"""SaslServer: the login before an AMQP connection, bytes in and bytes out.

    client                                      server
    "AMQP" 3 1 0 0                     ->       the same, mechanisms
    init (mechanism, response, host)   ->       challenge, or outcome
    response                           ->       challenge, or outcome
    "AMQP" 0 1 0 0                     ->       for the engine: `leftover`

    frame: size(4) doff(1) type(1)=1 ignored(2), a described list

Rules of this file:
- Only the header and SASL frames are accepted before the outcome. A frame that is longer than
  `frame_max` is refused. The engine has a timer for peers that send nothing.
- Every failed login gets the same answer: outcome "auth", and the connection ends.
- A peer that starts with anything else (HTTP, AMQP 0-9-1, TLS inside) is sent the SASL header, and
  the connection ends (AMQP 1.0 section 2.2).
- A peer that starts without SASL is let in as the anonymous user, if that is allowed.

Source: AMQP 1.0 part 5, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from covey.config.settings import AmqpSettings
from covey.core.errors import BrokerError
from covey.core.security.users import Identity, Users
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.codec.types import malformed
from covey.protocols.amqp.login.mechanisms import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM,
    Anonymous,
    External,
    Mechanism,
    Plain,
    Scram,
)
from covey.protocols.sniff import spoken

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

MECHANISMS: Final = 0x40
INIT: Final = 0x41
CHALLENGE: Final = 0x42
RESPONSE: Final = 0x43
OUTCOME: Final = 0x44
_WRITTEN_OUT: Final = {
    "amqp:sasl-init:list": INIT,
    "amqp:sasl-response:list": RESPONSE,
}

FRAME_HEADER_SIZE: Final = 8
SASL_FRAME: Final = 1  # the frame type

OK: Final = 0
AUTH: Final = 1  # the outcome code of a failed login
SYSTEM: Final = 2  # the outcome code if the broker itself failed
NOTHING_OFFERED: Final = "no SASL mechanism is left without a client certificate"
DENIED: Final = "denied"  # wrong passwords and missing permissions


class SaslState(Enum):
    """The state of a login."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


class SaslServer:
    """One login."""

    def __init__(
        self,
        users: Users,
        mechanisms: Sequence[str],
        *,
        allow_anonymous: bool,
        is_loopback: bool,
        frame_max: int,
        certificate_name: str | None,
        remote: str = "",
    ) -> None:
        self.state = SaslState.WAITING
        self.hostname = ""
        self.leftover = b""  # the bytes after the login, for the AMQP engine
        self.complaint = ""  # why it failed; "" for denials, which the core itself reports
        self.users = users
        self.allow_anonymous = allow_anonymous
        self.is_loopback = is_loopback
        self.frame_max = frame_max
        self.certificate_name = certificate_name
        self.remote = remote
        self.offered = [name for name in mechanisms if name != EXTERNAL or certificate_name]
        if allow_anonymous:
            self.offered.append(ANONYMOUS)
        self._has_header = False
        self._mechanism: Mechanism | None = None
        self._identity: Identity | None = None
        self._buffer = b""
        self.out: list[bytes] = []  # for the peer

    @property
    def identity(self) -> Identity:
        """Return the client's identity; only asked when the login is done."""
        assert self._identity is not None, "the login is not done"
        return self._identity

    @property
    def is_anonymous(self) -> bool:
        """Return True if the client is anonymous; only asked when the login is done."""
        return not self.identity.principals

    def resume(self, user: str, *, is_anonymous: bool, hostname: str, leftover: bytes) -> None:
        """Take over a finished login that another process has served.

        Raises RefusedError if the user is not known here.
        """
        if is_anonymous and self.allow_anonymous:
            self._identity = self.users.anonymous(self.remote)
        else:
            self._identity = self.users.identity(
                user, is_loopback=self.is_loopback, remote=self.remote
            )
        self.hostname = hostname
        self._buffer = leftover
        self._end(SaslState.DONE)

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; bytes that come after a failed login are ignored."""
        if self.state is not SaslState.WAITING:
            self.leftover += data if self.state is SaslState.DONE else b""
            return
        self._buffer += data
        if not self._has_header and not self._take_header():
            return
        try:
            while self.state is SaslState.WAITING and self._take_frame():
                pass
        except BrokerError as error:  # malformed or refused: the peer is not told which
            self.complaint = "" if error.code == DENIED else error.text
            self._send(OUTCOME, [b"\x50" + bytes((AUTH,))])
            self._end(SaslState.FAILED)

    def break_off(self) -> None:
        """End a login that is under way: the broker has failed."""
        if self.state is SaslState.WAITING and self._has_header:
            self._send(OUTCOME, [b"\x50" + bytes((SYSTEM,))])
            self._end(SaslState.FAILED)

    def outgoing(self) -> bytes:
        """Return the bytes for the peer."""
        data = b"".join(self.out)
        self.out.clear()
        return data

    def _take_header(self) -> bool:
        """Read the protocol header; return True if frames follow."""
        header = self._buffer[: len(SASL_HEADER)]
        if SASL_HEADER.startswith(header) or AMQP_HEADER.startswith(header):
            if len(header) < len(SASL_HEADER):
                return False
            if header == AMQP_HEADER and self.allow_anonymous:
                self._identity = self.users.anonymous(self.remote)
                self._end(SaslState.DONE)
                return False
        self.out.append(SASL_HEADER)
        if header != SASL_HEADER or not self.offered:
            self.complaint = _unwanted(self._buffer) if self.offered else NOTHING_OFFERED
            self._end(SaslState.FAILED)
            return False
        self._has_header = True
        self._buffer = self._buffer[len(SASL_HEADER) :]
        self._send(MECHANISMS, [encoder.symbols(self.offered)])
        return True

    def _take_frame(self) -> bool:
        """Handle one complete frame; return False if there is none."""
        buffer = self._buffer
        if len(buffer) < FRAME_HEADER_SIZE:
            return False
        size = int.from_bytes(buffer[:4], "big")
        start = 4 * buffer[4]
        if buffer[5] != SASL_FRAME or not FRAME_HEADER_SIZE <= start <= size <= self.frame_max:
            raise malformed("not a SASL frame")
        if len(buffer) < size:
            return False
        self._buffer = buffer[size:]
        code, fields = _frame_body(buffer[start:size])
        if code == INIT and self._mechanism is None:
            self._on_init(fields)
        elif code == RESPONSE and self._mechanism is not None:
            self._on_response(self._mechanism, fields)
        else:
            raise malformed("a SASL frame out of turn")
        return True

    def _on_init(self, fields: list[object]) -> None:
        name, response, hostname = (*fields, None, None, None)[:3]
        self._mechanism = self._make(name)
        self.hostname = hostname if isinstance(hostname, str) else ""
        if response is None and name != ANONYMOUS:
            self._send(CHALLENGE, [encoder.binary(b"")])  # RFC 4422 section 5: the client begins
        else:
            self._on_response(self._mechanism, [b"" if response is None else response])

    def _on_response(self, mechanism: Mechanism, fields: list[object]) -> None:
        if not fields or not isinstance(fields[0], bytes):
            raise malformed("a SASL response without a response")
        challenge = mechanism.respond(fields[0])
        if mechanism.identity is None:
            self._send(CHALLENGE, [encoder.binary(challenge)])
            return
        outcome = [b"\x50" + bytes((OK,))]
        if mechanism.final:
            outcome.append(encoder.binary(mechanism.final))
        self._send(OUTCOME, outcome)
        self._identity = mechanism.identity
        self._end(SaslState.DONE)

    def _make(self, name: object) -> Mechanism:
        """Return the mechanism that the peer has chosen, if it was offered."""
        users, is_loopback, remote = self.users, self.is_loopback, self.remote
        if name in self.offered:
            if name == PLAIN:
                return Plain(users, is_loopback=is_loopback, remote=remote)
            if name == SCRAM:
                return Scram(users, is_loopback=is_loopback, remote=remote)
            if name == EXTERNAL and self.certificate_name:
                known = self.certificate_name
                return External(users, known, is_loopback=is_loopback, remote=remote)
            if name == ANONYMOUS:
                return Anonymous(users, remote=remote)
        raise malformed("a SASL mechanism that was not offered")

    def _send(self, code: int, fields: list[bytes]) -> None:
        body = encoder.section(code, encoder.compound(fields))
        size = FRAME_HEADER_SIZE + len(body)
        self.out.append(size.to_bytes(4, "big") + bytes((2, SASL_FRAME, 0, 0)) + body)

    def _end(self, state: SaslState) -> None:
        self.state = state
        if state is SaslState.DONE:
            self.leftover = self._buffer
        self._buffer = b""


def make_sasl(
    users: Users,
    settings: AmqpSettings,
    *,
    is_loopback: bool,
    certificate_name: str | None,
    remote: str,
) -> SaslServer:
    """Return the login that a port's settings ask for."""
    return SaslServer(
        users,
        settings.sasl_mechanisms,
        allow_anonymous=settings.allow_anonymous,
        is_loopback=is_loopback,
        frame_max=settings.login_frame_max,
        certificate_name=certificate_name,
        remote=remote,
    )


def _unwanted(first: bytes) -> str:
    """Return what is wrong with a header that is not SASL's."""
    name = spoken(first)
    if name == "AMQP":
        return "expected AMQP 1.0 with SASL, but the peer speaks another AMQP, or no SASL"
    return f"expected AMQP, but the peer speaks {name or 'something else'}"


def _frame_body(body: bytes) -> tuple[int, list[object]]:
    """Read a frame's descriptor and fields."""
    if Checker(body).check(0) != len(body):
        raise malformed("bytes behind the body of a SASL frame")
    frame = decode(body)
    if not isinstance(frame, Described) or not isinstance(frame.value, list):
        raise malformed("a SASL frame that is no described list")
    descriptor = frame.descriptor
    if isinstance(descriptor, str):
        return _WRITTEN_OUT.get(descriptor, 0), frame.value
    return descriptor if isinstance(descriptor, int) else 0, frame.value
