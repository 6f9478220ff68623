"""Values kept by group."""

from __future__ import annotations

import asyncio

import pytest

from covey.worker import GroupCache, Message
from covey.worker.testing import MemoryBroker
from tests.worker.support import Book, fill, play


class Caching(Book):
    """Loads a value for each group, and notes each load."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.cache = self.worker.group_cache(self.load)

    async def load(self, group: str) -> list[str]:
        self.loads.append(group)
        return []

    async def decide(self, message: Message) -> None:
        (await self.cache(message)).append(message.text)


def test_a_value_is_loaded_once_while_the_group_stays() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Caching()
        await fill(broker, "ab", 5)
        await broker.work(book.worker)
        assert sorted(book.loads) == ["a", "b"]
        assert len(book.cache) == 0  # the worker has gone, and its groups with it

    play(scenario)


def test_a_failure_drops_the_value() -> None:
    class Failing(Caching):
        async def decide(self, message: Message) -> None:
            await super().decide(message)
            if message.text == "a2" and not message.redelivered:
                raise ValueError("half done")

    async def scenario(broker: MemoryBroker) -> None:
        book = Failing()
        await fill(broker, "a", 4)
        await broker.work(book.worker)
        assert book.loads == ["a", "a"]

    play(scenario)


def test_a_group_that_moves_takes_its_value_along() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        first, second = Caching(), Caching()
        groups = "abcdefghij"
        await fill(broker, groups, 10)
        broker.attach(first.worker)
        broker.attach(second.worker)
        async with first.worker:
            await broker.until(lambda: len(first.done) > 20)
            async with second.worker:
                await broker.until(lambda: len(second.done) > 5)
                moved = set(second.by_group)
                assert moved
                assert [group for group in moved if group in first.cache] == []
                await broker.until(lambda: not broker.depth("orders"))

    play(scenario)


def test_it_keeps_no_more_than_it_may() -> None:
    cache = GroupCache(str.upper, groups_max=2)

    async def ask() -> None:
        for group in "abca":
            message = Message({"message_group": group}, b"")
            assert await cache(message) == group.upper()
        assert (len(cache), "b" in cache) == (2, False)
        with pytest.raises(ValueError, match="no group"):
            await cache(Message({}, b""))

    asyncio.run(ask())
