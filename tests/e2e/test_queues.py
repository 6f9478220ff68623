"""Queues with a discipline, as clients of both protocols see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from proton import Message, symbol

from tests.e2e.support import BrokerProcess, Client, running_broker
from tests.interop.amqp import connected

CONFIG = """
[[queue]]
id = "once"
duplicate_window = 100

[[queue]]
id = "urgent"
priorities = 10

[[queue]]
id = "prices"
lvq_key = "stock"

[[queue]]
id = "ring"
quota_messages = 3
full_policy = "ring"
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("shop"), config=CONFIG) as broker:
        yield broker


def send(client: Client, queue: str, body: bytes, **headers: str) -> None:
    """Send and wait for the receipt; `message_id` becomes `message-id`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    wanted = {"destination": f"/queue/{queue}", "persistent": "true", "receipt": "r"}
    client.send("SEND", wanted | given, body)
    frame = client.frame()
    assert frame.command == "RECEIPT", frame.block


def read(broker: BrokerProcess, queue: str, count: int) -> list[bytes]:
    """Read so many messages, and see that no other comes before one that is sent now."""
    with broker.client() as client:
        client.subscribe(f"/queue/{queue}")
        bodies = [client.frame().body for _ in range(count)]
        client.sync()
    return bodies


def test_a_delay_of_stomp_holds_the_message_back(shop: BrokerProcess) -> None:
    with shop.client() as client:
        client.send(
            "SEND",
            {"destination": "/queue/later", "AMQ_SCHEDULED_DELAY": "300", "receipt": "r"},
            b"late",
        )
        assert client.frame().command == "RECEIPT"
        send(client, "later", b"soon")
    assert read(shop, "later", 2) == [b"soon", b"late"]


def test_a_delay_of_amqp_holds_the_message_back(shop: BrokerProcess) -> None:
    with connected(shop) as connection:
        sender = connection.create_sender("/queue/later.amqp")
        late = Message(body=b"late", durable=True)
        late.annotations = {symbol("x-opt-delivery-delay"): 300}
        sender.send(late)
        sender.send(Message(body=b"soon", durable=True))
    assert read(shop, "later.amqp", 2) == [b"soon", b"late"]


def test_an_id_sent_by_either_protocol_enters_once(shop: BrokerProcess) -> None:
    with shop.client() as client:
        send(client, "once", b"first", message_id="id-1")
        send(client, "once", b"again", message_id="id-1")
        with connected(shop) as connection:
            connection.create_sender("/queue/once").send(Message(body=b"amqp", id="id-1"))
        send(client, "once", b"other", message_id="id-2")
        for _ in range(2):
            send(client, "once", b"without an id")
    assert read(shop, "once", 4) == [b"first", b"other", b"without an id", b"without an id"]


def test_the_highest_priority_goes_first(shop: BrokerProcess) -> None:
    with shop.client() as client:
        for number, priority in enumerate("4929"):
            send(client, "urgent", b"%d" % number, priority=priority)
    assert read(shop, "urgent", 4) == [b"1", b"3", b"0", b"2"]


def test_a_newer_value_replaces_the_older(shop: BrokerProcess) -> None:
    with shop.client() as client:
        for stock, price in (("x", b"1"), ("y", b"1"), ("x", b"2")):
            send(client, "prices", price, stock=stock)
    assert read(shop, "prices", 2) == [b"1", b"2"]


def test_a_ring_keeps_the_newest(shop: BrokerProcess) -> None:
    with shop.client() as client:
        for number in range(10):
            send(client, "ring", b"%d" % number)
    assert read(shop, "ring", 3) == [b"7", b"8", b"9"]
