"""App: one HTTP request from its first byte to the last of the answer (ASGI).

A request is checked in this order: is the host ours, who asks, is there such a route, is it a web
page that may ask, is the query right, may the user do this, is the body right. Until a login is
known nothing is told, not even which routes exist. Only the health probes answer everybody.

A body is counted while it comes in, and never gathered beyond its limit. Everything has to be done
within the request's time. A request that changes something is answered when the change is on disk.

What a handler refuses is answered by `answer.refusal`. Anything unforeseen is logged, and a 500.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import structlog
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from covey import __version__
from covey.config.settings import HttpSettings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.errors import BrokerError
from covey.core.management.history import History
from covey.core.session import Session
from covey.protocols.engine import FAILED
from covey.protocols.http.answer import HttpError, refusal
from covey.protocols.http.ask import NOBODY, Ask, Console
from covey.protocols.http.auth import Auth, Visits
from covey.protocols.http.console.events import EventStream, Streams
from covey.protocols.http.console.sessions import Sessions
from covey.protocols.http.metrics import Metrics
from covey.protocols.http.routes import ROUTES
from covey.protocols.http.routing import Need, Route, Setting, find
from covey.protocols.http.schemas import Body
from covey.protocols.protocol import Configuration

# How long the rest of a body is read that was not wanted, so that the peer reads our answer
# instead of a reset.
LINGER_S = 2.0
FOR_STRANGERS = (Need.NOTHING, Need.OPEN)
METHODS = sorted({route.method for route in ROUTES})

Log = structlog.typing.FilteringBoundLogger


class App:
    """What hypercorn calls for each request."""

    def __init__(
        self,
        directory: Directory,
        settings: HttpSettings,
        log: Log,
        *,
        websockets: ASGIApp,
        unready: Callable[[], str],
        history: History,
        configuration: Configuration,
    ) -> None:
        self.directory = directory
        self.log = log
        self.unready = unready
        self.metrics = Metrics(directory, __version__)
        self.console = Console(
            settings=settings,
            history=history,
            configuration=configuration,
            sessions=Sessions(directory.shared.users, settings, _folder(directory)),
            streams=Streams(),
            visits=Visits(log),
        )
        self._websockets = websockets
        self.adopt(settings)

    def adopt(self, settings: HttpSettings) -> None:
        """Go on with these options."""
        self.settings = self.console.settings = self.console.sessions.settings = settings
        self.auth = Auth(self.directory, settings, self.console.sessions)
        self._http = CORSMiddleware(
            self._serve,
            allow_origins=list(settings.allowed_origins),
            allow_methods=METHODS,
            allow_headers=["authorization", "content-type", "last-event-id"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a WebSocket."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._websockets(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Incoming(receive, self.settings.body_max)
        limit_s = self.settings.request_timeout_s
        response = refusal(HttpError(f"not done within {limit_s:g} s", "timeout"))
        with anyio.move_on_after(limit_s):
            response = await self._answer(scope, body)
        if isinstance(response, EventStream) and scope["method"] != "HEAD":
            await _stream(response, body, send)
            return
        with anyio.move_on_after(limit_s):
            await _send(response, scope, body, send)

    async def _answer(self, scope: Scope, body: Incoming) -> Response:
        try:
            return await self._handle(scope, body)
        except BrokerError as error:
            if error.code == "denied" and isinstance(error, HttpError):
                # The core tells of what it denies itself.
                self.log.warning("web_page_denied", path=scope["path"], reason=error.text)
            return refusal(error)
        except Exception:  # the request's edge: one request's trouble stays its own
            self.log.exception("request_failed", method=scope["method"], path=scope["path"])
            self.directory.internal_errors += 1
            return refusal(BrokerError(FAILED))

    async def _handle(self, scope: Scope, body: Incoming) -> Response:
        headers = Headers(scope=scope)
        method = scope["method"]
        address, port = scope["client"] or ("", 0)
        remote = f"{address}:{port}"
        now = time.monotonic()
        self.directory.shared.clock.turn(now)
        route, names = await self._route(scope, headers, remote)
        identity, signed_in = NOBODY, None
        if route.need not in FOR_STRANGERS:
            identity, signed_in = await self.auth.login(headers, remote, now)
            self.console.visits.note(identity, now)
        if route.need is not Need.NOTHING:
            self.auth.check_origin(method, headers)
        if signed_in is not None:
            self.auth.check_token(method, headers, signed_in)
        settings = route.settings(scope["query_string"])
        broker = self._broker(settings)
        ask = Ask(
            directory=self.directory,
            broker=broker,
            host=broker.host,
            session=Session(0, broker.host, identity),
            route=route,
            now=now,
            metrics=self.metrics,
            unready=self.unready,
            console=self.console,
            headers=headers,
            is_secure=scope.get("scheme") == "https",
            signed_in=signed_in,
            identity=identity,
            remote=remote,
            names=names,
            settings=settings,
        )
        if route.need is Need.MANAGE:  # SEND and BROWSE the core asks itself
            ask.check_manage()
        elif route.need is Need.SOME:
            ask.check_manage_some()
        if route.body is not None:
            _check_media_type(headers)
            data = await body.whole()
            ask.body = _parsed(route.body, data if data or not route.may_lack_body else b"{}")
            ask.now = time.monotonic()
            broker.turn(ask.now)
        turn = broker.turn_lengths.begin(f"{route.method} {route.path}")
        response = await route.handler(ask)
        broker.turn_lengths.end_of(turn)
        if route.method != "GET":
            await _keep(broker, ask.session)
        return response

    def _broker(self, settings: Mapping[str, Setting]) -> Broker:
        """Return the broker that is asked; what is not about a virtual host asks any."""
        if "host" not in settings:
            return self.directory.any_broker
        return self.directory.named(str(settings["host"]) or None)

    async def _route(
        self, scope: Scope, headers: Headers, remote: str
    ) -> tuple[Route, dict[str, str]]:
        """Find the route; without a login nobody learns that there is none."""
        try:
            route, names = find(ROUTES, scope["method"], scope["raw_path"])
            if route.need is not Need.NOTHING:
                self.auth.check_host(headers)
        except HttpError:
            await self.auth.login(headers, remote, time.monotonic())
            raise
        return route, names


def _folder(directory: Directory) -> Path | None:
    """Return where the broker keeps its data, None if nothing of it survives."""
    store = directory.settings.store
    return Path(store.path) if store.kind == "sqlite" else None


async def _keep(broker: Broker, asker: Session) -> None:
    """Wait until what was changed is on disk, as a receipt does."""
    safe = anyio.Event()
    broker.promises.after(asker, safe.set)
    broker.run(time.monotonic())
    await safe.wait()


class Incoming:
    """The body of a request as it comes in."""

    def __init__(self, receive: Receive, size_max: int) -> None:
        self._receive = receive
        self._size_max = size_max
        self._is_gone = False  # the peer, or the request
        self.ended = anyio.Event()

    async def whole(self) -> bytes:
        """Return all of it; raises HttpError as soon as it is too large."""
        parts: list[bytes] = []
        size = 0
        while not self.ended.is_set():
            part = await self._next()
            if self._is_gone:
                raise HttpError("the body ended early", "invalid")
            size += len(part)
            if size > self._size_max:
                raise HttpError(f"the body has more than {self._size_max} bytes", "too-large")
            parts.append(part)
        return b"".join(parts)

    async def discard(self) -> None:
        """Read and forget all that comes: the server must not wait for us to take it."""
        while not self._is_gone:
            await self._next()

    async def _next(self) -> bytes:
        message: Message = await self._receive()
        self._is_gone = message["type"] != "http.request"
        if self._is_gone or not message.get("more_body", False):
            self.ended.set()
        body: bytes = message.get("body", b"")
        return body


async def _send(response: Response, scope: Scope, body: Incoming, send: Send) -> None:
    """Send an answer; the peer may still be sending what nobody wanted.

    hypercorn hands the request's end to whoever reads it, and waits for that; so somebody reads.
    The last piece is held back until the body has ended, for after it hypercorn takes no more of
    an HTTP/2 stream's data.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(body.discard)
        headers = response.raw_headers
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        content = bytes(response.body)
        await send({"type": "http.response.body", "body": content, "more_body": True})
        with anyio.move_on_after(LINGER_S):
            await body.ended.wait()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        tasks.cancel_scope.cancel()


async def _stream(response: EventStream, body: Incoming, send: Send) -> None:
    """Send a stream of events until it ends, or the peer is gone."""

    async def until_gone() -> None:
        await body.discard()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_gone)
        await send({"type": "http.response.start", "status": 200, "headers": response.raw_headers})
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        tasks.cancel_scope.cancel()


def _check_media_type(headers: Headers) -> None:
    media_type = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HttpError(f"the body is to be application/json, not {media_type[:80]}", "media-type")


def _parsed(model: type[Body], data: bytes) -> Body:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        where = f" at {place[:80]}" if place else ""
        raise HttpError(f"the body{where}: {first['msg']}", "invalid") from error
