"""A broker behind HTTP, asked in process or over a real port; everything on one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import structlog
from pydantic import SecretStr
from starlette.types import Receive, Scope, Send

from covey.config.load import Loaded
from covey.config.settings import ConnectorSettings, HttpSettings, Settings, UserSettings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.events.audit import Audit
from covey.core.host.subscription import Subscription
from covey.core.management.history import History
from covey.core.model.consumer import Window
from covey.core.model.message import Neutral
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Identity
from covey.core.session import Session
from covey.core.storage.store import MessageStore
from covey.protocols.engine import Engine, Peer
from covey.protocols.http.app import App
from covey.protocols.http.messages import HttpMessage
from covey.protocols.http.server import HttpListener
from covey.protocols.protocol import Configuration, Reloaded
from covey.protocols.roster import Strangers
from covey.protocols.stomp.engine import StompEngine
from tests.doubles import Reader, make_directory

ADMIN = ("admin", "secret-of-admin")
PLAIN = ("worker", "secret-of-worker")
WRONG = ("admin", "guessed")
USERS = (
    UserSettings(name=ADMIN[0], password=SecretStr(ADMIN[1]), roles=("admin",)),
    UserSettings(name=PLAIN[0], password=SecretStr(PLAIN[1]), roles=("staff",)),
)
BASE = "http://127.0.0.1"
Json = Any  # the tests look into answers by hand


class Settled(Configuration):
    """A configuration that stays as it is."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def loaded(self) -> Loaded:
        return Loaded(self.settings, {"broker.id": "covey.toml:3"}, [])

    def reload(self, user: str, remote: str, protocol: str) -> Reloaded:
        return Reloaded(["broker.id: changed"], [], [])


class World:
    """A broker and its HTTP application, without a socket."""

    def __init__(
        self,
        settings: Settings | None = None,
        http: HttpSettings | None = None,
        store: MessageStore | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.directory = make_directory(settings or make_settings(), store, audit)
        self.broker = self.directory.any_broker
        self.broker.clock.offset = time.time() - time.monotonic()
        self.host = self.broker.host
        self.why_unready = ""
        self.app = App(
            self.directory,
            http or HttpSettings(),
            structlog.get_logger(),
            websockets=no_websockets,
            unready=lambda: self.why_unready,
            history=History(self.directory),
            configuration=Settled(self.directory.settings),
        )

    def client(self, login: tuple[str, str] | None = ADMIN) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 5000))
        return httpx.AsyncClient(transport=transport, base_url=BASE, auth=login)

    def ask(
        self,
        method: str,
        path: str,
        login: tuple[str, str] | None = ADMIN,
        **given: Any,
    ) -> httpx.Response:
        """Ask once and wait for the answer."""

        async def main() -> httpx.Response:
            async with self.client(login) as client:
                return await client.request(method, path, **given)

        return anyio.run(main)

    def get(self, path: str) -> Json:
        """Return the JSON that stands there."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    # What clients of other protocols do meanwhile.

    def session(self, user: str = "worker") -> Session:
        return self.broker.open(self.host, Identity(user), time.monotonic())

    def send(self, name: str, group: str = "", body: bytes = b"x") -> None:
        session = self.session()
        message = HttpMessage(Neutral(body=body, group_id=group))
        self.broker.publishing.publish(session, (Destination(Kind.QUEUE, name),), message)
        self.broker.drop(session, time.monotonic())
        self.broker.run(time.monotonic())

    def read(self, name: str, credit: int = 10, link: str = "reader") -> Session:
        session = self.session()
        window = Window(credit)
        reader = Subscription(session, link, window, lambda: Reader(window, session))
        now = time.monotonic()
        self.broker.subscribe(session, reader, (Destination(Kind.QUEUE, name),), now)
        self.broker.run(now)
        return session


def make_settings(**given: object) -> Settings:
    hasty = {"login_failed_wait_s": 0}
    return Settings.model_validate({"user": USERS, "broker": hasty, **given})


async def no_websockets(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("no WebSocket here")


class Served:
    """A broker whose HTTP port is open."""

    def __init__(self, broker: Broker, listener: HttpListener) -> None:
        self.broker = broker
        self.listener = listener
        self.address = listener.address
        self.host = broker.host

    def websocket_url(self, path: str = "/stomp") -> str:
        return f"ws://{self.address}{path}"


@asynccontextmanager
async def served(settings: Settings | None = None, **connector: object) -> AsyncIterator[Served]:
    """Serve HTTP on a port the system chooses."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon(lambda: broker.run(time.monotonic()))

    broker = Broker(settings or make_settings(), wake=wake)
    given = {"id": "http", "protocol": "http", "bind": "127.0.0.1:0", **connector}
    options = ConnectorSettings.model_validate(given)

    def make_engine(peer: Peer, now: float) -> Engine:
        return StompEngine(
            broker, options.stomp, remote=peer.remote, is_loopback=peer.is_loopback, now=now
        )

    directory = Directory.of(broker)
    listener = HttpListener(
        options,
        directory,
        make_engine,
        structlog.get_logger(),
        strangers=Strangers(broker.limits.logins_pending_max),
        unready=lambda: "",
        history=History(directory),
        configuration=Settled(broker.settings),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, await listener.bind())
        yield Served(broker, listener)
        listener.shut_down("the test ends")
        await listener.until_empty()
        tasks.cancel_scope.cancel()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an asynchronous test within a time that no honest one needs."""

    async def main() -> None:
        with anyio.fail_after(30):
            await test()

    anyio.run(main)
