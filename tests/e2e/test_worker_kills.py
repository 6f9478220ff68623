"""`covey.worker` while brokers, workers and connections are killed: nothing lost, nothing twice.

The workers are processes that run docs/examples/worker/exactly_once.py's handler; what they did is
read from their common database. The broker is killed without warning and comes back on its port.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import covey
from covey.client.management import Management
from covey.client.place import parse_place
from covey.worker import NO_BACKOFF, Message, Producer, Worker
from tests.e2e.support import HOST, BrokerProcess, running_broker
from tests.interop.amqp import amqp_port

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "worker"
QUEUE = "booked"
CONFIG = f"""
[[queue]]
id = "{QUEUE}"
duplicate_window = 100000
"""

WORKER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
port, path, queue = sys.argv[2:5]
del sys.argv[1:]
import exactly_once
worker = exactly_once.make_worker(f"covey://admin:password@127.0.0.1:{port}", path, queue)
asyncio.run(worker.run())
"""


class Place:
    """A broker on one port and two workers, each of which can be killed and comes back."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.stack = stack
        self.folder = folder
        self.path = str(folder / "book.db")
        self.broker = self._broker(())
        self.port = self.broker.port
        self.workers = [self._worker(), self._worker()]

    def kill_broker(self) -> None:
        self.broker.process.kill()
        self.broker.process.wait()
        self.broker = self._broker(("--stomp", f"{HOST}:{self.port}"))

    def kill_worker(self) -> None:
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()
        self.workers.append(self._worker())

    def stop_worker(self) -> None:
        worker = self.workers.pop(0)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) in (0, -signal.SIGTERM)  # or it had not begun yet
        self.workers.append(self._worker())

    def kill_connections(self) -> None:
        place = parse_place(f"admin/password@{HOST}:{amqp_port(self.broker)}", 5672)
        with Management(place) as client:
            for row in client.query("connection"):
                if str(row["protocol"]).startswith("stomp"):
                    client.ask("DELETE", "connection", str(row["name"]))

    def booked(self) -> list[tuple[str, int]]:
        book = sqlite3.connect(self.path, timeout=30)
        try:
            return book.execute("SELECT name, amount FROM entries ORDER BY place").fetchall()
        except sqlite3.OperationalError:
            return []  # no worker has opened it yet
        finally:
            book.close()

    def _broker(self, arguments: tuple[str, ...]) -> BrokerProcess:
        running = running_broker(self.folder / "broker", config=CONFIG, arguments=arguments)
        return self.stack.enter_context(running)

    def _worker(self) -> subprocess.Popen[bytes]:
        return self.stack.enter_context(process(self.port, self.path))


@contextmanager
def process(port: int, path: str) -> Iterator[subprocess.Popen[bytes]]:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(EXAMPLES), str(port), path, QUEUE],
        env=dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent)),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


async def send_all(url: str, groups: int, count: int) -> None:
    async with Producer(url) as producer:
        for number in range(count):
            sends = [producer.send(QUEUE, str(number), group=f"g{one}") for one in range(groups)]
            await asyncio.gather(*sends)


@pytest.mark.timeout(300)
def test_every_effect_happens_once_and_in_order_whatever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    groups, count = 30, 60
    with ExitStack() as stack:
        place = Place(stack, tmp_path)

        async def scenario() -> None:
            sending = asyncio.create_task(
                send_all(f"covey://admin:password@{HOST}:{place.port}", groups, count)
            )
            kills = [place.kill_broker, place.kill_worker, place.kill_connections] * 2
            kills.append(place.stop_worker)
            chance.shuffle(kills)
            for kill in kills:
                await asyncio.sleep(chance.uniform(0.1, 0.6))
                await asyncio.to_thread(kill)
            await sending
            while len(place.booked()) < groups * count:  # noqa: ASYNC110 - other processes write
                await asyncio.sleep(0.1)

        asyncio.run(scenario())
        booked: dict[str, list[int]] = {}
        for name, amount in place.booked():
            booked.setdefault(name, []).append(amount)
        assert booked == {f"g{one}": list(range(count)) for one in range(groups)}


async def work_off(url: str, groups: int, count: int, concurrency: int) -> dict[str, list[int]]:
    """Send and handle; return what each group saw."""
    seen: dict[str, list[int]] = {f"g{one}": [] for one in range(groups)}
    running: set[str] = set()
    left = groups * count
    most = 0
    finished = asyncio.Event()
    worker = Worker(url, queue="many", concurrency=concurrency)

    @worker.handler
    async def handle(message: Message) -> None:
        nonlocal left, most
        group = str(message.group)
        assert group not in running
        running.add(group)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(group)
        seen[group].append(int(message.text))
        left -= 1
        if not left:
            finished.set()

    async with Producer(url) as producer:
        for number in range(count):
            sends = [producer.send("many", str(number), group=group) for group in seen]
            await asyncio.gather(*sends)
    async with worker:
        await finished.wait()
    assert most == concurrency
    return seen


@pytest.mark.parametrize(
    ("groups", "count"),
    [(100, 50), pytest.param(1000, 100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_each_group_is_in_order_with_32_at_a_time(
    broker: BrokerProcess, groups: int, count: int
) -> None:
    url = f"covey://admin:password@{HOST}:{broker.port}"
    seen = asyncio.run(work_off(url, groups, count, 32))
    assert seen == {f"g{one}": list(range(count)) for one in range(groups)}


def failing_worker(url: str, seen: dict[str, list[int]], seed: int, batch: int) -> Worker:
    """Make a worker whose handler fails every third time."""
    chance = random.Random(seed)
    worker = Worker(url, queue=f"failing.{batch}", batch=batch, backoff=NO_BACKOFF)

    @worker.handler
    async def handle(given: Message | list[Message]) -> None:
        await asyncio.sleep(0)
        if chance.random() < 0.3:
            raise ValueError("by chance")
        for message in given if isinstance(given, list) else [given]:
            seen[str(message.group)].append(int(message.text))

    return worker


@pytest.mark.parametrize("batch", [1, 5])
def test_order_is_kept_while_handlers_fail_on_two_workers(
    broker: BrokerProcess, batch: int
) -> None:
    url = f"covey://admin:password@{HOST}:{broker.port}"
    groups, count = 20, 40
    seen: dict[str, list[int]] = {f"g{one}": [] for one in range(groups)}

    async def scenario() -> None:
        first, second = [failing_worker(url, seen, seed, batch) for seed in (1, 2)]
        async with first, Producer(url) as producer:
            for number in range(count):
                sends = [
                    producer.send(f"failing.{batch}", str(number), group=group) for group in seen
                ]
                await asyncio.gather(*sends)
            async with second:  # groups move to it while messages fail
                while sum(map(len, seen.values())) < groups * count:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 100))
    assert seen == {f"g{one}": list(range(count)) for one in range(groups)}
