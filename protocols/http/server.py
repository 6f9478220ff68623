"""Server: one HTTP port, served by hypercorn on the broker's own event loop.

To the broker's server it looks like any other listener. hypercorn speaks HTTP/1.1 and HTTP/2: over
TLS as the client asks by ALPN, in clear text with prior knowledge. hypercorn closes connections
that are idle or slow to send their head, except some that `websocket_stream` takes care of.

hypercorn would take any number of connections. So we accept on the port, and hand each connection
to hypercorn. A few are let in beyond `connections_max`, so that a WebSocket can be told why it is
refused, and a health probe is answered. Any further connection is closed at once. At the end the
peers of WebSockets are told first: hypercorn would only cut them off.

hypercorn takes 64 KiB of a connection at once. It takes the next 64 KiB without a pause if they are
there already, and asyncio keeps some hundred KiB. As a body or a large message that is little work.
But so many bytes are ten thousands of frames if each frame is as small as it can be: parts of a
WebSocket message without content, PING of WebSocket or HTTP/2. Nobody else would be served for as
long as these take, and even strangers may send them. So a connection is read through `Portions`. A
portion is small, in bytes and in frames of HTTP/2, and the event loop has a turn before each.

The event loop keeps the certificates that it was given. So a reload first accepts once more on the
same socket, with the new certificates, and then stops the old accepting. No peer is turned away
meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final, cast

import anyio
import structlog
from anyio.lowlevel import checkpoint
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from priority.priority import PriorityError
from starlette.types import ASGIApp, Receive, Scope, Send

from covey.config.settings import ConnectorSettings, HttpSettings
from covey.core.broker.directory import Directory
from covey.core.errors import ProtocolError
from covey.core.management.history import History
from covey.protocols.engine import MakeEngine
from covey.protocols.http.app import App
from covey.protocols.http.websocket import WebSockets
from covey.protocols.http.websocket_stream import LOOK_EVERY_S, QUEUE_MAX, Idle, requests_of
from covey.protocols.listener import SOCKET_OPTIONS, address_of, cannot_listen, read_head
from covey.protocols.passing import Passing, Stream
from covey.protocols.protocol import Configuration
from covey.protocols.proxy_v2 import Source
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Strangers
from covey.protocols.tls import make_context

GRACEFUL_S: Final = 1.0  # for requests under way at shutdown; their peers were told before
STREAMS_MAX: Final = 100  # requests at once on one HTTP/2 connection (RFC 9113 asks for no less)
BACKLOG: Final = 1024
SPARE: Final = 16  # connections beyond the limit: refusals and health probes

# Bytes. The smallest frames make a portion ten milliseconds of work. A message of 100 MiB takes
# ten percent longer than in one piece.
PORTION: Final = 8 * 1024

# Frames of HTTP/2. A request that is taken back at once has two of them, and takes half a
# millisecond: 36 bytes.
FRAMES_MAX: Final = 32
H2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
H2_HEAD: Final = 9  # bytes of a frame before its payload; the first three are the payload's length

# Exceptions that hypercorn raises through a peer's fault: more streams, open or reset, than it
# counts; a method or path that is not ASCII.
PEER_FAULTS: Final = (PriorityError, UnicodeError)

VERSIONS: Final = ["h2", "http/1.1"]  # as ALPN names them, best first

Log = structlog.typing.FilteringBoundLogger


class HttpListener:
    """One connector's port that speaks HTTP."""

    def __init__(
        self,
        connector: ConnectorSettings,
        directory: Directory,
        make_engine: MakeEngine,
        log: Log,
        *,
        strangers: Strangers,
        unready: Callable[[], str],
        history: History,
        configuration: Configuration,
        passing: Passing | None = None,
    ) -> None:
        """Put it together; `make_engine` gives the STOMP engine of a WebSocket."""
        self.connector = connector
        self.directory = directory
        self.log = log.bind(connector=connector.id)
        self.address = ""
        self.websockets = WebSockets(
            connector,
            make_engine,
            self.log,
            buffers=ReadBuffers.of(directory.settings.broker),
            strangers=strangers,
            passing=passing,
        )
        self.roster = self.websockets.roster
        self.app = App(
            directory,
            connector.http,
            self.log,
            websockets=self.websockets,
            unready=unready,
            history=history,
            configuration=configuration,
            owners=passing.owners if passing is not None and passing.owners.here else None,
            connector=connector.id,
        )
        self.websockets.auth = self.app.auth
        self._tls: ssl.SSLContext | None = None
        self._config = _config(connector.http)
        self._context = WorkerContext(None)
        self.connections: dict[asyncio.Task[None], Idle] = {}
        self._heads = 0  # that a load balancer has yet to send
        self._is_stopping = False
        self._stirred = anyio.Event()  # set when the port stops, or gets other certificates
        self._stopped = anyio.Event()

    async def bind(self, given: Sequence[socket.socket] = ()) -> socket.socket:
        """Take the port, or use a socket that has it; raises OSError that names the port."""
        connector = self.connector
        if connector.tls is not None:
            self._tls = _with_versions(make_context(connector.tls))
        (bound,) = given or open_sockets(connector)
        # Sockets that are accepted inherit these.
        for level, option, value in SOCKET_OPTIONS:
            bound.setsockopt(level, option, value)
        self.app.console.sessions.open(bound.getsockname()[1], time.monotonic())
        self.address = address_of(connector, [bound])
        return bound

    async def serve(self, bound: socket.socket) -> None:
        """Serve until shut down."""
        try:
            with bound:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.websockets.roster.watch)
                    tasks.start_soon(self._watch)
                    server = await self._open(bound)
                    while await self._wait_for_renewal():
                        former, server = server, await self._open(bound)
                        former.close()
                    server.close()
                    await self._finish()
                    tasks.cancel_scope.cancel()
        finally:
            self._stopped.set()

    async def _open(self, bound: socket.socket) -> asyncio.Server:
        """Accept on the port with the present options."""
        tls = self.connector.tls
        limit_ms = int(self.connector.write_timeout_s * 1000)  # 0: the system's own
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)
        return await asyncio.start_server(
            self._serve_one,
            sock=bound.dup(),
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if tls is None else tls.handshake_timeout_s,
        )

    async def _wait_for_renewal(self) -> bool:
        """Wait for other certificates, then return True; return False at the end."""
        await self._stirred.wait()
        self._stirred = anyio.Event()
        return not self._is_stopping

    async def _watch(self) -> None:
        """Close connections that are idle for too long."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            limit_s = self.connector.http.idle_timeout_s
            for idle in list(self.connections.values()):
                if idle.measure(now) >= limit_s:
                    idle.server.writer.transport.abort()  # nothing is left to say

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.connections) + self._heads >= self.connector.connections_max + SPARE:
            self.websockets.roster.log_refusal("connections_max", self.log)
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        try:
            served = await self._behind_proxy(reader) if self.connector.proxy_protocol else self.app
        except (ProtocolError, OSError, EOFError, TimeoutError) as error:
            self.log.warning("proxy_head_refused", cause=str(error) or "it did not come in time")
            writer.transport.abort()
            return
        app = ASGIWrapper(cast(ASGIFramework, served))  # starlette's types are looser
        log = self.log.bind(remote=_remote(writer))  # asked now: later the address may be gone
        portions = Portions(reader)
        server = TCPServer(app, loop, self._config, self._context, {}, portions, writer)
        self.connections[task] = Idle(server, time.monotonic())
        try:
            await server
        except asyncio.CancelledError:
            pass  # cut off by `_finish`; asyncio's callback would make an error of it
        except Exception as error:  # one peer's trouble stays its own
            cause = _fault(error)
            if cause is None:
                log.exception("connection_failed")
                self.directory.internal_errors += 1
            else:
                log.warning("connection_failed", cause=f"{type(cause).__name__}: {cause}")
        else:
            requests = requests_of(server)
            if requests > self._config.keep_alive_max_requests:
                log.info("requests_max_reached", requests=requests)
        finally:
            del self.connections[task]

    async def _behind_proxy(self, reader: asyncio.StreamReader) -> ASGIApp:
        """Return the application for the peer that a load balancer names."""
        self._heads += 1
        try:
            source = await read_head(reader.readexactly)
        finally:
            self._heads -= 1
        return self.app if source is None else _behind(source, self.app)

    async def _finish(self) -> None:
        """Wait for the requests under way, and cut off those that take too long."""
        await self._context.terminated.set()
        if self.connections:
            _, late = await asyncio.wait(self.connections, timeout=GRACEFUL_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def answer(self, stream: Stream) -> None:
        """Answer a request that another process has passed on."""
        await self.app.answer(stream)

    def adopt(
        self, connector: ConnectorSettings, make_engine: MakeEngine, tls: ssl.SSLContext | None
    ) -> None:
        """Go on with other options and certificates; open connections keep theirs."""
        self.connector = connector
        self._config = _config(connector.http)
        self._tls = _with_versions(tls)
        self.app.adopt(connector.http)
        self.websockets.roster.connector = connector
        self.websockets.make_engine = make_engine
        self.websockets.auth = self.app.auth
        self._stirred.set()

    def shut_down(self, reason: str) -> None:
        """Let nobody in any more, and end WebSockets and streams of events."""
        self.app.console.streams.end()
        self.websockets.shut_down(reason)

    async def until_empty(self) -> None:
        """Wait until the last WebSocket is gone, then end all requests and wait for that."""
        await self.websockets.roster.until_empty()
        self._is_stopping = True
        self._stirred.set()
        await self._stopped.wait()


def open_sockets(connector: ConnectorSettings) -> list[socket.socket]:
    """Take a port at one address; raises OSError that names it."""
    family = socket.AF_INET6 if ":" in connector.host else socket.AF_INET
    address = (connector.host, connector.port)
    try:
        return [socket.create_server(address, family=family, backlog=BACKLOG)]
    except OSError as error:
        raise OSError(cannot_listen(connector, error)) from error


def _behind(source: Source, app: ASGIApp) -> ASGIApp:
    """Return the application for a load balancer's client, which never counts as local."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = (b"x-forwarded-for", source.host.encode())
        headers = [*scope.get("headers", ()), forwarded]
        await app({**scope, "client": tuple(source), "headers": headers}, receive, send)

    return serve


def _remote(writer: asyncio.StreamWriter) -> str:
    address, port = (writer.get_extra_info("peername") or ("", 0))[:2]
    return f"{address}:{port}"


def _fault(error: BaseException) -> Exception | None:
    """Return the peer's fault from hypercorn's exception group; None if it is not the peer's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, PEER_FAULTS) else None


def _with_versions(tls: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Let clients choose the version of HTTP by ALPN."""
    if tls is not None:
        tls.set_alpn_protocols(VERSIONS)
    return tls


def _config(settings: HttpSettings) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None  # the application logs what happens, and never a secret
    config.include_server_header = False
    config.keep_alive_timeout = settings.idle_timeout_s
    config.h2_max_concurrent_streams = STREAMS_MAX
    config.max_app_queue_size = QUEUE_MAX
    return config


class Portions(asyncio.StreamReader):
    """What hypercorn reads of one connection: a portion at a time.

    A portion of HTTP/2 also has no more than FRAMES_MAX frames.
    """

    def __init__(self, whole: asyncio.StreamReader) -> None:
        """Read from another reader; nothing is fed to this one."""
        super().__init__()
        self._whole = whole
        self._frames = Frames()
        self._left = b""  # was read, and comes with the next portions

    def at_eof(self) -> bool:
        """Return True if nothing is left and nothing more will come."""
        return not self._left and self._whole.at_eof()

    async def read(self, n: int = -1) -> bytes:
        """Let others have their turn, then wait for at most `n` bytes, and a portion at most."""
        await checkpoint()
        most = PORTION if n < 0 else min(n, PORTION)
        data = self._left[:most] or await self._whole.read(most)
        size = self._frames.portion(data)
        self._left = data[size:] + self._left[most:]
        return data[:size]


class Frames:
    """Counts the frames of HTTP/2 in what a connection sends; other protocols have none."""

    def __init__(self) -> None:
        self._opening = b""  # the first bytes, until they tell the protocol
        self._is_h2: bool | None = None
        self._head = b""  # what has come of the head of a frame
        self._payload = 0  # bytes of a payload that are still to come

    def portion(self, data: bytes) -> int:
        """Return how many of the bytes, which are the next ones, belong to the next portion."""
        start = 0
        if self._is_h2 is None:
            opening = data[: len(H2_PREFACE) - len(self._opening)]
            self._opening += opening
            if not H2_PREFACE.startswith(self._opening):
                self._is_h2 = False
            elif len(self._opening) == len(H2_PREFACE):
                self._is_h2 = True
                start = len(opening)
        return self._walk(data, start) if self._is_h2 else len(data)

    def _walk(self, data: bytes, at: int) -> int:
        """Walk from frame to frame; return where FRAMES_MAX of them have ended."""
        found = 0
        while at < len(data) and found < FRAMES_MAX:
            if self._payload:
                taken = min(self._payload, len(data) - at)
                self._payload -= taken
                at += taken
            else:
                head = data[at : at + H2_HEAD - len(self._head)]
                self._head += head
                at += len(head)
                if len(self._head) < H2_HEAD:
                    break
                self._payload = int.from_bytes(self._head[:3], "big")
                self._head = b""
            if not self._payload:
                found += 1
        return at
