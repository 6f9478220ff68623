"""Listener: accepts connections on one port and joins each to a new engine.

A connection that fails, fails alone; only the log hears of it. So does an accept: a peer that is
gone before it is looked at, or a process out of files, must not end the broker. Who is over a
limit is closed without a word: a flood is not worth an answer.

The listener also looks after connections whose writer waits for its peer (`Connection.watch`).
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import structlog
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener

from covey.config.settings import ConnectorSettings
from covey.protocols.accept import accept
from covey.protocols.connection import Connection
from covey.protocols.engine import Engine
from covey.protocols.strangers import Strangers

# How often writers that wait for their peers are looked at; their limits are whole seconds.
WATCH_EVERY_S = 0.5
# Out of files or memory: trying again at once would only burn the time that closing needs.
ACCEPT_PAUSE_S = 0.1

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

    @property
    def remote(self) -> str:
        """Name it for people."""
        return f"{self.host}:{self.port}"


MakeEngine = Callable[[Peer, float], Engine]


class Listener:
    """One connector's port."""

    def __init__(
        self,
        connector: ConnectorSettings,
        make_engine: MakeEngine,
        log: structlog.typing.FilteringBoundLogger,
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
        engine = self.make_engine(peer, time.monotonic())
        if not self._admits(peer, engine, log):
            await anyio.aclose_forcefully(stream)
            return
        connection = Connection(
            stream,
            engine,
            log,
            read_size=self.read_size,
            write_timeout_s=self.connector.write_timeout_s,
        )
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

    def _admits(
        self, peer: Peer, engine: Engine, log: structlog.typing.FilteringBoundLogger
    ) -> bool:
        if len(self.connections) >= self.connector.connections_max:
            log.warning("connection_refused", limit="connections_max")
            return False
        if not self.strangers.admit(peer.host, engine):
            log.warning("connection_refused", limit="logins_pending_max")
            return False
        return True


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
