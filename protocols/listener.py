"""Listener: accepts connections on one port and joins each to a new engine.

A connection that fails, fails alone; only the log hears of it. So does an accept: a peer that is
gone before it is looked at, or a process out of files, must not end the broker. Who is over a
limit is told so in the protocol's own words, but only a few at a time: a flood is not worth an
answer, and gets none.

With TLS the handshake comes first. It has a time limit of its own and counts as a stranger, and
the engine is made after it, since the peer's certificate may say who it is.

The listener also looks after connections whose writer waits for its peer (`Connection.watch`).
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
import structlog
from anyio.abc import ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener
from anyio.streams.tls import TLSAttribute, TLSStream

from covey.config.settings import ConnectorSettings
from covey.protocols.accept import accept
from covey.protocols.connection import BROKEN, Connection
from covey.protocols.engine import Engine
from covey.protocols.strangers import Handshake, Strangers
from covey.protocols.tls import certificate_name, handshake_failure, make_context

# How often writers that wait for their peers are looked at; their limits are whole seconds.
WATCH_EVERY_S = 0.5
# Out of files or memory: trying again at once would only burn the time that closing needs.
ACCEPT_PAUSE_S = 0.1
# Peers over a limit that are told so at the same time; further ones are closed without a word.
TURNED_AWAY_MAX = 16

# We gather small frames ourselves, so the kernel need not. And a peer whose machine vanished says
# nothing, and without heart-beats nobody asks it: TCP does, after a minute of silence, six times,
# and finds it gone two minutes after it went.
SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of the other end before it says a word."""

    host: str
    port: int
    is_loopback: bool
    socket_buffer: int
    certificate_name: str | None = None

    @property
    def remote(self) -> str:
        """Name it for people."""
        return f"{self.host}:{self.port}"


MakeEngine = Callable[[Peer, float], Engine]
Log = structlog.typing.FilteringBoundLogger


class Listener:
    """One connector's port."""

    def __init__(
        self,
        connector: ConnectorSettings,
        make_engine: MakeEngine,
        log: Log,
        *,
        read_size: int,
        strangers: Strangers,
    ) -> None:
        self.connector = connector
        self.make_engine = make_engine
        self.log = log.bind(connector=connector.id)
        self.read_size = read_size
        self.strangers = strangers
        self.connections: set[Connection] = set()
        self.address = ""
        self.tls = None if connector.tls is None else make_context(connector.tls)
        self._handshakes = 0
        self._turned_away = 0
        self._refusals = 0  # since the last line of the log about them
        self._refusal_logged_in = 0
        self._accepting = anyio.CancelScope()
        self._emptied = anyio.Event()

    async def bind(self) -> MultiListener[SocketStream]:
        """Take the port; raises OSError that names it if it cannot."""
        connector = self.connector
        try:
            bound = await anyio.create_tcp_listener(
                local_host=connector.host, local_port=connector.port, reuse_port=False
            )
        except OSError as error:
            raise OSError(f"cannot listen on {connector.bind}: {error.strerror}") from error
        port = bound.extra(SocketAttribute.local_port)
        self.address = f"{connector.bind.rpartition(':')[0]}:{port}"
        return bound

    async def serve(self, bound: MultiListener[SocketStream]) -> None:
        """Accept until shut down, serve until cancelled."""
        async with anyio.create_task_group() as connections:
            connections.start_soon(self._watch)
            with self._accepting:
                async with bound, anyio.create_task_group() as ports:
                    for port in bound.listeners:
                        assert isinstance(port, SocketListener)
                        ports.start_soon(self._accept, port, connections)

    def shut_down(self, reason: str) -> None:
        """Accept no more, and tell everybody that it is over."""
        self._accepting.cancel()
        for connection in list(self.connections):
            connection.engine.shut_down(reason, time.monotonic())

    async def until_empty(self) -> None:
        """Wait until the last connection is gone."""
        while self.connections:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    async def _accept(self, port: SocketListener, connections: TaskGroup) -> None:
        while True:
            try:
                stream = await accept(port)
            except OSError as error:
                self.log.warning("accept_failed", cause=str(error))
                await anyio.sleep(ACCEPT_PAUSE_S)
            else:
                connections.start_soon(self._serve_one, stream)

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(WATCH_EVERY_S)
            now = time.monotonic()
            for connection in list(self.connections):
                connection.watch(now)

    async def _serve_one(self, stream: SocketStream) -> None:
        try:
            peer = _peer_of(stream)
        except (OSError, AttributeError):  # it was gone before we looked, and anyio's socket too
            await anyio.aclose_forcefully(stream)
            return
        log = self.log.bind(remote=peer.remote)
        if self.tls is None:
            await self._serve_peer(stream, peer, log)
            return
        secured = await self._shake_hands(stream, self.tls, peer, log)
        if secured is not None:
            name = certificate_name(secured.extra(TLSAttribute.peer_certificate, None))
            await self._serve_peer(secured, replace(peer, certificate_name=name), log)

    async def _shake_hands(
        self, stream: SocketStream, context: ssl.SSLContext, peer: Peer, log: Log
    ) -> TLSStream | None:
        """Secure a stream; None if that failed, and the stream is closed."""
        handshake = Handshake()
        assert self.connector.tls is not None
        if self._limit_reached(peer, handshake):
            await anyio.aclose_forcefully(stream)  # it would not understand a word yet
            return None
        self._handshakes += 1
        try:
            with anyio.fail_after(self.connector.tls.handshake_timeout_s):
                return await TLSStream.wrap(
                    stream, server_side=True, ssl_context=context, standard_compatible=False
                )
        except (TimeoutError, anyio.EndOfStream, *BROKEN) as error:
            log.warning("handshake_failed", cause=handshake_failure(error))
            await anyio.aclose_forcefully(stream)
            return None
        finally:
            self._handshakes -= 1
            self.strangers.forget(peer.host, handshake)

    async def _serve_peer(self, stream: ByteStream, peer: Peer, log: Log) -> None:
        engine = self.make_engine(peer, time.monotonic())
        connection = Connection(
            stream,
            engine,
            log,
            read_size=self.read_size,
            write_timeout_s=self.connector.write_timeout_s,
        )
        limit = self._limit_reached(peer, engine)
        if limit:
            self._log_refusal(limit, log)
            await self._turn_away(connection, limit, log)
            return
        self.connections.add(connection)
        log.info("connection_opened")
        try:
            await connection.serve()
        except Exception:  # one peer's trouble must not end the listener
            log.exception("connection_failed")
        finally:
            self.connections.discard(connection)
            self.strangers.forget(peer.host, engine)
            self._emptied.set()
            log.info("connection_closed")

    def _limit_reached(self, peer: Peer, stranger: Engine | Handshake) -> str:
        """Return the name of the limit that a new connection is over; "" if it is let in."""
        if len(self.connections) + self._handshakes >= self.connector.connections_max:
            return "connections_max"
        if not self.strangers.admit(peer.host, stranger):
            return "logins_pending_max"
        return ""

    def _log_refusal(self, limit: str, log: Log) -> None:
        """Log a refusal, but one line a second at most: a flood must not fill the disk."""
        self._refusals += 1
        second = int(time.monotonic())
        if second != self._refusal_logged_in:
            self._refusal_logged_in = second
            log.warning("connection_refused", limit=limit, count=self._refusals)
            self._refusals = 0

    async def _turn_away(self, connection: Connection, limit: str, log: Log) -> None:
        """Tell a peer that there is no room for it, if it is one of few."""
        if self._turned_away >= TURNED_AWAY_MAX:
            await anyio.aclose_forcefully(connection.stream)
            return
        self._turned_away += 1
        try:
            reason = f"connector {self.connector.id} has no room: {limit} is reached"
            connection.engine.shut_down(reason, time.monotonic())
            await connection.serve()
        except Exception:  # as for those who are let in
            log.exception("connection_failed")
        finally:
            self._turned_away -= 1


def _peer_of(stream: SocketStream) -> Peer:
    """Look at the other end; raises OSError or AttributeError if it is gone already."""
    raw = stream.extra(SocketAttribute.raw_socket)
    for level, option, value in SOCKET_OPTIONS:
        raw.setsockopt(level, option, value)
    host, port = raw.getpeername()[:2]
    return Peer(
        host=str(host),
        port=int(port),
        is_loopback=_is_loopback(str(host)),
        socket_buffer=raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False
