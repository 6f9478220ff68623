"""WebSocket: STOMP frames in WebSocket messages (RFC 6455), joined to an engine.

A WebSocket is wrapped as a transport of bytes. So the one shell `protocols.connection` serves it
like a socket: heart-beats, back-pressure, the last words before a close. A STOMP frame may be split
over several WebSocket messages anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from covey.config.settings import ConnectorSettings
from covey.core.errors import ProtocolError
from covey.protocols.connection import Connection
from covey.protocols.engine import Engine, MakeEngine, Peer
from covey.protocols.http.answer import HttpError, refusal
from covey.protocols.http.auth import Auth, is_local
from covey.protocols.http.websocket_stream import WebSocketTransport, let_go, tame
from covey.protocols.passing import Passing
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Roster, Strangers

PATHS: Final = ("/stomp", "/ws")
SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")  # best first
SOCKET_BUFFER: Final = 65536  # of hypercorn's socket, as assumed; it sets a subscription's credit

Log = structlog.typing.FilteringBoundLogger


class WebSockets:
    """All WebSockets of one port."""

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
        self.log = log
        self.roster = Roster(connector, buffers=buffers, strangers=strangers, passing=passing)
        self.auth: Auth | None = None  # of the port; set once there is one
        self.is_closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket until it ends (ASGI)."""
        headers = Headers(scope=scope)
        address, port = scope["client"] or ("", 0)
        log = self.log.bind(remote=f"{address}:{port}")
        peer = Peer(str(address), int(port), is_local(headers, str(address)), SOCKET_BUFFER)
        await receive()  # the first message is always the opening
        try:
            self._check(scope, headers)
        except HttpError as error:
            log.warning("websocket_refused", reason=error.text)
            await _refuse(error, send)
            return
        engine = self.make_engine(peer, time.monotonic())
        limit = self.roster.limit_reached(peer.host, engine)
        if limit:
            self.roster.log_refusal(limit, log)
            await _refuse(HttpError("there are too many connections already", "full"), send)
            return
        connections: list[Connection] = []  # one at most: the connection, once it is let in

        def speaking() -> Engine:  # the doorman, or who has followed it
            return connections[0].engine if connections else engine

        tamed = tame(
            send,
            self._size_max_of(speaking),
            overflow=lambda: self._tell_overflow(speaking),
            sign_of_life=lambda: speaking().sign_of_life(time.monotonic()),
        )
        offered = scope.get("subprotocols", [])
        chosen = next((name for name in SUBPROTOCOLS if name in offered), None)
        try:
            await send({"type": "websocket.accept", "subprotocol": chosen, "headers": []})
            connection = self.roster.let_in(engine, peer.host, log)
            connections.append(connection)
            read_size = len(self.roster.buffers.views[0])
            await WebSocketTransport(receive, send, connection, read_size=read_size).serve()
        finally:
            self.roster.strangers.forget(peer.host, speaking())
            await let_go(tamed, receive)

    def shut_down(self, reason: str) -> None:
        """Tell every peer that the broker ends its connection, and let nobody in."""
        self.is_closing = True
        self.roster.shut_down(reason)

    def _check(self, scope: Scope, headers: Headers) -> None:
        assert self.auth is not None
        self.auth.check_host(headers)
        self.auth.check_page(headers)
        if self.is_closing:
            raise HttpError("the broker is shutting down", "shutdown")
        if scope["path"] not in PATHS:
            raise HttpError("there is no WebSocket at this path", "not-found")
        offered = scope.get("subprotocols", [])
        if offered and not any(name in offered for name in SUBPROTOCOLS):
            known = ", ".join(SUBPROTOCOLS)
            raise HttpError(f"none of the subprotocols {known} was offered", "invalid")

    def _size_max_of(self, speaking: Callable[[], Engine]) -> Callable[[], int]:
        """Return a function that gives the largest message size: less before the peer's login."""
        stomp = self.roster.connector.stomp
        whole = stomp.max_data_length + stomp.max_headers * stomp.max_header_length

        def size_max() -> int:
            return stomp.login_frame_max if speaking().is_stranger else whole

        return size_max

    def _tell_overflow(self, speaking: Callable[[], Engine]) -> None:
        engine = speaking()
        keys = "login_frame_max allows"
        if not engine.is_stranger:
            keys = "max_data_length, max_headers and max_header_length together allow"
        size = self._size_max_of(speaking)()
        text = f"a WebSocket message is larger than {size} bytes, the most that {keys}"
        engine.refuse(ProtocolError(text, "limit"), time.monotonic())


async def _refuse(error: HttpError, send: Send) -> None:
    """Answer the opening with a plain HTTP refusal, as RFC 6455 section 4.2.2 has it."""
    response = refusal(error)
    await send(
        {
            "type": "websocket.http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
