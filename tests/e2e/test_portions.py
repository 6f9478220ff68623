"""A second client is served between the portions of what another has asked for.

Both have sent their frames before the broker runs again, so no test depends on who is faster. The
first one's is in front: the broker reads its socket first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.e2e.support import BrokerProcess, Client, running_broker

CONFIG = "[broker]\nwork_portion = 2\n"
LISTENERS = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("portions"), config=CONFIG) as running:
        yield running


def listen(client: Client, destination: str, **more: str) -> None:
    """Subscribe very often."""
    for number in range(LISTENERS):
        client.send("SUBSCRIBE", {"id": f"s{number}", "destination": destination} | more)
    client.sync()


def first_to_arrive(broker: BrokerProcess, hearing: Client, topic: str) -> list[bytes]:
    """Let somebody send to a topic, and others before and after; tell in which order all come."""
    with broker.client() as early, broker.client() as first, broker.client() as late:
        for client in (early, first, late):
            client.sync()
        broker.process.send_signal(signal.SIGSTOP)
        first.send("SEND", {"destination": topic, "receipt": "r"}, b"first")
        for client in (early, late):
            client.send("SEND", {"destination": "/queue/other", "receipt": "r"}, b"other")
        broker.process.send_signal(signal.SIGCONT)
        found = [hearing.frame().body for _ in range(3)]
        for client in (early, first, late):
            assert client.frame().command == "RECEIPT"
    return found


def test_a_message_to_a_new_topic_that_very_many_patterns_match(broker: BrokerProcess) -> None:
    with broker.client() as crowd, broker.client() as hearing:
        listen(crowd, "/topic/new.*")
        hearing.send("SUBSCRIBE", {"id": "t", "destination": "/topic/new.*"})
        hearing.subscribe("/queue/other")
        assert first_to_arrive(broker, hearing, "/topic/new.a") == [b"other", b"other", b"first"]
        assert [crowd.frame().body for _ in range(LISTENERS)] == [b"first"] * LISTENERS
