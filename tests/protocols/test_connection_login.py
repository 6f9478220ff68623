"""The shell and a login: an answer that waits, a peer over a limit, one that is cut off."""

from __future__ import annotations

import time

import anyio
import structlog
from anyio.abc import ByteStream

from covey.config.settings import ConnectorSettings
from covey.protocols.engine import Peer
from covey.protocols.listener import Listener
from covey.protocols.roster import Strangers
from tests.protocols.support import SilentEngine
from tests.protocols.test_connection import TOO_MUCH, Run, authority, read_to_the_end, run, until

__all__ = ["authority", "run"]  # fixtures


def test_an_answer_that_has_to_wait_waits_once(run: Run) -> None:
    engine = SilentEngine()
    engine.outbox = b"no"
    engine.answer_delay_s = 0.3
    started = time.monotonic()

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        assert await stream.receive() == b"no"
        assert time.monotonic() - started >= 0.3
        assert engine.answer_delay_s == 0

    run(engine, scenario)


def test_an_engine_that_calls_is_heard_while_its_peer_takes_nothing(run: Run) -> None:
    engine = SilentEngine()
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: bool(listener.roster) and not engine.outbox)
        ticks = engine.ticks
        engine.wake()  # as a kick does
        await until(lambda: engine.ticks > ticks)

    run(engine, scenario)


def test_who_is_over_a_limit_is_told_which() -> None:
    connector = ConnectorSettings(
        id="small", protocol="stomp", bind="127.0.0.1:0", connections_max=1
    )

    def make(peer: Peer, now: float) -> SilentEngine:
        return SilentEngine()

    async def play() -> None:
        listener = Listener(
            connector, make, structlog.get_logger(), read_size=16384, strangers=Strangers(10)
        )
        bound = await listener.bind()
        port = int(listener.address.rpartition(":")[2])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, bound)
            async with await anyio.connect_tcp("127.0.0.1", port):
                await until(lambda: bool(listener.roster))
                async with await anyio.connect_tcp("127.0.0.1", port) as refused:
                    expected = b"connector small has no room: connections_max is reached"
                    assert await refused.receive() == expected
                    assert await read_to_the_end(refused) == 0
            tasks.cancel_scope.cancel()

    anyio.run(play, backend_options={"use_uvloop": True})
