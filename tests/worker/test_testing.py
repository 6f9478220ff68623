"""The broker in memory and its clock."""

from __future__ import annotations

import asyncio
import time

import pytest

from covey.worker.testing import MemoryBroker, run


def test_a_day_takes_no_time() -> None:
    async def scenario() -> float:
        await asyncio.sleep(80_000)
        return asyncio.get_running_loop().time()

    before = time.monotonic()
    assert run(scenario()) == pytest.approx(81_000)
    assert time.monotonic() - before < 60


def test_time_stands_still_while_a_thread_works() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.05)
        assert loop.time() == before

    run(scenario())


def test_a_scenario_that_does_not_end_is_a_timeout() -> None:
    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(scenario(), 10)


def test_a_queue_that_is_not_there_is_empty() -> None:
    async def scenario() -> None:
        broker = MemoryBroker()
        assert (broker.depth("none"), await broker.bodies("none")) == (0, [])

    run(scenario())
