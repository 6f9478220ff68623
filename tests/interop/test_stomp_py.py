"""stomp.py, the Python client most people have, in all three versions against the broker."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stomp

from tests.e2e.support import HOST, LOGIN, MIB, PASSCODE, TIMEOUT_S, BrokerProcess

pytestmark = pytest.mark.interop

CONNECTIONS = {
    "1.0": stomp.StompConnection10,
    "1.1": stomp.StompConnection11,
    "1.2": stomp.StompConnection12,
}


class User:
    """A connection and what it heard; stomp.py calls the `on_` methods from its own thread."""

    def __init__(self, port: int, version: str, **options: Any) -> None:
        self.version = version
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.beats: queue.Queue[None] = queue.Queue()
        self.connected: Any = None
        self.connection = CONNECTIONS[version]([(HOST, port)], auto_decode=False, **options)
        self.connection.set_listener("test", self)
        self.connection.connect(LOGIN, PASSCODE, wait=True)

    def on_connected(self, frame: Any) -> None:
        self.connected = frame

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_heartbeat(self) -> None:
        self.beats.put(None)

    def message(self) -> Any:
        return self.messages.get(timeout=TIMEOUT_S)

    def bodies(self, count: int) -> list[bytes]:
        return [bytes(self.message().body) for _ in range(count)]

    def receipt(self) -> str:
        return self.receipts.get(timeout=TIMEOUT_S)

    def subscribe(self, destination: str, **headers: str) -> None:
        wanted = {"id": "s", "ack": "auto", "receipt": "subscribed"} | headers
        self.connection.subscribe(destination, **wanted)
        assert self.receipt() == "subscribed"

    def send(self, destination: str, body: bytes | str, **headers: str) -> None:
        self.connection.send(destination, body, **headers)

    def ack(self, message: Any, **more: str) -> None:
        self._settle(self.connection.ack, message, more)

    def nack(self, message: Any, **more: str) -> None:
        self._settle(self.connection.nack, message, more)

    def _settle(self, call: Callable[..., None], message: Any, more: dict[str, str]) -> None:
        headers = message.headers
        match self.version:
            case "1.0":
                call(headers["message-id"], **more)
            case "1.1":
                call(headers["message-id"], headers["subscription"], **more)
            case _:
                call(headers["ack"], **more)

    def close(self) -> None:
        if self.connection.is_connected():
            self.connection.disconnect()


MakeUser = Callable[..., User]


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[MakeUser]:
    users: list[User] = []

    def make(version: str = "1.2", **options: Any) -> User:
        users.append(User(broker.port, version, **options))
        return users[-1]

    yield make
    for user in users:
        user.close()


@pytest.fixture(params=sorted(CONNECTIONS))
def user(request: pytest.FixtureRequest, connect: MakeUser) -> User:
    """One user of each version."""
    return connect(request.param)


def test_the_version_asked_for_is_spoken(user: User) -> None:
    assert user.connected.headers["version"] == user.version


@pytest.mark.parametrize("body", [b"", b"plain", "Grüße, 世界 🐦".encode(), bytes(range(256))])
def test_a_body_arrives_as_it_was_sent(user: User, body: bytes) -> None:
    user.subscribe("/queue/py.body")
    user.send("/queue/py.body", body)
    assert bytes(user.message().body) == body


def test_a_large_body_arrives_whole(user: User) -> None:
    body = bytes(range(256)) * (8 * MIB // 256)
    user.subscribe("/queue/py.large")
    user.send("/queue/py.large", body)
    assert bytes(user.message().body) == body


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_headers_arrive_as_they_were_sent(connect: MakeUser, version: str) -> None:
    user = connect(version)
    user.subscribe("/queue/py.headers")
    user.connection.send("/queue/py.headers", "x", headers={"who": "a:b\\c\nd Ünï"})
    assert user.message().headers["who"] == "a:b\\c\nd Ünï"


def test_an_unsettled_message_comes_back_to_the_next_subscriber(
    user: User, connect: MakeUser
) -> None:
    user.subscribe("/queue/py.unsettled", ack="client")
    user.send("/queue/py.unsettled", "one")
    user.send("/queue/py.unsettled", "two")
    assert user.bodies(2) == [b"one", b"two"]
    user.close()
    other = connect(user.version)
    other.subscribe("/queue/py.unsettled")
    assert other.bodies(2) == [b"one", b"two"]


def test_client_mode_acknowledges_everything_before(user: User, connect: MakeUser) -> None:
    user.subscribe("/queue/py.client", ack="client")
    for number in range(3):
        user.send("/queue/py.client", str(number))
    messages = [user.message() for _ in range(3)]
    user.ack(messages[1], receipt="acked")
    assert user.receipt() == "acked"
    user.close()
    other = connect(user.version)
    other.subscribe("/queue/py.client")
    assert other.bodies(1) == [b"2"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_nack_brings_one_message_back(connect: MakeUser, version: str) -> None:
    user = connect(version)
    user.subscribe("/queue/py.nack", ack="client-individual")
    user.send("/queue/py.nack", "first")
    user.send("/queue/py.nack", "second")
    first, second = user.message(), user.message()
    user.nack(first)
    again = user.message()
    assert (again.body, again.headers["redelivered"]) == (b"first", "true")
    user.ack(second)
    user.ack(again, receipt="done")
    assert user.receipt() == "done"


def test_a_transaction_sends_and_acknowledges_all_or_nothing(user: User) -> None:
    user.subscribe("/queue/py.tx", ack="client")
    user.send("/queue/py.tx", "request")
    request = user.message()
    undone = user.connection.begin()
    user.send("/queue/py.tx", "never", transaction=undone)
    user.ack(request, transaction=undone)
    user.connection.abort(undone)
    done = user.connection.begin()
    user.send("/queue/py.tx", "answer", transaction=done)
    user.ack(request, transaction=done)
    user.connection.commit(done, receipt="committed")
    assert user.receipt() == "committed"
    answer = user.message()
    assert answer.body == b"answer"
    user.ack(answer, receipt="acked")
    assert user.receipt() == "acked"
    assert user.messages.empty()


def test_heart_beats_flow_both_ways(connect: MakeUser) -> None:
    user = connect("1.2", heartbeats=(200, 200))
    for _ in range(4):  # longer than either side would wait for a dead peer
        user.beats.get(timeout=TIMEOUT_S)
    assert user.connection.is_connected()


def test_a_durable_subscription_keeps_messages_for_its_subscriber(connect: MakeUser) -> None:
    topic = "/topic/py.news"
    reader = connect()
    reader.subscribe(topic, id="py-reader", persistent="true")
    reader.close()
    connect().send(topic, "while away", receipt="sent")
    back = connect()
    back.subscribe(topic, id="py-reader", persistent="true")
    assert back.bodies(1) == [b"while away"]
    back.connection.unsubscribe("py-reader", persistent="true", receipt="gone")
    assert back.receipt() == "gone"


def test_a_selector_picks_messages(user: User) -> None:
    user.subscribe("/topic/py.prices", selector="price > 10 AND currency = 'EUR'")
    for price, currency in (("5", "EUR"), ("20", "USD"), ("30", "EUR")):
        user.send("/topic/py.prices", price, price=price, currency=currency)
    assert user.bodies(1) == [b"30"]


def test_groups_stay_with_one_consumer_each_and_in_order(connect: MakeUser) -> None:
    consumers = [connect() for _ in range(3)]
    arrivals: queue.Queue[Any] = queue.Queue()
    for who, consumer in enumerate(consumers):
        consumer.messages = arrivals
        consumer.subscribe("/queue/py.groups", id=str(who), ack="client-individual")
    sender = connect("1.1")
    groups, rounds = [f"g{number}" for number in range(12)], 5
    for turn in range(rounds):
        for group in groups:
            sender.send("/queue/py.groups", str(turn), message_group=group)
    heard: dict[str, list[tuple[int, int]]] = {group: [] for group in groups}
    for _ in range(rounds * len(groups)):
        message = arrivals.get(timeout=TIMEOUT_S)
        who = int(message.headers["subscription"])
        heard[message.headers["message_group"]].append((who, int(message.body)))
        consumers[who].ack(message)
    for deliveries in heard.values():
        assert len({who for who, _ in deliveries}) == 1
        assert [turn for _, turn in deliveries] == list(range(rounds))
    assert len({deliveries[0][0] for deliveries in heard.values()}) > 1


def test_a_refused_frame_is_an_error_that_says_why(user: User) -> None:
    user.connection.send("/queue/bad..name", "x", receipt="r7")
    error = user.errors.get(timeout=TIMEOUT_S)
    assert "bad..name" in error.headers["message"]
    assert error.headers["receipt-id"] == "r7"


def test_a_wrong_password_is_refused(broker: BrokerProcess) -> None:
    connection = stomp.StompConnection12([(HOST, broker.port)], reconnect_attempts_max=1)
    with pytest.raises(stomp.exception.ConnectFailedException):
        connection.connect(LOGIN, "wrong", wait=True)
