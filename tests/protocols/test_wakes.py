"""Turns: at once after a rest, after everything else under load; a loop that looks on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

from covey.protocols import wakes as module
from covey.protocols.wakes import FEW, RESTED_S, Wakes, wakes_of

SMALL = 128  # bytes of a read

Play = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=("uvloop", "asyncio"))
def play(request: pytest.FixtureRequest) -> Play:
    """Run a scenario in an event loop of each kind."""

    def run(scenario: Callable[[], Awaitable[None]]) -> None:
        anyio.run(scenario, backend_options={"use_uvloop": request.param == "uvloop"})

    return run


@pytest.fixture(autouse=True)
def nothing_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a while changes nothing."""
    monkeypatch.setattr(module, "LONG_S", 60.0)


def reader(wakes: Wakes, names: str, taken: list[str]) -> Callable[[bytes], None]:
    """Return what handles a read and wakes a peer for each letter."""

    def handle(data: bytes) -> None:
        for name in names:
            wakes.ask(partial(taken.append, name))
        taken.append(data.decode())

    return handle


def test_after_a_rest_a_few_turns_are_taken_in_the_call_that_read(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        wakes.read(reader(wakes, "ab"[:FEW], taken), b"1", time.monotonic())
        assert taken == ["1", "a", "b"]

    play(scenario)


def test_after_a_read_that_was_long_work_others_come_first(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG_S", -1.0)

    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        wakes.read(reader(wakes, "a", taken), b"1", time.monotonic())
        assert taken == ["1"]
        await asyncio.sleep(0)
        assert taken == ["1", "a"]

    play(scenario)


def test_many_turns_wait_for_what_the_loop_handles_now(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        wakes.read(reader(wakes, "abc", taken), b"1", time.monotonic())
        assert taken == ["1"]
        await asyncio.sleep(0)
        assert taken == ["1", "a", "b", "c"]

    play(scenario)


def test_reads_in_a_row_leave_their_turns_to_the_next_round(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        now = time.monotonic()
        wakes.read(reader(wakes, "a", taken), b"1", now)
        later = wakes._read_until + RESTED_S / 2
        wakes.read(reader(wakes, "b", taken), b"2", later)
        assert taken == ["1", "a", "2"]
        await asyncio.sleep(0)
        assert taken == ["1", "a", "2", "b"]

    play(scenario)


def test_a_turn_that_is_asked_for_outside_of_a_read_comes_in_the_next_round(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        wakes.ask(lambda: taken.append("a"))
        assert not taken
        await asyncio.sleep(0)
        assert taken == ["a"]

    play(scenario)


def test_a_turn_that_asks_for_another_gets_it_in_the_next_round(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []
        again = reader(wakes, "b", taken)

        def handle(data: bytes) -> None:
            wakes.ask(lambda: again(b"2"))

        wakes.read(handle, b"1", time.monotonic())
        assert taken == ["2"]
        await asyncio.sleep(0)
        assert taken == ["2", "b"]

    play(scenario)


def test_a_read_that_fails_leaves_nobody_waiting(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        taken: list[str] = []

        def handle(data: bytes) -> None:
            for name in "abc":
                wakes.ask(partial(taken.append, name))
            raise KeyError(data)

        with pytest.raises(KeyError):
            wakes.read(handle, b"1", time.monotonic())
        await asyncio.sleep(0)
        assert taken == ["a", "b", "c"]

    play(scenario)


def test_a_loop_that_looks_on_does_not_sleep_and_then_does_again(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        wakes.read(reader(wakes, "", []), b"", time.monotonic())
        wakes.look_on(0.05, SMALL)
        wakes.look_on(0.05, SMALL)  # again while it looks: no second one
        assert wakes._is_looking
        started = time.process_time()
        await asyncio.sleep(0.3)
        assert time.process_time() - started < 0.25
        assert not wakes._is_looking

    play(scenario)


def test_a_loop_that_has_not_rested_does_not_look_on(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        wakes.read(reader(wakes, "", []), b"", time.monotonic())
        wakes.read(reader(wakes, "", []), b"", wakes._read_until)
        wakes.look_on(0.05, SMALL)
        assert not wakes._is_looking

    play(scenario)


def test_a_loop_that_looks_in_vain_stops_looking(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        looked = []
        for _ in range(10):
            wakes.read(reader(wakes, "", []), b"", time.monotonic())
            wakes.look_on(0.0, SMALL)
            looked.append(wakes._is_looking)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert looked[0]
        assert not looked[-1]

    play(scenario)


def test_a_loop_that_finds_something_goes_on_looking(play: Play) -> None:
    async def scenario() -> None:
        wakes = wakes_of(asyncio.get_running_loop())
        for _ in range(100):
            wakes.read(reader(wakes, "", []), b"", wakes._read_until + 2 * RESTED_S)
            wakes.look_on(1.0, SMALL)
            assert wakes._is_looking
            await asyncio.sleep(0)

    play(scenario)


def test_two_event_loops_have_nothing_in_common(play: Play) -> None:
    found: list[Wakes] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert wakes_of(loop) is wakes_of(loop)
        found.append(wakes_of(loop))

    play(scenario)
    play(scenario)
    assert found[0] is not found[1]
