"""A worker and the real core: order, failures, stops, lost connections.

What `import covey.worker` brings along.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import covey
from covey.worker import (
    NO_BACKOFF,
    Counts,
    Message,
    RefusedError,
    Reject,
    Retry,
    Worker,
    WorkerError,
)
from covey.worker.testing import URL, MemoryBroker
from tests.worker.support import Book, fill, play


def expected(groups: str, count: int) -> dict[str | None, list[str]]:
    return {group: [f"{group}{number}" for number in range(count)] for group in groups}


@pytest.mark.parametrize("concurrency", [1, 3, 32])
def test_groups_run_side_by_side_and_each_in_order(concurrency: int) -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book(concurrency=concurrency)
        await fill(broker, "abcdef", 5)
        await broker.work(book.worker)
        assert book.by_group == expected("abcdef", 5)
        assert book.most == min(concurrency, 6)

    play(scenario)


def test_a_failed_message_is_tried_again_before_those_behind_it() -> None:
    class Failing(Book):
        async def decide(self, message: Message) -> None:
            if message.text == "a1" and not message.redelivered:
                raise ValueError("the first time")

    async def scenario(broker: MemoryBroker) -> None:
        book = Failing()
        await fill(broker, "ab", 4)
        await broker.work(book.worker)
        assert book.by_group == expected("ab", 4)

    play(scenario)


def test_what_fails_too_often_is_dead_and_the_rest_goes_on() -> None:
    class Failing(Book):
        async def decide(self, message: Message) -> None:
            if message.text == "a1":
                raise ValueError("always")

    async def scenario(broker: MemoryBroker) -> None:
        book = Failing()
        counts = Counts()
        book.worker.observe(counts)
        await fill(broker, "ab", 4)
        await broker.work(book.worker)
        assert book.by_group["a"] == ["a0", "a2", "a3"]
        assert await broker.bodies("dead") == ["a1"]
        assert (counts.messages_failed, counts.messages_handled) == (3, 7)

    play(scenario, nak_limit=3)


def test_a_rejected_message_is_dead_at_once() -> None:
    class Rejecting(Book):
        async def decide(self, message: Message) -> None:
            if message.text == "a1":
                raise Reject("never")

    async def scenario(broker: MemoryBroker) -> None:
        book = Rejecting()
        await fill(broker, "a", 4)
        await broker.work(book.worker)
        assert book.by_group["a"] == ["a0", "a2", "a3"]
        assert await broker.bodies("dead") == ["a1"]

    play(scenario)


def test_a_retry_waits_as_long_as_it_says_and_its_group_with_it() -> None:
    class Retrying(Book):
        times: list[float] = []

        async def decide(self, message: Message) -> None:
            if message.text == "a1":
                self.times.append(asyncio.get_running_loop().time())
                if not message.redelivered:
                    raise Retry(after=300)

    async def scenario(broker: MemoryBroker) -> None:
        book = Retrying()
        await fill(broker, "ab", 4)
        await broker.work(book.worker)
        assert book.by_group == expected("ab", 4)
        assert book.done[-3:] == ["a1", "a2", "a3"]
        first, second = book.times
        assert 300 <= second - first < 302

    play(scenario)


def test_the_back_off_grows_with_each_failure() -> None:
    class Failing(Book):
        times: list[float] = []

        async def decide(self, message: Message) -> None:
            self.times.append(asyncio.get_running_loop().time())
            if len(self.times) < 5:
                raise ValueError("again")

    async def scenario(broker: MemoryBroker) -> None:
        book = Failing()
        await fill(broker, "a", 1)
        await broker.work(book.worker)
        waits = [later - sooner for sooner, later in zip(book.times, book.times[1:], strict=False)]
        assert waits == sorted(waits)
        assert waits[3] > 4.5

    play(scenario)


def test_a_batch_is_of_one_group_and_a_failed_one_is_tried_message_by_message() -> None:
    seen: list[list[str]] = []
    worker = Worker(URL, queue="orders", batch=4, backoff=NO_BACKOFF)

    @worker.handler
    async def handle(messages: list[Message]) -> None:
        seen.append([message.text for message in messages])
        if "a2" in seen[-1]:
            raise ValueError("a2 is poison")

    async def scenario(broker: MemoryBroker) -> None:
        await fill(broker, "a", 6)
        await broker.work(worker)
        assert await broker.bodies("dead") == ["a2"]
        tried = [texts for texts in seen if len(texts) > 1]
        assert tried[0] == ["a0", "a1", "a2", "a3"]
        handled = [text for texts in seen if "a2" not in texts for text in texts]
        assert handled == ["a0", "a1", "a3", "a4", "a5"]

    play(scenario, nak_limit=1)


def test_a_handler_that_takes_too_long_has_failed() -> None:
    class Slow(Book):
        async def decide(self, message: Message) -> None:
            await asyncio.sleep(0 if message.redelivered else 1000)

    async def scenario(broker: MemoryBroker) -> None:
        book = Slow(time_limit_s=5.0)
        await fill(broker, "a", 2)
        await broker.work(book.worker)
        assert book.by_group == expected("a", 2)

    play(scenario)


def test_a_lost_connection_loses_nothing_and_keeps_the_order() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book(concurrency=4)
        await fill(broker, "abc", 6)
        for moment in (0.5, 2.2, 3.7):
            asyncio.get_running_loop().call_later(moment, broker.break_connections)
        await broker.work(book.worker)
        assert book.by_group == expected("abc", 6)  # each is handled once: none had finished

    play(scenario)


def test_a_stop_finishes_what_runs_and_gives_the_rest_back() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book(concurrency=2)
        await fill(broker, "ab", 5)
        await broker.work(book.worker, until=lambda: len(book.done) == 2)
        assert sorted(book.done) == ["a0", "a1", "b0", "b1"]
        assert broker.depth("orders") == 6
        await broker.work(book.worker)
        assert book.by_group == expected("ab", 5)

    play(scenario)


def test_a_stop_does_not_wait_longer_than_it_is_told() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book(takes_s=1000.0, stop_s=3.0)
        await fill(broker, "a", 1)
        loop = asyncio.get_running_loop()
        await broker.work(book.worker, until=lambda: bool(book.running))
        assert (book.done, broker.depth("orders")) == ([], 1)
        assert loop.time() < 1010

    play(scenario)


def test_one_slow_group_does_not_hold_up_the_others() -> None:
    class Slow(Book):
        async def decide(self, message: Message) -> None:
            await asyncio.sleep(100 if message.group == "a" else 0)

    async def scenario(broker: MemoryBroker) -> None:
        book = Slow(concurrency=4)
        await broker.send("orders", *[f"a{number}" for number in range(200)], group="a")
        await fill(broker, "bcd", 5)
        await broker.work(book.worker, until=lambda: len(book.done) >= 15)
        others = {group: texts for group, texts in book.by_group.items() if group != "a"}
        assert others == expected("bcd", 5)
        assert broker.depth("orders") >= 199

    play(scenario)


def test_what_a_handler_sends_leaves_with_its_acknowledgement_or_not_at_all() -> None:
    class Sending(Book):
        async def decide(self, message: Message) -> None:
            message.send("invoices", f"for {message.text}", group=message.group)
            if message.text == "a1" and not message.redelivered:
                raise ValueError("after it was sent")

    async def scenario(broker: MemoryBroker) -> None:
        book = Sending()
        await fill(broker, "a", 3)
        await broker.work(book.worker)
        assert await broker.bodies("invoices") == ["for a0", "for a1", "for a2"]

    play(scenario)


def test_a_message_whose_follow_up_is_refused_is_dead_lettered() -> None:
    class Sending(Book):
        async def decide(self, message: Message) -> None:
            message.send("/queue/orders.*" if message.text == "a1" else "invoices", "x")

    async def scenario(broker: MemoryBroker) -> None:
        book = Sending()
        await fill(broker, "a", 3)
        await broker.work(book.worker)
        assert await broker.bodies("dead") == ["a1"]
        assert broker.depth("invoices") == 2

    play(scenario)


def test_a_plain_function_runs_in_a_thread() -> None:
    names: list[str] = []
    worker = Worker(URL, queue="orders")

    @worker.handler
    def handle(message: Message) -> None:
        time.sleep(0.01)
        names.append(threading.current_thread().name)

    async def scenario(broker: MemoryBroker) -> None:
        await fill(broker, "ab", 2)
        await broker.work(worker)
        assert len(names) == 4
        assert all(name.startswith("covey-worker") for name in names)

    play(scenario)


def test_two_workers_share_the_groups_and_hooks_tell_who_comes_and_goes() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        first, second = Book(), Book()
        gained: list[str] = []
        lost: list[str] = []
        first.worker.on_group_gained(gained.append)
        first.worker.on_group_lost(lost.append)
        groups = "abcdefghij"
        await fill(broker, groups, 10)
        broker.attach(first.worker)
        broker.attach(second.worker)
        async with first.worker:
            await broker.until(lambda: len(first.done) > 20)
            async with second.worker:
                await broker.until(lambda: not broker.depth("orders"))
        assert set(gained) == set(groups)
        assert lost
        assert set(lost) == set(second.by_group)
        for group in groups:
            both = first.by_group.get(group, []) + second.by_group.get(group, [])
            assert both == expected(group, 10)[group]

    play(scenario)


def test_a_handler_that_hangs_holds_up_no_other_worker_after_the_deadline() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        hung, other = Book(takes_s=1000), Book(takes_s=0.1)
        groups = "abcdefgh"  # some of them are the hung worker's by the ring
        await fill(broker, groups, 10)
        broker.attach(hung.worker)
        broker.attach(other.worker)
        async with hung.worker:
            await broker.until(lambda: sum(hung.running.values()) == len(groups))
            begun = asyncio.get_running_loop().time()
            async with other.worker:
                await broker.until(lambda: len(other.done) == 10 * len(groups))
                took_s = asyncio.get_running_loop().time() - begun
        assert other.by_group == expected(groups, 10)
        assert 5 <= took_s < 8  # one deadline and ten messages, not a deadline for each

    play(scenario, delivery_deadline_s=5)


def test_a_queue_that_cannot_be_is_an_error_at_once() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        worker = Worker(URL, queue="/nonsense/x")
        worker.handler(lambda message: None)
        broker.attach(worker)
        with pytest.raises(RefusedError):
            await worker.run(handle_signals=False)

    play(scenario)


def test_mistakes_are_told_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="concurrency=0"):
        Worker(URL, queue="q", concurrency=0)
    with pytest.raises(ValueError, match="batch=0"):
        Worker(URL, queue="q", batch=0)
    with pytest.raises(ValueError, match="async handler"):
        Worker(URL, queue="q", time_limit_s=1).handler(lambda message: None)
    with pytest.raises(ValueError, match="no handler"):
        asyncio.run(Worker(URL, queue="q").run())
    worker = Worker(URL, queue="q")
    worker.handler(lambda message: None)
    with pytest.raises(ValueError, match="one handler"):
        worker.handler(lambda message: None)
    with pytest.raises(ValueError, match="negative"):
        Retry(after=-1)


def test_a_worker_that_runs_cannot_be_run_again() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book()
        broker.attach(book.worker)
        async with book.worker:
            await asyncio.sleep(1)
            with pytest.raises(WorkerError, match="runs already"):
                await book.worker.run()

    play(scenario)


def test_a_worker_without_a_broker_tries_on_until_it_is_stopped() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book = Book()
        tries = 0

        async def dial(address: object, protocol: asyncio.Protocol) -> None:
            nonlocal tries
            tries += 1
            raise ConnectionRefusedError("nobody")

        book.worker.link.dial = dial
        async with book.worker:
            await asyncio.sleep(60)
        assert 7 < tries < 30  # the wait grows to ten seconds

    play(scenario)


def test_a_message_without_a_group_waits_for_nobody_and_fails_alone() -> None:
    class Failing(Book):
        async def decide(self, message: Message) -> None:
            if message.text == "0" and not message.redelivered:
                raise Retry(after=50)

    async def scenario(broker: MemoryBroker) -> None:
        book = Failing()
        await broker.send("orders", *[str(number) for number in range(5)])
        await broker.work(book.worker)
        assert (sorted(book.done[:4]), book.done[4]) == (["1", "2", "3", "4"], "0")

    play(scenario)


CHILD = """
import sys
import covey.worker
names = {name.partition(".")[0] for name in sys.modules}
ours = {name for name in sys.modules if name.startswith(("covey.core.", "covey.config"))}
print(sorted(names - set(sys.stdlib_module_names) - {"covey", "__main__", "_distutils_hack"}))
print(sorted(ours))
"""


def test_the_package_loads_the_codec_and_the_standard_library_alone() -> None:
    said = subprocess.run(
        [sys.executable, "-P", "-c", CHILD],
        env={"PYTHONPATH": str(Path(covey.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    others, ours = said.stdout.splitlines()
    names = others[1:-1].split(", ") if others != "[]" else []
    assert [name for name in names if "mypyc" not in name] == []  # a compiled codec has its runtime
    assert ours == "['covey.core.errors']"
