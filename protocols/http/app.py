"""App: one HTTP request from its first byte to the last of the answer (ASGI).

A request is checked in this order: is the host ours, who asks, is there such a route, may this web
page ask, is the query right, may the user do this, is the body right. Without a login a client
learns nothing, not even which routes exist. Only the health probes answer everybody.

A body is counted while it comes in, and never gathered beyond its limit. Everything has to be done
within the request's time. A request that changes something is answered when the change is on disk.

If other processes serve virtual hosts, a request about one of these is passed on to its owner and
answered there (`protocols.request_stream`). Answers about all virtual hosts are gathered.

A handler's refusal is answered by `answer.refusal`. An unexpected exception is logged and answered
by a 500.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
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
from covey.core.errors import BrokerError, RefusedError
from covey.core.management.history import History
from covey.core.security.users import Identity
from covey.core.session import Session
from covey.protocols.engine import FAILED
from covey.protocols.http.answer import HttpError, login_required, refusal
from covey.protocols.http.ask import NOBODY, Ask, Console
from covey.protocols.http.auth import Auth, Visits
from covey.protocols.http.console.events import EventStream, Streams
from covey.protocols.http.console.sessions import Sessions
from covey.protocols.http.metrics import Metrics
from covey.protocols.http.places import FOR_STRANGERS, Places
from covey.protocols.http.routes import ROUTES
from covey.protocols.http.routing import Need, Route, Setting, find
from covey.protocols.http.schemas import Body
from covey.protocols.passing import WAIT_S, Owners, Stream
from covey.protocols.protocol import Configuration
from covey.protocols.request_stream import PASSED_ON, PassedOn, answer, fetch, forward

# How long the rest of an unwanted body is read. Without that the peer would get a reset instead of
# our answer.
LINGER_S = 2.0

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
        owners: Owners | None = None,
        connector: str = "",
    ) -> None:
        """Serve a port; `owners` are the other processes, which have a port of the same id."""
        self.directory = directory
        self._owners = owners
        self._connector = connector
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
        self._places = Places(directory, owners, self.console.sessions)
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
        if isinstance(response, Forwarded):
            await self._forward(response, scope, body, send)
            return
        if isinstance(response, EventStream) and scope["method"] != "HEAD":
            await _stream(response, body, send)
            return
        with anyio.move_on_after(limit_s):
            await _send(response, scope, body, send)

    async def answer(self, stream: Stream) -> None:
        """Answer a request that another process has passed on."""
        await answer(stream, self._serve)

    async def _forward(self, response: Forwarded, scope: Scope, body: Incoming, send: Send) -> None:
        """Have another process answer."""
        assert self._owners is not None
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            stream = await self._owners.open_stream(response.place, self._connector)
            begin_s = self.settings.request_timeout_s + WAIT_S
            await forward(stream, scope, response.passed_on, body.receive, sent, begin_s)
        except RefusedError as error:
            self.log.warning("not_answered", path=scope["path"], cause=error.text)
            if not has_begun:
                await _send(refusal(error), scope, body, send)

    async def _gather(
        self, scope: Scope, identity: Identity
    ) -> dict[str, tuple[int, bytes] | None]:
        """Send the request to all other processes; None for one that does not answer in time."""
        owners = self._owners
        found: dict[str, tuple[int, bytes] | None] = {}
        if owners is None:
            return found

        async def ask(place: str) -> None:
            with suppress(RefusedError), anyio.move_on_after(WAIT_S):
                stream = await owners.open_stream(place, self._connector)
                found[place] = await fetch(stream, scope, PassedOn(identity.name))

        async with anyio.create_task_group() as tasks:
            for place in owners.places:
                found[place] = None
                tasks.start_soon(ask, place)
        return found

    async def _answer(self, scope: Scope, body: Incoming) -> Response:
        try:
            return await self._handle(scope, body)
        except BrokerError as error:
            if error.code == "denied" and isinstance(error, HttpError):
                # Denials by the core are told to the audit by the core itself.
                self.log.warning("web_page_denied", path=scope["path"], reason=error.text)
            return refusal(error)
        except Exception:  # the request's edge: one request's trouble stays its own
            self.log.exception("request_failed", method=scope["method"], path=scope["path"])
            self.directory.internal_errors += 1
            return refusal(BrokerError(FAILED))

    async def _handle(self, scope: Scope, body: Incoming) -> Response:
        headers = Headers(scope=scope)
        method, query = scope["method"], scope["query_string"]
        remote = "{}:{}".format(*(scope["client"] or ("", 0)))
        now = time.monotonic()
        self.directory.shared.clock.turn(now)
        route, names = await self._route(scope, headers, remote)
        passed_on: PassedOn | None = scope.get(PASSED_ON)
        place, is_checked_there = self._places.place(route, query, headers, passed_on)
        if place and is_checked_there:
            return Forwarded(place, PassedOn(is_final=place != self._places.home))
        identity, signed_in = NOBODY, None
        if passed_on is not None and passed_on.user:
            identity = self._known(passed_on.user, headers, remote)
        elif route.need not in FOR_STRANGERS:
            identity, signed_in = await self.auth.login(headers, remote, now)
            self.console.visits.note(identity, now)
        if route.need is not Need.NOTHING:
            self.auth.check_origin(method, headers)
        if signed_in is not None:
            self.auth.check_token(method, headers, signed_in)
        place = place or await self._places.waited_for(route, query, headers, passed_on)
        if place:
            return Forwarded(place, PassedOn(identity.name))
        settings = route.settings(query)
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
            owners=None if passed_on is not None and passed_on.is_final else self._owners,
            gather=partial(self._gather, scope, identity),
        )
        if route.need is Need.MANAGE:  # the core itself checks SEND and BROWSE
            ask.check_manage()
        elif route.need is Need.SOME:
            ask.check_manage_some()
        if route.body is not None:
            ask.body = await _read_body(route, route.body, headers, body)
            ask.now = time.monotonic()
            broker.turn(ask.now)
        turn = broker.turn_lengths.begin(f"{route.method} {route.path}")
        response = await route.handler(ask)
        broker.turn_lengths.end_of(turn)
        if route.method != "GET":
            await _keep(broker, ask.session)
        return response

    def _known(self, name: str, headers: Headers, remote: str) -> Identity:
        """Return the identity of a user whose login another process has checked."""
        known = self.directory.shared.users.known(name)
        if known is None:
            raise login_required(headers)
        return replace(known, remote=remote)

    def _broker(self, settings: Mapping[str, Setting]) -> Broker:
        """Return the broker for a request; any broker if the request names no virtual host."""
        if "host" not in settings:
            return self.directory.any_broker
        return self.directory.named(str(settings["host"]) or None)

    async def _route(
        self, scope: Scope, headers: Headers, remote: str
    ) -> tuple[Route, dict[str, str]]:
        """Find the route; a client without a login is not told that there is none."""
        try:
            route, names = find(ROUTES, scope["method"], scope["raw_path"])
            if route.need is not Need.NOTHING and PASSED_ON not in scope:
                self.auth.check_host(headers)
        except HttpError:
            await self.auth.login(headers, remote, time.monotonic())
            raise
        return route, names


class Forwarded(Response):
    """Another process answers."""

    def __init__(self, place: str, passed_on: PassedOn) -> None:
        super().__init__()
        self.place = place
        self.passed_on = passed_on


def _folder(directory: Directory) -> Path | None:
    """Return where the broker keeps its data; None if it keeps nothing over a restart."""
    store = directory.settings.store
    return Path(store.path) if store.kind == "sqlite" else None


async def _keep(broker: Broker, asker: Session) -> None:
    """Wait until the session's changes are on disk, as a receipt does."""
    safe = anyio.Event()
    broker.promises.after(asker, safe.set)
    broker.run(time.monotonic())
    await safe.wait()


class Incoming:
    """The body of a request as it comes in."""

    def __init__(self, receive: Receive, size_max: int) -> None:
        self._receive = receive
        self._size_max = size_max
        self._is_gone = False  # the peer is gone, or the request is over
        self.ended = anyio.Event()

    async def receive(self) -> Message:
        """Return the next part unchanged, to pass it on."""
        message = await self._receive()
        self._is_gone = message["type"] != "http.request"
        if self._is_gone or not message.get("more_body", False):
            self.ended.set()
        return message

    async def whole(self) -> bytes:
        """Return the whole body; raises HttpError as soon as it is too large."""
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
        """Read and forget the rest of the body: hypercorn must not wait for a reader."""
        while not self._is_gone:
            await self._next()

    async def _next(self) -> bytes:
        message = await self.receive()
        body: bytes = message.get("body", b"")
        return body


async def _send(response: Response, scope: Scope, body: Incoming, send: Send) -> None:
    """Send an answer; the peer may still be sending a body that nobody wants.

    hypercorn waits until somebody reads the end of the request, so a task reads it. The last piece
    of the answer is held back until the body has ended: after that piece hypercorn takes no more
    data of an HTTP/2 stream.
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


async def _read_body(route: Route, model: type[Body], headers: Headers, body: Incoming) -> Body:
    _check_media_type(headers)
    data = await body.whole()
    return _parsed(model, data if data or not route.may_lack_body else b"{}")


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
