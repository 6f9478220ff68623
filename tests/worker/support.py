"""A worker that writes down what it does, in a scenario on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from covey.worker import Message, Worker
from covey.worker.testing import URL, MemoryBroker, run

Scenario = Callable[[MemoryBroker], Awaitable[None]]


def play(scenario: Scenario, **policy: object) -> None:
    """Run a scenario against a broker whose queue `orders` has a policy."""

    async def played() -> None:
        await scenario(MemoryBroker(queues=[{"id": "orders", "dlq": "dead", **policy}]))

    run(played(), 3600)


class Book:
    """A worker and what it has done: each group's bodies, in order."""

    def __init__(self, *, takes_s: float = 1.0, **options: object) -> None:
        self.worker = Worker(URL, queue="orders", **options)  # type: ignore[arg-type]
        self.done: list[str] = []
        self.by_group: dict[str | None, list[str]] = {}
        self.running: dict[str | None, int] = {}
        self.most = 0  # that ran at a time
        self.takes_s = takes_s
        self.worker.handler(self.handle)

    async def handle(self, message: Message) -> None:
        group = message.group
        assert group is None or not self.running.get(group), "two of a group at a time"
        self.running[group] = self.running.get(group, 0) + 1
        self.most = max(self.most, sum(self.running.values()))
        try:
            await asyncio.sleep(self.takes_s)
            await self.decide(message)
        finally:
            self.running[group] -= 1
        self.done.append(message.text)
        self.by_group.setdefault(group, []).append(message.text)

    async def decide(self, message: Message) -> None:
        """Raise what a test wants raised."""


async def fill(broker: MemoryBroker, groups: str, count: int) -> None:
    """Send so many messages to each group, in turn."""
    async with broker.producer() as producer:
        for number in range(count):
            for group in groups:
                await producer.send("orders", f"{group}{number}", group=group)
