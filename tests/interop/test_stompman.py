"""stompman, an asyncio client with receipts and heart-beats of its own, against the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import stompman

from tests.e2e.support import HOST, LOGIN, MIB, PASSCODE, TIMEOUT_S, BrokerProcess

pytestmark = pytest.mark.interop

Inbox = asyncio.Queue[stompman.MessageFrame]
Scenario = Callable[[stompman.Client], Awaitable[None]]


def run(broker: BrokerProcess, scenario: Scenario, beat_ms: int = 1000) -> None:
    """Connect, play a scenario, disconnect; an ERROR frame or a lost connection fails the test."""
    errors: list[stompman.ErrorFrame] = []

    async def play() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            async with stompman.Client(
                [stompman.ConnectionParameters(HOST, broker.port, LOGIN, PASSCODE)],
                heartbeat=stompman.Heartbeat(beat_ms, beat_ms),
                on_error_frame=errors.append,
            ) as client:
                await scenario(client)

    asyncio.run(play())
    assert errors == []


async def listen(
    client: stompman.Client, destination: str, headers: dict[str, str] | None = None
) -> tuple[stompman.AutoAckSubscription, Inbox]:
    """Subscribe; stompman acknowledges each message once it has been put into the inbox."""
    inbox: Inbox = asyncio.Queue()
    subscription = await client.subscribe(
        destination, inbox.put, headers=headers, on_suppressed_exception=_raise
    )
    return subscription, inbox


def _raise(error: Exception, frame: stompman.MessageFrame) -> None:
    raise error


@pytest.mark.parametrize("size", [0, 1, 256, 8 * MIB])
def test_bodies_of_any_size_and_kind_arrive(broker: BrokerProcess, size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]

    async def scenario(client: stompman.Client) -> None:
        subscription, inbox = await listen(client, "/queue/man.body")
        await client.send(body, "/queue/man.body", headers={"who": "a:b\\c Ünï"})
        message = await inbox.get()
        assert message.body == body
        assert message.headers.get("who") == "a:b\\c Ünï"
        await subscription.unsubscribe()

    run(broker, scenario)


def test_a_send_waits_for_its_receipt(broker: BrokerProcess) -> None:
    async def scenario(client: stompman.Client) -> None:
        await client.send(b"safe", "/queue/man.safe", receipt_timeout=TIMEOUT_S)
        subscription, inbox = await listen(client, "/queue/man.safe")
        assert (await inbox.get()).body == b"safe"
        await subscription.unsubscribe()

    run(broker, scenario)


def test_a_transaction_is_all_or_nothing(broker: BrokerProcess) -> None:
    async def scenario(client: stompman.Client) -> None:
        subscription, inbox = await listen(client, "/queue/man.tx")
        with pytest.raises(ZeroDivisionError):
            async with client.begin() as transaction:
                await transaction.send(b"never", "/queue/man.tx")
                raise ZeroDivisionError
        async with client.begin() as transaction:
            await transaction.send(b"one", "/queue/man.tx")
            await transaction.send(b"two", "/queue/man.tx")
        assert [(await inbox.get()).body for _ in range(2)] == [b"one", b"two"]
        await subscription.unsubscribe()

    run(broker, scenario)


def test_a_nack_brings_the_message_back(broker: BrokerProcess) -> None:
    async def scenario(client: stompman.Client) -> None:
        inbox: asyncio.Queue[stompman.AckableMessageFrame] = asyncio.Queue()
        subscription = await client.subscribe_with_manual_ack(
            "/queue/man.nack", inbox.put, ack="client-individual"
        )
        await client.send(b"again", "/queue/man.nack")
        await (await inbox.get()).nack()
        again = await inbox.get()
        assert (again.body, again.headers.get("redelivered")) == (b"again", "true")
        await again.ack()
        await subscription.unsubscribe()

    run(broker, scenario)


def test_heart_beats_keep_a_quiet_connection_alive(broker: BrokerProcess) -> None:
    async def scenario(client: stompman.Client) -> None:
        subscription, inbox = await listen(client, "/queue/man.quiet")
        with pytest.raises(TimeoutError):  # several times what either side waits for a dead peer
            await asyncio.wait_for(inbox.get(), 1.0)
        await client.send(b"alive", "/queue/man.quiet")
        assert (await inbox.get()).body == b"alive"
        await subscription.unsubscribe()

    run(broker, scenario, beat_ms=200)


def test_groups_keep_their_order_over_two_subscriptions(broker: BrokerProcess) -> None:
    async def scenario(client: stompman.Client) -> None:
        readers = [await listen(client, "/queue/man.groups") for _ in range(2)]
        for number in range(40):
            headers = {"message_group": f"g{number % 8}"}
            await client.send(b"%d" % number, "/queue/man.groups", headers=headers)
        heard: list[list[int]] = [[], []]
        while sum(map(len, heard)) < 40:
            waiting = [asyncio.ensure_future(inbox.get()) for _, inbox in readers]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for who, one in enumerate(waiting):
                if one.done():
                    heard[who].append(int(one.result().body))
                else:
                    one.cancel()
        for group in range(8):
            owners = [[n for n in numbers if n % 8 == group] for numbers in heard]
            assert sorted(owners) == [[], list(range(group, 40, 8))]
        for subscription, _ in readers:
            await subscription.unsubscribe()

    run(broker, scenario)


def test_selectors_and_durable_subscriptions_pass_through_its_headers(
    broker: BrokerProcess,
) -> None:
    async def scenario(client: stompman.Client) -> None:
        wanted = {"selector": "n BETWEEN 2 AND 3", "durable-subscription-name": "man-durable"}
        subscription, inbox = await listen(client, "/topic/man.picked", wanted)
        for number in range(5):
            await client.send(b"%d" % number, "/topic/man.picked", headers={"n": str(number)})
        assert [(await inbox.get()).body for _ in range(2)] == [b"2", b"3"]
        await subscription.unsubscribe()

    run(broker, scenario)
