"""Listener: accepts connections on one port and joins each to a new engine.

An accept that fails, fails alone: a peer that is gone before it is looked at, or a process out of
files, must not end the broker. Who is over a limit is told so in the protocol's own words, but only
a few at a time: a flood is not worth an answer, and gets none.

With TLS the handshake comes first (`protocols.tls`). It has a time limit of its own and counts
as a stranger, and the engine is made after it, since the peer's certificate may say who it is.

The event loop accepts in a task, but no task belongs to a connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from dataclasses import replace
from functools import partial

import anyio
import structlog
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.stapled import MultiListener

from covey.config.settings import ConnectorSettings
from covey.protocols.connection import Connection
from covey.protocols.engine import MakeEngine, Peer, is_loopback
from covey.protocols.roster import Handshake, Roster, Strangers
from covey.protocols.tls import Secured, certificate_name, handshake_failure, make_context

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
        self._turned_away: set[Connection] = set()
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
            raise OSError(cannot_listen(connector, error)) from error
        port = bound.extra(SocketAttribute.local_port)
        self.address = f"{connector.bind.rpartition(':')[0]}:{port}"
        return bound

    async def serve(self, bound: MultiListener[SocketStream]) -> None:
        """Accept until shut down, serve until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.roster.watch)
                with self._accepting:
                    async with bound, anyio.create_task_group() as ports:
                        for port in bound.listeners:
                            assert isinstance(port, SocketListener)
                            ports.start_soon(self._accept, port)
        finally:
            self.roster.cut_off()
            for connection in list(self._turned_away):
                connection.cut_off()

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

    async def _accept(self, port: SocketListener) -> None:
        loop = asyncio.get_running_loop()
        listening = port.extra(SocketAttribute.raw_socket)
        while True:
            try:
                raw, _ = await loop.sock_accept(listening)
                await self._let_in(raw)
            except OSError as error:
                self.log.warning("accept_failed", cause=str(error))
                await anyio.sleep(ACCEPT_PAUSE_S)

    async def _let_in(self, raw: socket.socket) -> None:
        """Give a socket what is to serve it, or close it."""
        try:
            peer = _peer_of(raw)
        except OSError:  # it was gone before we looked
            raw.close()
            return
        log = self.log.bind(remote=peer.remote)
        protocol: Connection | Secured | None
        if self.tls is None:
            protocol = self._connection_of(peer, log)
        else:
            protocol = self._handshake_of(self.tls, peer, log)
        if protocol is None:
            raw.close()
            return
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(partial(_given, protocol), raw)
        except BaseException:  # the loop will not tell it any more
            protocol.connection_lost(None)
            raise

    def _handshake_of(self, context: ssl.SSLContext, peer: Peer, log: Log) -> Secured | None:
        """Return what secures a socket; None: there is no room."""
        assert self.connector.tls is not None
        handshake = Handshake()
        if self.roster.limit_reached(peer.host, handshake):
            return None  # it would not understand a word yet
        secured = Secured(
            context,
            buffer=self.roster.buffer,
            timeout_s=self.connector.tls.handshake_timeout_s,
            secured=partial(self._secured, handshake, peer, log),
            failed=partial(self._not_secured, handshake, peer, log),
        )
        self.roster.handshakes.add(secured)
        return secured

    def _secured(self, handshake: Handshake, peer: Peer, log: Log, secured: Secured) -> None:
        self._forget(handshake, peer, secured)
        name = certificate_name(secured.certificate())
        connection = self._connection_of(replace(peer, certificate_name=name), log)
        if connection is None:
            secured.abort()
        else:
            secured.join(connection)

    def _not_secured(
        self, handshake: Handshake, peer: Peer, log: Log, secured: Secured, cause: Exception
    ) -> None:
        self._forget(handshake, peer, secured)
        log.warning("handshake_failed", cause=handshake_failure(cause))

    def _forget(self, handshake: Handshake, peer: Peer, secured: Secured) -> None:
        self.roster.handshakes.discard(secured)
        self.roster.strangers.forget(peer.host, handshake)

    def _connection_of(self, peer: Peer, log: Log) -> Connection | None:
        """Return what serves a peer, or tells it that there is no room; None: not even that."""
        engine = self.make_engine(peer, time.monotonic())
        limit = self.roster.limit_reached(peer.host, engine)
        if not limit:
            return self.roster.let_in(engine, peer.host, log)
        self.roster.log_refusal(limit, log)
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            return None
        connection = self.roster.join(engine, log, self._turned_away.discard)
        self._turned_away.add(connection)
        reason = f"connector {self.connector.id} has no room: {limit} is reached"
        engine.shut_down(reason, time.monotonic())
        return connection


def _given(protocol: Connection | Secured) -> Connection | Secured:
    """Return what the event loop asks a factory for."""
    return protocol


def _peer_of(raw: socket.socket) -> Peer:
    """Look at the other end; raises OSError if it is gone already."""
    for level, option, value in SOCKET_OPTIONS:
        raw.setsockopt(level, option, value)
    host, port = raw.getpeername()[:2]
    return Peer(
        host=str(host),
        port=int(port),
        is_loopback=is_loopback(str(host)),
        socket_buffer=raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    )


def cannot_listen(connector: ConnectorSettings, error: OSError) -> str:
    """Say which port cannot be taken, and why."""
    hint = "; does another broker run here?" if error.errno == errno.EADDRINUSE else ""
    return f"cannot listen on {connector.bind} ({connector.id}): {error.strerror}{hint}"
