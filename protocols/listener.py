"""Listener: accepts connections on one port and joins each to a new engine.

A failed accept has no other effect: a peer that is gone at once, or a process out of files, must
not end the broker. A peer over a limit is told so in the protocol's own words. Only a few are told
at the same time: the rest of a flood is closed without an answer.

With TLS the handshake comes first (`protocols.tls`). The handshake has a time limit of its own and
counts as a stranger. The engine is made after the handshake, since the peer's certificate may say
who the peer is.

Behind a load balancer a head comes before everything else, and says who the peer is (`proxy_v2`).

Accepting is a task of the event loop, but a connection has no task.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import anyio
import structlog

from covey.config.settings import ConnectorSettings
from covey.core.errors import ProtocolError
from covey.protocols.connection import Connection
from covey.protocols.engine import MakeEngine, Peer, is_loopback
from covey.protocols.passing import Passing
from covey.protocols.proxy_v2 import HEAD_SIZE, Source, rest_size, source_of
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Handshake, Roster, Strangers
from covey.protocols.tls import Secured, certificate_name, handshake_failure, make_context

BACKLOG = 65536  # connections that wait to be accepted; the system may allow fewer
# Out of files or memory: trying again at once would take the time in which others could close.
ACCEPT_PAUSE_S = 0.1
# Peers over a limit that are told so at the same time; further ones are closed without a word.
TURNED_AWAY_MAX = 16
# Connections whose PROXY head has not come yet; a load balancer sends it with the first packet.
HEADS_MAX = 1000
HEAD_TIMEOUT_S = 5.0

# We join small frames ourselves, so the kernel need not. A peer whose machine vanished says
# nothing, and without heart-beats no protocol asks. So TCP asks after a minute of silence, six
# times, and finds the peer gone two minutes after it went.
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
        buffers: ReadBuffers,
        strangers: Strangers,
        passing: Passing | None = None,
    ) -> None:
        self.make_engine = make_engine
        self.log = log.bind(connector=connector.id)
        self.roster = Roster(connector, buffers=buffers, strangers=strangers, passing=passing)
        self.address = ""
        self.tls = None if connector.tls is None else make_context(connector.tls)
        self._turned_away: set[Connection] = set()
        self._heads: set[asyncio.Task[None]] = set()  # tasks that wait for a PROXY head
        self._accepting = anyio.CancelScope()

    @property
    def connector(self) -> ConnectorSettings:
        """The port's settings."""
        return self.roster.connector

    async def bind(self, given: Sequence[socket.socket] = ()) -> Sequence[socket.socket]:
        """Take the port, or use sockets that have it; raises OSError that names the port."""
        bound = given or open_sockets(self.connector)
        self.address = address_of(self.connector, bound)
        return bound

    async def serve(self, bound: Sequence[socket.socket]) -> None:
        """Accept until shut down, serve until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.roster.watch)
                with self._accepting, ExitStack() as open_ports:
                    for listening in bound:
                        open_ports.enter_context(listening)
                    async with anyio.create_task_group() as ports:
                        for listening in bound:
                            ports.start_soon(self._accept, listening)
        finally:
            self.roster.cut_off()
            for connection in list(self._turned_away):
                connection.cut_off()
            for head in list(self._heads):
                head.cancel()

    def adopt(
        self, connector: ConnectorSettings, make_engine: MakeEngine, tls: ssl.SSLContext | None
    ) -> None:
        """Go on with other options and certificates; open connections keep theirs."""
        self.roster.connector = connector
        self.make_engine = make_engine
        self.tls = tls

    def shut_down(self, reason: str) -> None:
        """Accept no more, and tell every peer that the broker ends its connection."""
        self._accepting.cancel()
        self.roster.shut_down(reason)

    async def until_empty(self) -> None:
        """Wait until the last connection is gone."""
        await self.roster.until_empty()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                raw, _ = await loop.sock_accept(listening)
                if self.connector.proxy_protocol:
                    self._wait_for_head(raw)
                else:
                    await self._let_in(raw)
            except OSError as error:
                self.log.warning("accept_failed", cause=str(error))
                await anyio.sleep(ACCEPT_PAUSE_S)

    def _wait_for_head(self, raw: socket.socket) -> None:
        """Let a connection in when its load balancer has said who the peer is."""
        if len(self._heads) >= HEADS_MAX:
            self.roster.log_refusal("PROXY heads under way", self.log)
            raw.close()
            return
        task = asyncio.get_running_loop().create_task(self._let_in_behind_head(raw))
        self._heads.add(task)
        task.add_done_callback(self._heads.discard)

    async def _let_in_behind_head(self, raw: socket.socket) -> None:
        try:
            source = await read_head(partial(_read_exactly, raw))
            await self._let_in(raw, source)
        except (ProtocolError, OSError, EOFError, TimeoutError) as error:
            self.log.warning("proxy_head_refused", cause=str(error) or "it did not come in time")
            raw.close()

    async def _let_in(self, raw: socket.socket, source: Source | None = None) -> None:
        """Serve a socket, or close it; `source` is the peer behind a load balancer."""
        try:
            peer = _peer_of(raw)
        except OSError:  # it was gone before we looked
            raw.close()
            return
        if source is not None:
            peer = replace(peer, host=source.host, port=source.port, is_loopback=False)
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
        """Return the TLS side of a new socket; None if a limit is reached."""
        assert self.connector.tls is not None
        handshake = Handshake()
        if self.roster.limit_reached(peer.host, handshake):
            return None  # before the handshake the peer could not read an answer
        secured = Secured(
            context,
            buffer=self.roster.buffers.views[0],
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
        """Return a connection that serves a peer, or one that tells it which limit is reached.

        Return None if too many peers are being told already.
        """
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


async def read_head(read: Callable[[int], Awaitable[bytes]]) -> Source | None:
    """Read a PROXY head; return who is behind the load balancer, None for the load balancer itself.

    Raises ProtocolError if there is no head, EOFError or OSError if the peer goes, TimeoutError if
    the head is late.
    """
    async with asyncio.timeout(HEAD_TIMEOUT_S):
        head = await read(HEAD_SIZE)
        size = rest_size(head)
        return source_of(head, await read(size) if size else b"")


async def _read_exactly(raw: socket.socket, count: int) -> bytes:
    """Read exactly `count` bytes of a socket."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(raw, count - len(data))
        if not piece:
            raise EOFError("the peer has gone")
        data += piece
    return data


def _given(protocol: Connection | Secured) -> Connection | Secured:
    """Return what the event loop asks a factory for."""
    return protocol


def _peer_of(raw: socket.socket) -> Peer:
    """Return what is known of the other end; raises OSError if the peer is gone already."""
    for level, option, value in SOCKET_OPTIONS:
        raw.setsockopt(level, option, value)
    host, port = raw.getpeername()[:2]
    return Peer(
        host=str(host),
        port=int(port),
        is_loopback=is_loopback(str(host)),
        socket_buffer=raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    )


def open_sockets(connector: ConnectorSettings) -> list[socket.socket]:
    """Take a port at every address of its host name; raises OSError that names the port."""
    opened: list[socket.socket] = []
    port = connector.port
    try:
        found = socket.getaddrinfo(
            connector.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys([(one[0], one[4]) for one in found]):
            listening = socket.socket(family, socket.SOCK_STREAM)
            opened.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address[0], port, *address[2:]))
            listening.listen(BACKLOG)
            listening.setblocking(False)
            port = listening.getsockname()[1]  # if the system chose it, all addresses get the same
    except OSError as error:
        for listening in opened:
            listening.close()
        raise OSError(cannot_listen(connector, error)) from error
    return opened


def address_of(connector: ConnectorSettings, bound: Sequence[socket.socket]) -> str:
    """Return the address of a port, with the number that the system may have chosen."""
    return f"{connector.bind.rpartition(':')[0]}:{bound[0].getsockname()[1]}"


def cannot_listen(connector: ConnectorSettings, error: OSError) -> str:
    """Say which port cannot be taken, and why."""
    hint = "; does another broker run here?" if error.errno == errno.EADDRINUSE else ""
    return f"cannot listen on {connector.bind} ({connector.id}): {error.strerror}{hint}"
