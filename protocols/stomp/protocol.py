"""STOMP's record in the registry of protocols, and how its virtual host is found."""

from __future__ import annotations

from typing import Final

from covey.config.connectors import StompSettings
from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.core.errors import ProtocolError
from covey.core.security.users import Users
from covey.protocols import sniff
from covey.protocols.doorman import Login, Opening
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
from covey.protocols.protocol import Protocol
from covey.protocols.stomp.engine import StompEngine
from covey.protocols.stomp.message import decode
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.settings import login_limits
from covey.protocols.stomp.versions import LOGIN_COMMANDS, Version, negotiate


def engine_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return the function that makes the engines of a port."""
    settings = connector.stomp

    def make_engine(peer: Peer, now: float) -> Engine:
        return StompEngine(
            broker,
            settings,
            remote=peer.remote,
            is_loopback=peer.is_loopback,
            socket_buffer=peer.socket_buffer,
            log=log,
            now=now,
        )

    return make_engine


class StompOpening(Opening):
    """Reads a peer's bytes up to the end of its first frame, which names the virtual host.

    The engine, which does the login, gets all these bytes and reads the frame again. A frame that
    is longer than `login_frame_max`, or that cannot be read, goes to the engine as it is.
    """

    def __init__(self, settings: StompSettings) -> None:
        super().__init__(settings.login_timeout_s)
        self._settings = settings
        self._read = b""

    def receive(self, data: bytes) -> None:
        """Take bytes until a frame ends, or until there are too many bytes."""
        ends = b"\0" in data
        self._read += data
        if ends or len(self._read) > self._settings.login_frame_max:
            self.is_known = True
            self.host = self._wanted()

    def hand_over(self, engine: Engine, now: float, *, is_refused: bool) -> None:
        """Give the engine all bytes that were read, unless the peer was refused."""
        if not is_refused:
            engine.receive(self._read, now)

    def packed(self) -> tuple[Login, bytes] | None:
        """Return the bytes that were read; no login details are known yet."""
        return {}, self._read

    def unpack(self, login: Login, read: bytes) -> None:
        """Take over the bytes that another opening has read."""
        self._read = read

    def _wanted(self) -> str | None:
        parser = FrameParser(login_limits(self._settings))
        try:
            parser.feed(self._read)
            frame = parser.next_frame()
            if frame is None or frame.command not in LOGIN_COMMANDS:
                return None
            headers = frame.headers(Version.V1_2)
        except ProtocolError:
            return None  # the engine will report what is wrong
        if negotiate(headers.get("accept-version")) is Version.V1_0:
            return None  # STOMP 1.0 has no `host` header
        return headers.get("host")


def make_opening(users: Users, connector: ConnectorSettings, peer: Peer) -> Opening:
    """Return the object that reads a peer's bytes until its virtual host is known."""
    return StompOpening(connector.stomp)


STOMP: Final[Protocol] = Protocol(
    "stomp", StompSettings, sniff.STOMP, decode, engine_maker, make_opening
)
