"""The shell around an engine, over real sockets in one event loop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest
import structlog
from anyio.abc import SocketStream

from covey.config.settings import ConnectorSettings
from covey.protocols.connection import CLOSE_GRACE_S
from covey.protocols.listener import Listener
from covey.protocols.peer import Peer
from covey.protocols.strangers import Strangers
from tests.protocols.support import SilentEngine

TIMEOUT_S = 20.0
TOO_MUCH = 64 * 1024 * 1024  # more than the sockets between two ends hold

Scenario = Callable[[Listener, SilentEngine, SocketStream], Awaitable[None]]


def run(engine: SilentEngine, scenario: Scenario, write_timeout_s: float = 60.0) -> None:
    """Join an engine to a client's stream and play a scenario."""
    connector = ConnectorSettings(
        id="test", protocol="stomp", bind="127.0.0.1:0", write_timeout_s=write_timeout_s
    )

    def make(peer: Peer, now: float) -> SilentEngine:
        return engine

    async def play() -> None:
        listener = Listener(
            connector, make, structlog.get_logger(), read_size=16384, strangers=Strangers(10)
        )
        bound = await listener.bind()
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, bound)
                port = int(listener.address.rpartition(":")[2])
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await scenario(listener, engine, stream)
                tasks.cancel_scope.cancel()

    anyio.run(play, backend_options={"use_uvloop": True})


async def read_to_the_end(stream: SocketStream) -> int:
    size = 0
    try:
        while True:
            size += len(await stream.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return size


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks run until something is so; `run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 - an engine has no event to wait for
        await anyio.sleep(0.01)


def test_the_last_words_arrive_before_the_close() -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: SocketStream) -> None:
        assert await stream.receive() == b"hello"
        engine.outbox = b"x" * TOO_MUCH
        listener.shut_down("bye")
        assert await read_to_the_end(stream) == TOO_MUCH + len(b"bye")

    engine = SilentEngine()
    engine.outbox = b"hello"
    run(engine, scenario)
    assert engine.losses == 1


def test_an_engine_keeps_its_time_while_its_peer_takes_nothing() -> None:
    engine = SilentEngine()
    engine.deadline = time.monotonic() + 0.1
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: SocketStream) -> None:
        await until(lambda: engine.ticks >= 3)

    run(engine, scenario)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_peer_that_takes_nothing_is_cut_off(*, is_closed: bool) -> None:
    engine = SilentEngine()
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: SocketStream) -> None:
        await until(lambda: bool(listener.roster))
        if is_closed:  # then its own patience ends, however long the setting is
            listener.shut_down("bye")
        await listener.until_empty()
        assert engine.losses == 1
        assert await read_to_the_end(stream) < TOO_MUCH

    run(engine, scenario, write_timeout_s=60.0 if is_closed else CLOSE_GRACE_S / 2)


def test_nothing_is_read_for_an_engine_that_does_not_read() -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: SocketStream) -> None:
        with anyio.move_on_after(0.5) as blocked:
            await stream.send(b"x" * TOO_MUCH)
        assert blocked.cancelled_caught
        # What was asked for before the engine stopped may still come, one read of it.
        assert len(engine.heard) <= 16384
        engine.reading = True
        engine.wake()
        await until(lambda: len(engine.heard) > 16384)

    engine = SilentEngine()
    engine.reading = False
    run(engine, scenario)


def test_everything_is_given_back_when_the_peer_goes() -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: SocketStream) -> None:
        await stream.send(b"hello")
        await stream.send_eof()
        await until(lambda: engine.losses > 0)

    engine = SilentEngine()
    run(engine, scenario)
    assert (engine.heard, engine.losses) == (b"hello", 1)
