"""Serve: one HTTP port, served by hypercorn on the broker's own event loop.

Looks to the server like any other listener. hypercorn speaks HTTP/1.1 and HTTP/2 (over TLS as the
client asks by ALPN, in clear text with prior knowledge) and closes connections that are idle or
slow to send their head. It would take any number of them, so the port is ours, and hypercorn gets
one connection at a time. Beyond `connections_max` a few are let in, so that a WebSocket can be told
why it is not, and a health probe is answered; any further one is closed at once. At the end
WebSockets are told first; hypercorn would only cut them off.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

import anyio
import structlog
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework

from covey.config.settings import ConnectorSettings
from covey.core.broker import Broker
from covey.protocols.http.app import App
from covey.protocols.http.stream import QUEUE_MAX
from covey.protocols.http.websocket import WebSockets
from covey.protocols.listener import SOCKET_OPTIONS, cannot_listen
from covey.protocols.peer import MakeEngine
from covey.protocols.strangers import Strangers
from covey.protocols.tls import make_context

GRACEFUL_S: Final = 1.0  # for requests under way at the end; the peers were told before
IDLE_S: Final = 5.0  # for the head of a request, and between two
STREAMS_MAX: Final = 100  # requests at once on one HTTP/2 connection (RFC 9113 asks for no less)
BACKLOG: Final = 1024
SPARE: Final = 16  # connections beyond the limit: refusals and health probes

VERSIONS: Final = ["h2", "http/1.1"]  # as ALPN names them, best first

Log = structlog.typing.FilteringBoundLogger


class HttpListener:
    """One connector's port that speaks HTTP."""

    def __init__(
        self,
        connector: ConnectorSettings,
        broker: Broker,
        make_engine: MakeEngine,
        log: Log,
        *,
        strangers: Strangers,
        unready: Callable[[], str],
    ) -> None:
        """Put it together; `make_engine` gives the STOMP engine of a WebSocket."""
        self.connector = connector
        self.log = log.bind(connector=connector.id)
        self.address = ""
        self.websockets = WebSockets(
            connector,
            make_engine,
            self.log,
            read_size=broker.limits.work_per_turn,
            strangers=strangers,
        )
        self.app = App(
            broker, connector.http, self.log, websockets=self.websockets, unready=unready
        )
        self.websockets.auth = self.app.auth
        self._tls: ssl.SSLContext | None = None
        self._config = _config()
        self._context = WorkerContext(None)
        self.connections: set[asyncio.Task[None]] = set()
        self._stopping = anyio.Event()
        self._stopped = anyio.Event()

    async def bind(self) -> socket.socket:
        """Take the port; raises OSError that names it, or a certificate, if it cannot."""
        connector = self.connector
        if connector.tls is not None:
            self._tls = make_context(connector.tls)
            self._tls.set_alpn_protocols(VERSIONS)
        family = socket.AF_INET6 if ":" in connector.host else socket.AF_INET
        try:
            bound = socket.create_server(
                (connector.host, connector.port), family=family, backlog=BACKLOG
            )
        except OSError as error:
            raise OSError(cannot_listen(connector, error)) from error
        # Sockets that are accepted inherit these.
        for level, option, value in SOCKET_OPTIONS:
            bound.setsockopt(level, option, value)
        if connector.write_timeout_s:
            limit_ms = int(connector.write_timeout_s * 1000)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)
        self.address = f"{connector.bind.rpartition(':')[0]}:{bound.getsockname()[1]}"
        return bound

    async def serve(self, bound: socket.socket) -> None:
        """Serve until shut down."""
        tls = self.connector.tls
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.websockets.roster.watch)
                server = await asyncio.start_server(
                    self._serve_one,
                    sock=bound,
                    ssl=self._tls,
                    ssl_handshake_timeout=None if tls is None else tls.handshake_timeout_s,
                )
                await self._stopping.wait()
                server.close()
                await self._finish()
                tasks.cancel_scope.cancel()
        finally:
            self._stopped.set()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.connections) >= self.connector.connections_max + SPARE:
            self.websockets.roster.log_refusal("connections_max", self.log)
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            loop = asyncio.get_running_loop()
            app = ASGIWrapper(cast(ASGIFramework, self.app))  # starlette's types are looser
            await TCPServer(app, loop, self._config, self._context, {}, reader, writer)
        except asyncio.CancelledError:
            pass  # cut off by `_finish`; asyncio's callback would make an error of it
        except Exception:  # one peer's trouble stays its own; hypercorn's groups are of these
            self.log.exception("connection_failed")
        finally:
            self.connections.discard(task)

    async def _finish(self) -> None:
        """Let the requests under way end, and cut off what takes longer."""
        await self._context.terminated.set()
        if self.connections:
            _, late = await asyncio.wait(self.connections, timeout=GRACEFUL_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def adopt(
        self, connector: ConnectorSettings, make_engine: MakeEngine, tls: ssl.SSLContext | None
    ) -> None:
        """Go on with other options and certificates; open WebSockets keep theirs.

        hypercorn keeps the context it was given, so `tls` only shows that the files are good.
        """
        self.connector = connector
        self.app.adopt(connector.http)
        self.websockets.roster.connector = connector
        self.websockets.make_engine = make_engine
        self.websockets.auth = self.app.auth
        if self._tls is not None and tls is not None and connector.tls is not None:
            self._tls.load_cert_chain(connector.tls.certificate, connector.tls.key)

    def shut_down(self, reason: str) -> None:
        """Let nobody in any more, and tell WebSockets that it is over."""
        self.websockets.shut_down(reason)

    async def until_empty(self) -> None:
        """Wait until the last WebSocket is gone, then end all requests and wait for that."""
        await self.websockets.roster.until_empty()
        self._stopping.set()
        await self._stopped.wait()


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None  # the application logs what happens, and never a secret
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.h2_max_concurrent_streams = STREAMS_MAX
    config.max_app_queue_size = QUEUE_MAX
    return config
