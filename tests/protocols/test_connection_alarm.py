"""Alarm: one timer, the earliest deadline, and no blame for a process that stood still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import pytest

from covey.protocols.connection import LATE_S, TIMER_SLACK_S, Alarm


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
