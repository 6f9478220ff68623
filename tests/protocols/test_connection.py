"""The shell around an engine, over real sockets in one event loop, each kind of socket and loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import pytest
import structlog
from anyio.abc import ByteStream, SocketAttribute
from structlog.testing import capture_logs

from covey.config.settings import ConnectorSettings
from covey.protocols.connection import CLOSE_GRACE_S, DISCARD_MAX
from covey.protocols.engine import Peer
from covey.protocols.listener import Listener
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Strangers
from tests.protocols.support import SilentEngine
from tests.protocols.test_tls_context import Authority, shake

TIMEOUT_S = 20.0
TOO_MUCH = 64 * 1024 * 1024  # more than the sockets between two ends hold
READ_SIZE = 16384

CARRIERS: Final = ("socket", "asyncio", "tls")  # with uvloop unless it says otherwise

Scenario = Callable[[Listener, SilentEngine, ByteStream], Awaitable[None]]


class Run:
    """Joins an engine to a client's stream and plays a scenario."""

    def __init__(self, carrier: str, authority: Authority) -> None:
        self.carrier = carrier
        self.authority = authority

    def __call__(
        self, engine: SilentEngine, scenario: Scenario, write_timeout_s: float = 60.0
    ) -> None:
        connector = ConnectorSettings(
            id="test",
            protocol="stomp",
            bind="127.0.0.1:0",
            write_timeout_s=write_timeout_s,
            tls=self.authority.settings() if self.carrier == "tls" else None,
        )

        def make(peer: Peer, now: float) -> SilentEngine:
            return engine

        async def play() -> None:
            log = structlog.get_logger()
            strangers = Strangers(10)
            listener = Listener(
                connector, make, log, buffers=ReadBuffers(READ_SIZE), strangers=strangers
            )
            bound = await listener.bind()
            with anyio.fail_after(TIMEOUT_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(listener.serve, bound)
                    port = int(listener.address.rpartition(":")[2])
                    async with await self._connect(port) as stream:
                        await scenario(listener, engine, stream)
                    tasks.cancel_scope.cancel()

        anyio.run(play, backend_options={"use_uvloop": self.carrier != "asyncio"})

    async def _connect(self, port: int) -> ByteStream:
        if self.carrier == "tls":
            return await shake(port, self.authority.client())
        return await anyio.connect_tcp("127.0.0.1", port)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(Path(tmp_path_factory.mktemp("authority")))


@pytest.fixture(params=CARRIERS)
def run(request: pytest.FixtureRequest, authority: Authority) -> Run:
    return Run(request.param, authority)


async def read_to_the_end(stream: ByteStream) -> int:
    size = 0
    try:
        while True:
            size += len(await stream.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return size


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks run until something is so; `Run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 - an engine has no event to wait for
        await anyio.sleep(0.01)


def test_the_last_words_arrive_before_the_close(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        assert await stream.receive() == b"hello"
        engine.outbox = b"x" * TOO_MUCH
        listener.shut_down("bye")
        assert await read_to_the_end(stream) == TOO_MUCH + len(b"bye")

    engine = SilentEngine()
    engine.outbox = b"hello"
    run(engine, scenario)
    assert engine.losses == 1


def test_all_that_is_said_meanwhile_goes_out_in_one_turn(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: bool(engine.ticks))
        ticks = engine.ticks
        for _ in range(100):
            engine.outbox += b"x"
            engine.wake()
        assert await stream.receive() == b"x" * 100
        assert engine.ticks == ticks + 1

    run(SilentEngine(), scenario)


def test_an_engine_keeps_its_time_while_its_peer_takes_nothing(run: Run) -> None:
    engine = SilentEngine()
    engine.deadline = time.monotonic() + 0.1
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: engine.ticks >= 3)

    run(engine, scenario)


def test_an_earlier_deadline_counts_and_a_later_one_is_waited_for(run: Run) -> None:
    class Scripted(SilentEngine):
        """Names one deadline after the other, seconds from the start."""

        def __init__(self, *deadlines: float) -> None:
            super().__init__()
            self.started = time.monotonic()
            self.deadlines = list(deadlines)
            self.ticked: list[float] = []

        def tick(self, now: float) -> float | None:
            self.ticked.append(now - self.started)
            return self.started + self.deadlines.pop(0) if self.deadlines else None

    engine = Scripted(100.0, 0.5, 50.0, 0.8)

    async def scenario(listener: Listener, _: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: len(engine.ticked) == 1)
        engine.wake()  # 0.5
        await until(lambda: len(engine.ticked) == 2)
        engine.wake()  # 50.0: the timer is left, and looks
        await until(lambda: len(engine.ticked) == 5)

    run(engine, scenario)
    ticked = [at + 0.001 for at in engine.ticked]  # uvloop's timers count whole milliseconds
    assert ticked[2] < 0.5 <= ticked[3] < 0.8 <= ticked[4] < 10


@pytest.mark.parametrize("carrier", ["socket", "asyncio"])
def test_a_deadline_missed_by_a_stopped_process_counts_after_what_came_meanwhile(
    carrier: str, authority: Authority
) -> None:
    class Patient(SilentEngine):
        """Writes down what it had heard when its deadline was looked at."""

        def __init__(self) -> None:
            super().__init__()
            self.heard_at_ticks: list[bytes] = []
            self.deadline = time.monotonic() + 0.2

        def tick(self, now: float) -> float | None:
            self.heard_at_ticks.append(self.heard)
            return self.deadline if len(self.heard_at_ticks) == 1 else None

    engine = Patient()

    async def scenario(listener: Listener, _: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: len(engine.heard_at_ticks) == 1)
        os.write(stream.extra(SocketAttribute.raw_socket).fileno(), b"I live")
        time.sleep(0.5)  # noqa: ASYNC251 - the whole loop stands still, as after SIGSTOP
        engine.wake()  # a turn before the socket is looked at; uvloop's timers come so, too
        await until(lambda: len(engine.heard_at_ticks) > 1)

    Run(carrier, authority)(engine, scenario)
    assert engine.heard_at_ticks[1] == b"I live"


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_peer_that_takes_nothing_is_cut_off(run: Run, *, is_closed: bool) -> None:
    engine = SilentEngine()
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: bool(listener.roster))
        if is_closed:  # then its own patience ends, however long the setting is
            listener.shut_down("bye")
        await listener.until_empty()
        assert engine.losses == 1
        assert await read_to_the_end(stream) < TOO_MUCH

    run(engine, scenario, write_timeout_s=60.0 if is_closed else CLOSE_GRACE_S / 2)


@pytest.mark.slow
def test_a_peer_that_takes_a_little_now_and_then_is_not_cut_off(run: Run) -> None:
    engine = SilentEngine()
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        taken = 0
        for step in range(1, 9):  # 4 MiB each: less would not show through the sockets between
            while taken < step * TOO_MUCH // 16:
                taken += len(await stream.receive())
            await anyio.sleep(0.2)
        assert len(listener.roster) == 1
        listener.shut_down("bye")
        assert taken + await read_to_the_end(stream) == TOO_MUCH + len(b"bye")

    run(engine, scenario, write_timeout_s=1.5)  # less than all steps together


def test_nothing_is_asked_of_an_engine_whose_peer_takes_nothing(run: Run) -> None:
    engine = SilentEngine()
    engine.outbox = b"x" * TOO_MUCH

    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: bool(engine.ticks) and not engine.outbox)
        ticks = engine.ticks
        engine.outbox = b"more"
        engine.wake()
        await until(lambda: engine.ticks > ticks)
        assert engine.outbox == b"more"

    run(engine, scenario)


def test_nothing_is_read_for_an_engine_that_does_not_read(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        with anyio.move_on_after(0.5) as blocked:
            await stream.send(b"x" * TOO_MUCH)
        assert blocked.cancelled_caught
        # What was asked for before the engine stopped may still come, one read of it.
        assert len(engine.heard) <= READ_SIZE
        engine.reading = True
        engine.wake()
        await until(lambda: len(engine.heard) > READ_SIZE)

    engine = SilentEngine()
    engine.reading = False
    run(engine, scenario)


def test_one_turn_of_the_loop_reads_a_buffers_worth_and_no_more(run: Run) -> None:
    class Timed(SilentEngine):
        """Notes in which turn of the loop it got how much."""

        def __init__(self) -> None:
            super().__init__()
            self.turn = 0
            self.sizes: dict[int, int] = {}

        def receive(self, data: bytes, now: float) -> None:
            super().receive(data, now)
            self.sizes[self.turn] = self.sizes.get(self.turn, 0) + len(data)

        def count(self) -> None:
            self.turn += 1
            asyncio.get_running_loop().call_soon(self.count)

    engine = Timed()
    engine.reading = False
    size = 64 * READ_SIZE

    async def scenario(listener: Listener, _: SilentEngine, stream: ByteStream) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, b"x" * size)
            await anyio.sleep(0.1)  # the sockets between have filled
            engine.count()
            engine.reading = True
            engine.wake()
            await until(lambda: len(engine.heard) == size)

    run(engine, scenario)
    # TLS may complete a record of the turn before.
    assert max(engine.sizes.values()) <= (2 * READ_SIZE if run.carrier == "tls" else READ_SIZE)
    assert len(engine.sizes) > 10


def test_everything_is_given_back_when_the_peer_goes(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await stream.send(b"hello")
        await stream.aclose()
        await until(lambda: engine.losses > 0)
        await listener.until_empty()

    engine = SilentEngine()
    run(engine, scenario)
    assert (engine.heard, engine.losses) == (b"hello", 1)


def test_what_comes_after_the_end_is_thrown_away_up_to_a_limit(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        engine.close_delay_s = 60.0
        await until(lambda: bool(listener.roster))
        listener.shut_down("bye")
        with anyio.move_on_after(0.3) as blocked:
            await stream.send(b"x" * TOO_MUCH)
        assert blocked.cancelled_caught
        assert engine.heard == b""

    run(SilentEngine(), scenario)


@pytest.mark.parametrize("reading", [True, False])
def test_a_peer_that_talks_on_and_leaves_is_heard_to_leave(run: Run, *, reading: bool) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        engine.close_delay_s = 60.0
        await until(lambda: engine.ticks == 1)
        engine.reading = reading
        engine.wake()
        await until(lambda: engine.ticks > 1)
        listener.shut_down("bye")
        assert await stream.receive() == b"bye"
        await stream.send(b"x" * (DISCARD_MAX // 2))
        await stream.aclose()
        await listener.until_empty()

    run(SilentEngine(), scenario)


def test_who_is_told_the_end_and_ends_too_is_let_go_at_once(run: Run) -> None:
    async def scenario(listener: Listener, engine: SilentEngine, stream: ByteStream) -> None:
        await until(lambda: bool(listener.roster))
        started = time.monotonic()
        listener.shut_down("bye")
        assert await read_to_the_end(stream) == len(b"bye")
        await stream.aclose()
        await listener.until_empty()
        assert time.monotonic() - started < CLOSE_GRACE_S / 2

    run(SilentEngine(), scenario)


@pytest.mark.parametrize("where", ["receive", "tick", "lost"])
def test_an_engine_that_fails_ends_its_own_connection_only(run: Run, where: str) -> None:
    engine = SilentEngine()

    async def scenario(listener: Listener, _: SilentEngine, stream: ByteStream) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError(where)

        await until(lambda: bool(engine.ticks))
        setattr(engine, where, fail)
        engine.wake()
        if where != "tick":
            await stream.send(b"x")
            await stream.aclose()
        await listener.until_empty()

    with capture_logs() as logs:
        run(engine, scenario)
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [
        "connection_failed"
    ]
