"""Listener: accepts connections on one port and joins each to a new engine.

An accept that fails, fails alone: a peer that is gone before it is looked at, or a process out of
files, must not end the broker. Who is over a limit is told so in the protocol's own words, but only
a few at a time: a flood is not worth an answer, and gets none.

With TLS the handshake comes first. It has a time limit of its own and counts as a stranger, and
the engine is made after it, since the peer's certificate may say who it is.
"""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import replace

import anyio
import structlog
from anyio.abc import ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener
from anyio.streams.tls import TLSAttribute, TLSStream

from covey.config.settings import ConnectorSettings
from covey.protocols.accept import accept
from covey.protocols.connection import BROKEN, Connection
from covey.protocols.peer import MakeEngine, Peer, is_loopback
from covey.protocols.roster import Roster
from covey.protocols.strangers import Handshake, Strangers
from covey.protocols.tls import certificate_name, handshake_failure, make_context

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
        self.make_engine = make_engine
        self.log = log.bind(connector=connector.id)
        self.roster = Roster(connector, read_size=read_size, strangers=strangers)
        self.address = ""
        self.tls = None if connector.tls is None else make_context(connector.tls)
        self._turned_away = 0
        self._accepting = anyio.CancelScope()

    @property
    def connector(self) -> ConnectorSettings:
        """The port's settings."""
        return self.roster.connector

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
            connections.start_soon(self.roster.watch)
            with self._accepting:
                async with bound, anyio.create_task_group() as ports:
                    for port in bound.listeners:
                        assert isinstance(port, SocketListener)
                        ports.start_soon(self._accept, port, connections)

    def adopt(
        self, connector: ConnectorSettings, make_engine: MakeEngine, tls: ssl.SSLContext | None
    ) -> None:
        """Go on with other options and certificates; open connections keep theirs."""
        self.roster.connector = connector
        self.make_engine = make_engine
        self.tls = tls

    def shut_down(self, reason: str) -> None:
        """Accept no more, and tell everybody that it is over."""
        self._accepting.cancel()
        self.roster.shut_down(reason)

    async def until_empty(self) -> None:
        """Wait until the last connection is gone."""
        await self.roster.until_empty()

    async def _accept(self, port: SocketListener, connections: TaskGroup) -> None:
        while True:
            try:
                stream = await accept(port)
            except OSError as error:
                self.log.warning("accept_failed", cause=str(error))
                await anyio.sleep(ACCEPT_PAUSE_S)
            else:
                connections.start_soon(self._serve_one, stream)

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
        if self.roster.limit_reached(peer.host, handshake):
            await anyio.aclose_forcefully(stream)  # it would not understand a word yet
            return None
        self.roster.handshakes += 1
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
            self.roster.handshakes -= 1
            self.roster.strangers.forget(peer.host, handshake)

    async def _serve_peer(self, stream: ByteStream, peer: Peer, log: Log) -> None:
        engine = self.make_engine(peer, time.monotonic())
        connection = self.roster.join(stream, engine, log)
        limit = self.roster.limit_reached(peer.host, engine)
        if limit:
            self.roster.log_refusal(limit, log)
            await self._turn_away(connection, limit, log)
        else:
            await self.roster.serve(connection, peer.host)

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
        is_loopback=is_loopback(str(host)),
        socket_buffer=raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    )
