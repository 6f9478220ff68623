"""How long a connection waits, and for whom.

Alarm: one timer, the earliest deadline, and no blame for a process that stood still.

The shell and a login: an answer that waits, a peer over a limit, one that is cut off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import anyio
import pytest
import structlog
from anyio.abc import ByteStream

from covey.config.settings import ConnectorSettings
from covey.protocols.alarm import LATE_S, TIMER_SLACK_S, Alarm
from covey.protocols.engine import Peer
from covey.protocols.listener import Listener
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Strangers
from tests.protocols.support import SilentEngine
from tests.protocols.test_connection import TOO_MUCH, Run, authority, read_to_the_end, run, until


class Timers:
    """What an alarm needs of a loop: it remembers what it was asked to call, and after how long."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, asyncio.TimerHandle]] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(delay, callback, (), self.loop)
        self.asked.append((delay, handle))
        return handle

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Hear of it, as loops do."""

    def waiting(self) -> list[float]:
        """Return the delays of all that was not cancelled."""
        return [round(delay, 6) for delay, handle in self.asked if not handle.cancelled()]

    def ring(self) -> None:
        """Let the last timer come."""
        self.asked.pop()[1]._run()


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_it_rings_at_the_earliest_deadline_and_is_set_anew_only_for_an_earlier_one(
    timers: Timers,
) -> None:
    alarm = Alarm(timers.loop, lambda: None)
    alarm.set(15.0, 10.0)
    alarm.set(20.0, 10.0)
    assert timers.waiting() == [5.0 + TIMER_SLACK_S]
    alarm.set(12.0, 11.0)
    assert timers.waiting() == [1.0 + TIMER_SLACK_S]


def test_a_deadline_that_has_passed_is_at_once(timers: Timers) -> None:
    alarm = Alarm(timers.loop, lambda: None)
    alarm.set(3.0, 10.0)
    assert timers.waiting() == [TIMER_SLACK_S]
    assert not alarm.is_late(10.0)


def test_after_it_rang_in_time_any_deadline_sets_it_again(timers: Timers) -> None:
    rung: list[bool] = []
    alarm = Alarm(timers.loop, lambda: rung.append(alarm.is_late(time.monotonic())))
    now = time.monotonic()
    alarm.set(now, now)
    timers.ring()
    assert rung == [False]
    alarm.set(now + 60.0, now)
    assert timers.waiting() == [60.0 + TIMER_SLACK_S]


def test_one_that_rings_late_knows_it_and_is_put_off(timers: Timers) -> None:
    rung: list[bool] = []
    alarm = Alarm(timers.loop, lambda: rung.append(alarm.is_late(time.monotonic())))
    before = time.monotonic() - 2 * LATE_S
    alarm.set(before, before)
    timers.ring()
    assert rung == [True]
    alarm.put_off(100.0)
    assert timers.waiting() == [2 * TIMER_SLACK_S]
    assert not alarm.is_late(100.0)


def test_a_step_to_the_end_takes_the_place_of_every_deadline(timers: Timers) -> None:
    steps: list[str] = []
    alarm = Alarm(timers.loop, lambda: steps.append("deadline"))
    alarm.set(15.0, 10.0)
    alarm.call_instead(2.0, lambda: steps.append("end"))
    alarm.set(10.5, 10.0)
    assert timers.waiting() == [2.0]
    assert not alarm.is_late(1000.0)
    timers.ring()
    assert steps == ["end"]


def test_a_cancelled_one_is_silent(timers: Timers) -> None:
    alarm = Alarm(timers.loop, lambda: None)
    alarm.set(15.0, 10.0)
    alarm.cancel()
    assert timers.waiting() == []


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
            connector,
            make,
            structlog.get_logger(),
            buffers=ReadBuffers(16384),
            strangers=Strangers(10),
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
