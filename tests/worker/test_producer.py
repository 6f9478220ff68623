"""The producer and the real core: receipts, transactions, duplicates, replies, lost connections."""

from __future__ import annotations

import asyncio

import pytest

from covey.worker import ConnectionLostError, Message, Producer, RefusedError, Worker, WorkerError
from covey.worker.testing import URL, MemoryBroker
from tests.worker.support import play


def test_a_message_carries_what_it_was_given() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            given = await producer.send(
                "orders", {"item": 3}, group="g", headers={"color": "red"}, id="one"
            )
        (message,) = await broker.messages("orders")
        assert (given, message.id, message.group) == ("one", "one", "g")
        assert message.json() == {"item": 3}
        assert message.headers["color"] == "red"
        assert message.headers["content-type"] == "application/json"
        assert message.sent_at is not None

    play(scenario)


def test_many_are_sent_in_order_also_by_calls_at_the_same_time() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            await producer.send_many("orders", [str(number) for number in range(50)])
            await asyncio.gather(*(producer.send("orders", str(n)) for n in range(50, 100)))
        assert await broker.bodies("orders") == [str(number) for number in range(100)]

    play(scenario)


def test_what_has_no_receipt_is_sent_again_in_order_and_the_queue_takes_it_once() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        loop = asyncio.get_running_loop()
        async with broker.producer() as producer:
            for number in range(40):
                if number % 10 == 5:
                    loop.call_soon(broker.break_connections)
                await asyncio.gather(
                    *(producer.send("orders", f"{number}.{place}") for place in range(3))
                )
        sent = [f"{number}.{place}" for number in range(40) for place in range(3)]
        assert await broker.bodies("orders") == sent

    play(scenario, duplicate_window=1000)


def test_a_transaction_is_all_or_nothing() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            async with producer.transaction() as transaction:
                transaction.send("orders", "one", group="g")
                transaction.send("invoices", "two")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction() as transaction:
                    transaction.send("orders", "three")
                    raise ZeroDivisionError
            with pytest.raises(RefusedError, match="wildcards"):
                async with producer.transaction() as transaction:
                    transaction.send("orders", "four")
                    transaction.send("orders.*", "five")
            await producer.send("orders", "six")  # the connection is there again
        assert await broker.bodies("orders") == ["one", "six"]
        assert await broker.bodies("invoices") == ["two"]

    play(scenario)


def test_a_refused_message_raises_and_the_others_are_sent() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            good, bad = producer.send("orders", "good"), producer.send("orders.*", "bad")
            results = await asyncio.gather(bad, good, return_exceptions=True)
            assert isinstance(results[0], RefusedError)
            assert results[0].code == "invalid"
        assert await broker.bodies("orders") == ["good"]

    play(scenario)


def test_a_delayed_message_comes_later_and_one_with_a_short_life_not_at_all() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            await producer.send("orders", "later", delay=60.0)
            await producer.send("orders", "short", ttl=5.0)
        loop = asyncio.get_running_loop()
        before = loop.time()
        seen: list[tuple[str, float]] = []
        worker = Worker(URL, queue="orders")

        @worker.handler
        async def handle(message: Message) -> None:
            seen.append((message.text, loop.time() - before))

        await asyncio.sleep(10)
        await broker.work(worker, until=lambda: bool(seen))
        ((text, waited_s),) = seen
        assert text == "later"
        assert 59 < waited_s < 65

    play(scenario)


def test_a_request_gets_what_the_handler_returns() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        worker = Worker(URL, queue="orders")

        @worker.handler
        async def price(message: Message) -> dict[str, object]:
            return {"asked": message.text, "price": 112}

        broker.attach(worker)
        async with worker, broker.producer() as producer:
            answers = await asyncio.gather(*(producer.request("orders", f"{n}?") for n in range(5)))
        assert [answer.json()["asked"] for answer in answers] == [f"{n}?" for n in range(5)]

    play(scenario)


def test_a_request_that_nobody_answers_ends_in_time() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            with pytest.raises(TimeoutError):
                await producer.request("orders", "anybody?", timeout_s=5)

    play(scenario)


def test_a_producer_that_is_not_open_says_so() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        producer = broker.producer()
        with pytest.raises(WorkerError, match="async with"):
            await producer.send("orders", "x")
        async with producer:
            await producer.send("orders", "x")
        with pytest.raises(WorkerError, match="async with"):
            await producer.send("orders", "x")

    play(scenario)


def test_the_second_broker_is_asked_when_the_first_does_not_answer() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        producer = Producer("covey://one,two")
        asked = []

        async def dial(address: object, protocol: asyncio.Protocol) -> None:
            asked.append(str(address))
            if "one" in str(address):
                raise ConnectionRefusedError("nobody")
            await broker.dial(address, protocol)  # type: ignore[arg-type]

        producer.link.dial = dial
        producer.link.heartbeat_s = 0
        with pytest.raises(WorkerError, match="host"):  # it is no virtual host of this broker
            async with producer:
                pass
        assert asked[:2] == ["one:61613", "two:61613"]

    play(scenario)


def test_sends_beyond_the_limit_wait_for_receipts() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        producer = Producer(URL, pending_max=2)
        broker.attach(producer)
        async with producer:
            await producer.send_many("orders", [str(number) for number in range(20)])
        assert broker.depth("orders") == 20

    play(scenario)


def test_a_close_tells_those_who_still_wait() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        async with broker.producer() as producer:
            await producer.send("orders", "fills it")
            waiting = asyncio.create_task(producer.send("orders", "finds no room"))
            await asyncio.sleep(1)
        with pytest.raises(ConnectionLostError):
            await waiting

    play(scenario, quota_messages=1)
