"""An engine that raises: its peer is told, it is logged and counted, and nobody else notices.

The engines are the real ones, behind a real port. What is broken is the store below them: it raises
what nobody foresaw. Engines that are broken themselves show that the shell holds, whatever they do.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import anyio
import pytest
import structlog
from anyio.abc import ByteStream
from structlog.testing import capture_logs

from covey.config.settings import ConnectorSettings, Settings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.model.message import Message, Neutral
from covey.core.security.throttle import Throttle
from covey.core.security.users import Identity
from covey.core.session import Session
from covey.core.storage.memory import MemoryStore
from covey.protocols.amqp.codec import decoder
from covey.protocols.engine import MakeEngine, Peer
from covey.protocols.listener import Listener
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.registry import engine_maker
from covey.protocols.roster import Strangers
from tests.core.support import depth
from tests.doubles import Letter
from tests.e2e.amqp_bytes import (
    AMQP_HEADER,
    CLOSE,
    HEADER_SIZE,
    SASL_HEADER,
    SASL_OUTCOME,
    attaching,
    beginning,
    granting,
    opening,
    sasl_init,
    transferring,
)
from tests.protocols.support import SilentEngine

TIMEOUT_S: Final = 20.0
READ_SIZE: Final = 16384
LOGIN: Final = b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:admin\npasscode:password\n\n\0"
KEPT: Final = b"SEND\ndestination:/queue/q\npersistent:true\n\nx\0"
PLAIN_LOGIN: Final = sasl_init("PLAIN", b"\0admin\0password")

Scenario = Callable[[int], Awaitable[None]]


class BrokenStore(MemoryStore):
    """Raises for every message that it is to keep."""

    is_durable = True

    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        raise ZeroDivisionError("broken on purpose")


class BrokenThrottle(Throttle):
    """Raises for every login."""

    def wait_s(self, address: str, user: str, now: float) -> float:
        raise ZeroDivisionError("broken on purpose")


class BrokenSessions(dict[int, Session]):
    """Raises when it is counted."""

    def values(self) -> NoReturn:
        raise ZeroDivisionError("broken on purpose")


def serve(
    protocol: str,
    make: MakeEngine,
    scenario: Scenario,
    listeners: list[Listener] | None = None,
) -> list[str]:
    """Play a scenario with the port's number; return what was logged meanwhile."""
    connector = ConnectorSettings.model_validate(
        {"id": "test", "protocol": protocol, "bind": "127.0.0.1:0"}
    )

    async def play() -> None:
        log = structlog.get_logger()
        strangers = Strangers(10)
        listener = Listener(
            connector, make, log, buffers=ReadBuffers(READ_SIZE), strangers=strangers
        )
        if listeners is not None:
            listeners.append(listener)
        bound = await listener.bind()
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, bound)
                await scenario(int(listener.address.rpartition(":")[2]))
                tasks.cancel_scope.cancel()

    with capture_logs() as logs:
        anyio.run(play)
    return [str(line["event"]) for line in logs]


def serve_broken(broker: Broker, protocol: str, scenario: Scenario) -> list[str]:
    """Play a scenario with a real engine of a protocol."""
    connector = ConnectorSettings.model_validate(
        {"id": "test", "protocol": protocol, "bind": "127.0.0.1:0"}
    )
    make_engine = engine_maker(Directory.of(broker), connector, structlog.get_logger())
    return serve(protocol, make_engine, scenario)


async def to_the_end(stream: ByteStream) -> bytes:
    heard = b""
    try:
        while True:
            heard += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return heard


async def until(stream: ByteStream, wanted: bytes) -> bytes:
    heard = b""
    while wanted not in heard:
        heard += await stream.receive()
    return heard


def test_a_stomp_peer_gets_an_error_that_blames_the_broker_and_others_go_on() -> None:
    broker = Broker(Settings(), BrokenStore())

    async def scenario(port: int) -> None:
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as unlucky,
            await anyio.connect_tcp("127.0.0.1", port) as other,
        ):
            await other.send(LOGIN + b"SUBSCRIBE\nid:1\ndestination:/topic/t\nreceipt:r\n\n\0")
            await until(other, b"RECEIPT")
            await unlucky.send(LOGIN + KEPT)
            heard = await to_the_end(unlucky)
            assert b"\nERROR\nmessage:the broker failed; its log says how\n" in heard
            assert b"\ncovey-code:internal\n" in heard
            await other.send(b"SEND\ndestination:/topic/t\n\nalive\0")
            assert b"alive" in await until(other, b"\0")
            assert len(broker.sessions) == 1

    events = serve_broken(broker, "stomp", scenario)
    assert events.count("connection_failed") == 1
    assert broker.internal_errors == 1


def codes(heard: bytes) -> list[int]:
    """Return the code of each frame; headers of protocols are left out."""
    found = []
    while heard:
        if heard.startswith(AMQP_HEADER[:4]):
            heard = heard[HEADER_SIZE:]
            continue
        (size,) = struct.unpack(">I", heard[:4])
        body = decoder.decode(heard, HEADER_SIZE) if size > HEADER_SIZE else None
        if isinstance(body, decoder.Described) and isinstance(body.descriptor, int):
            found.append(body.descriptor)
        heard = heard[size:]
    return found


def test_an_amqp_peer_gets_a_close_that_blames_the_broker() -> None:
    broker = Broker(Settings(), BrokenStore())
    durable = b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x75\xa0\x01x"  # a header that says so, and data

    async def scenario(port: int) -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as peer:
            await peer.send(SASL_HEADER + PLAIN_LOGIN)
            await until(peer, b"\x00\x53\x44")
            await peer.send(AMQP_HEADER + opening() + beginning())
            await peer.send(attaching("in", 0, "q", sends=True))
            await peer.send(transferring(0, 0, b"", message=durable))
            heard = await to_the_end(peer)
            assert codes(heard)[-1] == CLOSE
            assert b"amqp:internal-error" in heard
            assert b"the broker failed; its log says how" in heard

    events = serve_broken(broker, "amqp", scenario)
    assert events.count("connection_failed") == 1
    assert broker.internal_errors == 1
    assert not broker.sessions


def test_a_failure_before_the_peers_open_is_told_as_well() -> None:
    broker = Broker(Settings())
    broker.shared.sessions = BrokenSessions()

    async def scenario(port: int) -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as peer:
            await peer.send(SASL_HEADER + PLAIN_LOGIN + AMQP_HEADER + opening())
            heard = await to_the_end(peer)
            assert codes(heard)[-1] == CLOSE

    assert "connection_failed" in serve_broken(broker, "amqp", scenario)
    assert broker.internal_errors == 1


def test_a_login_at_which_the_broker_fails_is_answered() -> None:
    broker = Broker(Settings())
    broker.users.throttle = BrokenThrottle()

    async def scenario(port: int) -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as peer:
            await peer.send(SASL_HEADER + PLAIN_LOGIN)
            heard = await to_the_end(peer)
            assert codes(heard)[-1] == SASL_OUTCOME
            assert heard.endswith(b"\x50\x02")

    serve_broken(broker, "amqp", scenario)
    assert broker.internal_errors == 1


class Poison(Letter):
    """A message that cannot be written, in any protocol's words."""

    def neutral(self) -> Neutral:
        raise ZeroDivisionError("broken on purpose")


def poison(broker: Broker) -> None:
    """Put such a message where the next turn, whoever's it is, will deliver it."""
    queue = broker.host.queue("q")
    queue.enqueue(Poison())
    broker.turns.mark(queue)


async def attached(port: int) -> ByteStream:
    """Return an AMQP peer that reads the queue."""
    peer = await anyio.connect_tcp("127.0.0.1", port)
    await peer.send(SASL_HEADER + PLAIN_LOGIN)
    await until(peer, b"\x00\x53\x44")
    await peer.send(AMQP_HEADER + opening() + beginning())
    await peer.send(attaching("out", 0, "q", sends=False) + granting(0))
    await until(peer, b"out")
    return peer


async def subscribed(port: int) -> ByteStream:
    """Return a STOMP peer that reads the queue."""
    peer = await anyio.connect_tcp("127.0.0.1", port)
    await peer.send(LOGIN + b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\nreceipt:r\n\n\0")
    await until(peer, b"RECEIPT")
    return peer


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_what_fails_in_anothers_turn_is_blamed_on_whose_it_is(protocol: str) -> None:
    broker = Broker(Settings())

    async def scenario(port: int) -> None:
        reader = await (subscribed if protocol == "stomp" else attached)(port)
        other = broker.open(broker.host, Identity("admin"), 0.0)
        poison(broker)
        broker.run(time.monotonic(), other)  # another's turn, in which nothing is raised
        assert FAILED in await to_the_end(reader)
        assert list(broker.sessions.values()) == [other]
        assert depth(broker.host.queues["q"]) == 1
        await reader.aclose()

    events = serve_broken(broker, protocol, scenario)
    assert events.count("connection_failed") == broker.internal_errors == 1


def test_a_farewell_that_fails_holds_up_nobody_elses() -> None:
    broken, other = BrokenEngine("shut_down"), SilentEngine()
    waiting: list[SilentEngine] = [broken, other]

    async def scenario(port: int) -> None:
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as first,
            await anyio.connect_tcp("127.0.0.1", port) as second,
        ):
            await anyio.wait_all_tasks_blocked()
            for listener in listeners:
                listener.shut_down("the end")
            assert await to_the_end(first) != b""
            assert await to_the_end(second) == b"the end"

    listeners: list[Listener] = []
    events = serve("stomp", lambda peer, now: waiting.pop(0), scenario, listeners)
    assert events.count("connection_failed") == broken.failures == 2


class BrokenEngine(SilentEngine):
    """Raises wherever it is told to."""

    def __init__(self, *places: str) -> None:
        super().__init__()
        self.places = places

    def _break(self, place: str) -> None:
        if place in self.places:
            raise ZeroDivisionError(f"broken on purpose in {place}")

    def receive(self, data: bytes, now: float) -> None:
        self._break("receive")
        super().receive(data, now)
        self.wake()

    def outgoing(self) -> bytes:
        if self.heard:
            self._break("outgoing")
        if self.is_closed:
            self._break("parting")
        return super().outgoing()

    def tick(self, now: float) -> float | None:
        if self.heard:
            self._break("tick")
        return super().tick(now)

    def lost(self, now: float) -> None:
        super().lost(now)
        self._break("lost")

    def shut_down(self, reason: str, now: float) -> None:
        super().shut_down(reason, now)
        self._break("shut_down")


def hear(engine: BrokenEngine) -> tuple[bytes, int]:
    """Say something to an engine; return what it answers, and how often the log says it failed."""
    heard = b""

    def make(peer: Peer, now: float) -> BrokenEngine:
        return engine

    async def scenario(port: int) -> None:
        nonlocal heard
        async with await anyio.connect_tcp("127.0.0.1", port) as peer:
            await peer.send(b"hello")
            heard = await to_the_end(peer)

    events = serve("stomp", make, scenario)
    assert engine.losses == 1
    assert events.count("connection_failed") == engine.failures
    return heard, engine.failures


FAILED: Final = b"the broker failed; its log says how"


def test_wherever_an_engine_raises_its_peer_hears_of_it() -> None:
    assert hear(BrokenEngine("receive")) == (FAILED, 1)
    assert hear(BrokenEngine("tick")) == (FAILED, 1)
    assert hear(BrokenEngine("receive", "lost")) == (FAILED, 2)
    assert hear(BrokenEngine("receive", "shut_down")) == (FAILED, 2)


def test_one_that_cannot_even_say_so_is_cut_off() -> None:
    assert hear(BrokenEngine("outgoing")) == (b"", 2)
    assert hear(BrokenEngine("receive", "parting")) == (b"", 2)
