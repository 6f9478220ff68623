"""STOMP's record for the registry of protocols."""

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
    """Return what makes the engines of a port."""
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
    """What a peer sends up to the end of its first frame, which says which virtual host it wants.

    The frame is read here and again by the engine, which does the login: nothing of it is taken
    away. One that is longer than `login_frame_max`, or cannot be read, goes to the engine as it is.
    """

    def __init__(self, settings: StompSettings) -> None:
        super().__init__(settings.login_timeout_s)
        self._settings = settings
        self._read = b""

    def receive(self, data: bytes) -> None:
        """Take bytes until a frame ends, or there are too many of them."""
        ends = b"\0" in data
        self._read += data
        if ends or len(self._read) > self._settings.login_frame_max:
            self.is_known = True
            self.host = self._wanted()

    def hand_over(self, engine: Engine, now: float, *, is_refused: bool) -> None:
        """Let the engine read it all again."""
        if not is_refused:
            engine.receive(self._read, now)

    def packed(self) -> tuple[Login, bytes] | None:
        """Return what was read: nothing is agreed on yet."""
        return {}, self._read

    def unpack(self, login: Login, read: bytes) -> None:
        """Have read it."""
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
            return None  # the engine tells what is wrong
        if negotiate(headers.get("accept-version")) is Version.V1_0:
            return None  # that version has no such header
        return headers.get("host")


def make_opening(users: Users, connector: ConnectorSettings, peer: Peer) -> Opening:
    """Return what reads a peer until its virtual host is known."""
    return StompOpening(connector.stomp)


STOMP: Final[Protocol] = Protocol(
    "stomp", StompSettings, sniff.STOMP, decode, engine_maker, make_opening
)
