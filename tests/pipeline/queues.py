"""A real broker's queues for tests of the data source: filling them and looking at them."""

from __future__ import annotations

from covey.client.place import DEFAULT_PASSWORD, DEFAULT_USER, Place
from covey.pipeline.datasource.client import QueueClient
from covey.pipeline.datasource.offsets import Figures
from tests.e2e.support import HOST, BrokerProcess


def client_of(broker: BrokerProcess) -> QueueClient:
    """Connect to a broker."""
    return QueueClient(Place(HOST, broker.port, DEFAULT_USER, DEFAULT_PASSWORD))


def at(broker: BrokerProcess) -> str:
    """Return what the option `brokers` says for a broker."""
    return f"{HOST}:{broker.port}"


def fill(broker: BrokerProcess, queue: str, count: int, *, first: int = 1) -> None:
    """Send messages `1`, `2`, ... of the groups g0, g1 and g2 in turn, and wait for them."""
    with client_of(broker) as client:
        for number in range(first, first + count):
            headers = [("message_group", f"g{number % 3}"), ("persistent", "true")]
            client.post(f"/queue/{queue}", headers, b"%d" % number)
        client.confirm()


def figures_of(broker: BrokerProcess, queue: str) -> Figures:
    """Ask a queue what it has."""
    with client_of(broker) as client:
        return client.figures(queue)


def bodies_of(broker: BrokerProcess, queue: str) -> list[bytes]:
    """Return the bodies of all messages of a queue."""
    with client_of(broker) as client:
        return [body for rows in client.browse(queue, 0) for body in rows.bodies]


def take(broker: BrokerProcess, queue: str, count: int) -> None:
    """Consume some messages, as an application would."""
    with client_of(broker) as client:
        client.subscribe(
            f"/queue/{queue}", [("ack", "client-individual"), ("credit", f"{count},0")]
        )
        for _ in range(count):
            delivery = client.message(client.timeout_s)
            assert delivery is not None
            client.ack(delivery)
        client.confirm()
