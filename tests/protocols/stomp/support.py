"""A broker and its STOMP clients in one process: bytes in, bytes out, a clock that stands still.

`World` holds the broker and the time; `Client` is one connection, joined to it without a socket.
Frames a client is sent are read from the bytes and kept in `inbox` until a test takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent

import structlog

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import Settings, StompSettings, UserSettings, VirtualHostSettings
from covey.core.naming.destination import Kind, Syntax
from covey.core.queue.queue import Queue
from covey.core.storage.store import MessageStore
from covey.protocols.doorman import Doorman
from covey.protocols.engine import Engine, MakeEngine, Peer
from covey.protocols.stomp.engine import StompEngine
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.protocol import StompOpening
from covey.protocols.stomp.session import StompSession
from covey.protocols.stomp.versions import Version
from tests.core.support import depth
from tests.doubles import make_directory

START_S = 1000.0
PEER = Peer("127.0.0.1", 1, is_loopback=True, socket_buffer=65536)
LOG = structlog.get_logger()
# The wall clock at the start: past the year 2011 of the manual's expiry example.
START_MS = 1_700_000_000_000


class Frame:
    """What a client received."""

    def __init__(self, command: str, headers: dict[str, str], body: bytes, block: bytes) -> None:
        self.command = command
        self.headers = headers
        self.body = body
        self.block = block

    def __getitem__(self, name: str) -> str:
        return self.headers[name]

    def __repr__(self) -> str:
        return f"<{self.command} {self.headers} {self.body[:60]!r}>"


class World:
    """A broker, its settings and its time."""

    def __init__(
        self,
        *,
        queues: Sequence[QueueSettings] = (),
        topics: Sequence[TopicSettings] = (),
        hosts: Sequence[VirtualHostSettings] = (),
        users: Sequence[UserSettings] = (),
        stomp: StompSettings | None = None,
        store: MessageStore | None = None,
        limits: dict[str, object] | None = None,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        given: dict[str, object] = {"broker": limits or {}}
        lists = {"queue": queues, "topic": topics, "virtual_host": hosts, "user": users}
        given.update({name: tuple(entries) for name, entries in lists.items() if entries})
        self.directory = make_directory(Settings.model_validate(given), store, None, stopwatch)
        self.broker = self.directory.any_broker
        self.stomp = stomp or StompSettings()
        self.now = START_S
        self.broker.clock.offset = START_MS / 1000 - START_S
        self.clients: list[Client] = []
        self.does_jobs = False  # portion after portion, as a server does

    def connect(self, version: str = "1.2", *, login: str = "admin", **headers: str) -> Client:
        """Let a client in; its CONNECTED is taken already."""
        client = self.stranger()
        offered = {"accept-version": version, "host": "localhost"} if version != "1.0" else {}
        client.send("CONNECT", {**offered, "login": login, "passcode": "password", **headers})
        client.take("CONNECTED")
        return client

    def stranger(self, *, stomp: StompSettings | None = None) -> Client:
        """Open a connection that has not logged in."""
        client = Client(self, stomp or self.stomp)
        self.clients.append(client)
        return client

    def settle_down(self) -> None:
        """Let everybody work until nothing happens any more."""
        self.broker.run(self.now)
        is_busy = True
        while is_busy:
            is_busy = any([client.work() for client in self.clients])
            for broker in self.directory.brokers.values():
                if self.does_jobs and broker.jobs.is_busy:
                    broker.go_on(self.now)
                    is_busy = True
                elif broker.turns.is_any_dirty:
                    broker.run(self.now)
                    is_busy = True

    def wait(self, seconds: float) -> None:
        """Let time pass, as the server's tasks would."""
        self.now += seconds
        self.broker.tick(self.now)
        for client in self.clients:
            client.is_awake = True
        self.settle_down()

    @property
    def wall_ms(self) -> int:
        """The time of day."""
        return self.broker.clock.wall_ms_at(self.now)

    def queue(self, name: str) -> Queue:
        """Give a queue by its wire name, which must exist."""
        (destination,) = Syntax().parse(name, allow_patterns=False)
        host = self.broker.host
        if destination.kind is Kind.DSUB:
            return host.durables[destination.name].queue
        return host.queues[destination.name]

    def depth(self, name: str) -> int:
        """Count the messages of a queue; 0 if there is none."""
        try:
            return depth(self.queue(name))
        except KeyError:
            return 0


class Client:
    """One STOMP connection."""

    def __init__(self, world: World, stomp: StompSettings) -> None:
        self.world = world
        self.stomp = stomp
        self.replace(StompEngine(world.broker, stomp, now=world.now))
        self.door: Engine = self.engine
        if len(world.directory.brokers) > 1:
            self.door = Doorman(
                StompOpening(stomp), world.directory, self._engine_of, PEER, LOG, world.now
            )
            self.door.replace = self.replace
            self.door.wake = self._wake
        self.is_awake = False
        self.reads = True  # False: the client does not read its socket
        self.deadline: float | None = None
        self.unread = b""  # bytes the broker has not read yet
        self.raw = b""
        self.inbox: list[Frame] = []
        self.parser = FrameParser(Limits())
        self.parser.version = Version.V1_2

    def replace(self, engine: Engine) -> None:
        """Go on with the engine that follows a doorman."""
        assert isinstance(engine, StompEngine)
        self.engine = self.door = engine
        engine.wake = self._wake

    def _engine_of(self, space: str) -> MakeEngine:
        broker = self.world.directory.brokers[space]
        return lambda peer, now: StompEngine(broker, self.stomp, now=now)

    @property
    def session(self) -> StompSession:
        """What the client has once it has logged in."""
        assert self.engine.session is not None
        return self.engine.session

    def send(self, command: str, headers: dict[str, str] | None = None, body: str = "") -> None:
        """Write a frame as it stands, and let everybody work."""
        self.feed(frame(command, headers, body))

    def say(self, text: str) -> None:
        """Write frames as the manual shows them: `^@` is NUL, indented text is fine."""
        self.feed(dedent(text).strip("\n").replace("^@\n", "\0\n").replace("^@", "\0").encode())

    def feed(self, data: bytes) -> None:
        """Send bytes, and let everybody work."""
        self.unread += data
        self.world.settle_down()

    def work(self) -> bool:
        """Do what the shell around an engine does; False if there was nothing to do."""
        engine = self.door
        was_busy = self.is_awake
        if self.is_awake:
            self.is_awake = False
            self.deadline = engine.tick(self.world.now)
        if self.unread and engine.reading and not engine.is_closed:
            data, self.unread = self.unread, b""
            engine.receive(data, self.world.now)
            was_busy = True
        if self.reads:
            out = engine.outgoing()
            self._read(out)
            was_busy = was_busy or bool(out)
        return was_busy

    def lose(self) -> None:
        """Break the connection without a word."""
        self.engine.lost(self.world.now)
        self.world.clients.remove(self)
        self.world.settle_down()

    # What came.

    def take(self, command: str = "MESSAGE") -> Frame:
        """Take the next frame, which must be of this command."""
        assert self.inbox, f"no {command} came"
        received = self.inbox.pop(0)
        assert received.command == command, received
        return received

    def take_all(self, command: str = "MESSAGE") -> list[Frame]:
        """Take everything that came, which must be of this command."""
        return [self.take(command) for _ in range(len(self.inbox))]

    def bodies(self) -> list[str]:
        """Take all messages and give their bodies."""
        return [message.body.decode() for message in self.take_all()]

    def receipts(self) -> list[str]:
        """Take all receipts and give their ids."""
        return [receipt["receipt-id"] for receipt in self.take_all("RECEIPT")]

    def error(self) -> Frame:
        """Take the ERROR that ended the connection, the last frame of it."""
        assert self.engine.is_closed
        (received,) = self.take_all("ERROR")
        return received

    # What clients say all day.

    def publish(self, destination: str, *bodies: str, **headers: str) -> None:
        """Send messages; underscores in header names stand for hyphens."""
        for body in bodies:
            self.send("SEND", {"destination": destination, **_named(headers)}, body)

    def subscribe(self, destination: str, id: str = "s", **headers: str) -> None:
        """Start a subscription."""
        self.send("SUBSCRIBE", {"id": id, "destination": destination, **_named(headers)})

    def ack(self, message: Frame, command: str = "ACK", **headers: str) -> None:
        """Acknowledge a message as the client's version does."""
        if self.engine.parser.version is Version.V1_2:
            names = {"id": message["ack"]}
        else:
            names = {"message-id": message["message-id"]}
            if "subscription" in message.headers:
                names["subscription"] = message["subscription"]
        self.send(command, {**names, **_named(headers)})

    def _wake(self) -> None:
        self.is_awake = True

    def _read(self, data: bytes) -> None:
        self.raw += data
        self.parser.feed(data)
        version = self.engine.parser.version
        while (received := self.parser.next_frame()) is not None:
            headers = received.headers(version)
            self.inbox.append(Frame(received.command, headers, received.body, received.block))


def frame(command: str, headers: dict[str, str] | None = None, body: str = "") -> bytes:
    """Write a frame without escapes."""
    lines = [command, *(f"{name}:{value}" for name, value in (headers or {}).items())]
    return ("\n".join(lines) + "\n\n" + body + "\0").encode()


def _named(headers: dict[str, str]) -> dict[str, str]:
    """Turn keyword names into header names."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
