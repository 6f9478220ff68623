"""Opening: reads the login and the open of an AMQP connection, which name its virtual host.

    client                          doorman
    SASL header, init, ...    ->    mechanisms, ..., outcome   (`login.sasl`)
    AMQP header               ->    the same: some clients wait for it before they open
    open (hostname)                 host known: the engine goes on, from the AMQP header

The engine gets the finished login, and all bytes that came after it. An open that cannot be read,
or that is longer than `login_frame_max`, goes to the engine as it is.
"""

from __future__ import annotations

from typing import Final

from covey.config.settings import AmqpSettings
from covey.core.errors import BrokerError
from covey.core.security.users import Users
from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.engine import AmqpEngine
from covey.protocols.amqp.login.sasl import AMQP_HEADER, SaslState, make_sasl
from covey.protocols.doorman import Login, Opening
from covey.protocols.engine import Engine, Peer

OPENS: Final = (0x10, "amqp:open:list")
FRAME_HEADER_SIZE: Final = 8


class AmqpOpening(Opening):
    """Reads a peer's bytes up to the end of its open."""

    def __init__(self, users: Users, settings: AmqpSettings, peer: Peer) -> None:
        super().__init__(settings.open_timeout_s)
        self._size_max = settings.login_frame_max
        self._sasl = make_sasl(
            users,
            settings,
            is_loopback=peer.is_loopback,
            certificate_name=peer.certificate_name,
            remote=peer.remote,
        )
        self._is_greeted = False
        self._greeting = b""

    def receive(self, data: bytes) -> None:
        """Take bytes until the login has failed, or the peer's open is complete."""
        sasl = self._sasl
        sasl.receive(data)
        if sasl.state is SaslState.FAILED:
            self.is_known = True
        elif sasl.state is SaslState.DONE:
            self._look(sasl.leftover)

    def outgoing(self) -> bytes:
        """Return the login's frames, and the AMQP header."""
        greeting, self._greeting = self._greeting, b""
        return self._sasl.outgoing() + greeting

    def hand_over(self, engine: Engine, now: float, *, is_refused: bool) -> None:
        """Give the engine the login and the bytes after it; none if the peer was refused."""
        assert isinstance(engine, AmqpEngine)
        if is_refused:
            self._sasl.leftover = b""
        is_greeted = self._is_greeted and not self._greeting
        engine.take_over(self._sasl, is_greeted=is_greeted)
        engine.receive(b"", now)

    def packed(self) -> tuple[Login, bytes] | None:
        """Return the finished login, and the bytes after it; None if the login is not finished.

        The caller must have sent all answers before.
        """
        if self._sasl.state is not SaslState.DONE:
            return None
        login: Login = {
            "user": self._sasl.identity.name,
            "is_anonymous": self._sasl.is_anonymous,
            "hostname": self._sasl.hostname,
            "is_greeted": self._is_greeted,
        }
        return login, self._sasl.leftover

    def unpack(self, login: Login, read: bytes) -> None:
        """Take over a login that another opening has served."""
        self._sasl.resume(
            str(login["user"]),
            is_anonymous=bool(login["is_anonymous"]),
            hostname=str(login["hostname"]),
            leftover=read,
        )
        self._is_greeted = bool(login["is_greeted"])

    def _look(self, read: bytes) -> None:
        """Look for the open after the AMQP header."""
        if len(read) < len(AMQP_HEADER):
            self.is_known = not AMQP_HEADER.startswith(read)
            return
        if not read.startswith(AMQP_HEADER) or len(read) > self._size_max:
            self.is_known = True
            return
        if not self._is_greeted:
            self._is_greeted = True
            self._greeting = AMQP_HEADER
        frame = read[len(AMQP_HEADER) :]
        if len(frame) >= FRAME_HEADER_SIZE:
            size = int.from_bytes(frame[:4], "big")
            if size > self._size_max or len(frame) >= size:
                self.is_known = True
                self.host = _hostname(frame[:size]) or self._sasl.hostname or None


def _hostname(frame: bytes) -> str:
    """Return the host name in an open; "" if it has none, or if the frame is not an open."""
    start = 4 * frame[4]
    if frame[5] != 0 or not FRAME_HEADER_SIZE <= start < len(frame):
        return ""
    body = frame[start:]
    try:
        if Checker(body).check(0) != len(body):
            return ""
    except BrokerError:
        return ""  # the engine will report what is wrong
    opened = decode(body)
    if not isinstance(opened, Described) or opened.descriptor not in OPENS:
        return ""
    fields = opened.value
    if not isinstance(fields, list) or len(fields) < 2 or not isinstance(fields[1], str):
        return ""
    return fields[1]
