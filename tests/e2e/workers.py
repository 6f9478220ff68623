"""Workers: producers and consumers that write down what they do and hear, until the broker dies.

Each is a thread with a connection of its own and a log of its own (`tests.e2e.checker` says what
stands in it). A log line is written before the deed or after the word, so that a kill can only
leave less in it than was true. None of them ever sends a message twice.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

from proton import Message, ProtonException
from proton.utils import BlockingConnection

from covey.protocols.stomp.frame import Frame
from tests.e2e.support import HOST, LOGIN, PASSCODE, Client

WORK = "/queue/torture.work"
COPIES = "/queue/torture.copies"
NEWS = "/topic/torture.news"
DURABLE = "/dsub/torture.reader"  # a durable subscription on the news
GROUPS = tuple("abcdefghijklmnopqrst")  # so many that every consumer owns some
IN_FLIGHT = 20  # messages a producer has under way
AMQP_TIMEOUT_S = 5.0
# What a broker says that ends in order, or whose virtual host another one serves now.
GOODBYES = (b"shutting down", b"covey-code:moved", b"covey-code:unavailable")
PAUSE_S = 0.1  # how long a consumer waits for something to come


class Log:
    """One client's own words."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.log").open("a", buffering=1)

    def write(self, what: str, name: str, *rest: str | int) -> None:
        """Write a line, with the time."""
        self._file.write(json.dumps([time.monotonic_ns(), what, name, *rest]) + "\n")

    def close(self) -> None:
        """End the log."""
        self._file.close()


class Worker(threading.Thread, ABC):
    """Works on one broker until its connection breaks or it is told to stop."""

    def __init__(self, name: str, log: Log, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.log = log
        self.random = Random(seed)
        self.is_stopping = False
        self.trouble: BaseException | None = None
        self.done = 0

    def run(self) -> None:
        """Work; a broken connection is the end and no trouble."""
        try:
            self.work()
        except (OSError, EOFError, ProtonException):
            pass
        except BaseException as error:  # told by whoever joins this thread
            self.trouble = error

    @abstractmethod
    def work(self) -> None:
        """Work until `is_stopping`, or for ever."""


class Producer(Worker):
    """Gives ids and numbers that go on over restarts of the broker."""

    def __init__(self, name: str, log: Log, seed: int, port: int, first: int) -> None:
        super().__init__(name, log, seed)
        self.port = port
        self.number = first

    def next_message(self) -> tuple[str, str]:
        """Write down a new message; return its id and its group."""
        self.number += 1
        name, group = f"{self.name}-{self.number}", self.random.choice(GROUPS)
        self.log.write("send", name, self.name, group, self.number)
        return name, group


class StompProducer(Producer):
    """Sends one by one, with a receipt each."""

    destination = WORK

    def work(self) -> None:
        """Send with a window of receipts."""
        waiting: deque[str] = deque()
        with connect_stomp(self.port) as client:
            while not self.is_stopping or waiting:
                if not self.is_stopping:
                    name, group = self.next_message()
                    headers = headers_of(name, group, self.destination)
                    client.send("SEND", headers | {"receipt": name}, b"x" * 100)
                    waiting.append(name)
                while waiting and (len(waiting) >= IN_FLIGHT or self.is_stopping):
                    frame = heard(client)
                    assert frame.command == "RECEIPT", frame.block
                    self.log.write("safe", waiting.popleft())
                    self.done += 1


class NewsProducer(StompProducer):
    """Sends to a topic that has a durable subscription."""

    destination = NEWS


class TransactionProducer(Producer):
    """Sends in transactions, some of which it aborts."""

    def work(self) -> None:
        """Send a few, then commit or abort."""
        with connect_stomp(self.port) as client:
            while not self.is_stopping:
                client.send("BEGIN", {"transaction": "t"})
                names = []
                for _ in range(self.random.randint(1, 8)):
                    name, group = self.next_message()
                    names.append(name)
                    client.send("SEND", headers_of(name, group) | {"transaction": "t"}, b"x")
                is_void = self.random.random() < 0.2
                if is_void:
                    for name in names:
                        self.log.write("void", name)
                client.send("ABORT" if is_void else "COMMIT", {"transaction": "t", "receipt": "r"})
                assert heard(client).command == "RECEIPT"
                if not is_void:
                    for name in names:
                        self.log.write("safe", name)
                        self.done += 1


class AmqpProducer(Producer):
    """Sends by AMQP and waits for each outcome."""

    def work(self) -> None:
        """Send one by one."""
        connection = connect_amqp(self.port)
        sender = connection.create_sender(WORK)
        while not self.is_stopping:
            name, group = self.next_message()
            message = Message(body="x", id=name, durable=True, properties={"name": name})
            message.group_id = group
            sender.send(message)
            self.log.write("safe", name)
            self.done += 1
        connection.close()


class StompConsumer(Worker):
    """Acknowledges each message with a receipt."""

    def __init__(self, name: str, log: Log, seed: int, port: int, queue: str = WORK) -> None:
        super().__init__(name, log, seed)
        self.port = port
        self.queue = queue

    def work(self) -> None:
        """Read and acknowledge."""
        with connect_stomp(self.port) as client:
            wanted = {"id": "s", "destination": self.queue, "credit": "5,0"}
            client.send("SUBSCRIBE", wanted | {"ack": "client-individual"})
            client.socket.settimeout(PAUSE_S)
            while True:
                try:
                    frame = heard(client)
                except TimeoutError:
                    if self.is_stopping:
                        return
                    continue
                headers = frame.headers(client.version)
                if frame.command == "RECEIPT":
                    self.settled(headers["receipt-id"])
                    self.done += 1
                    continue
                assert frame.command == "MESSAGE", frame.block
                self.log.write("got", headers["name"])
                self.settle(client, headers["name"], headers["ack"])

    def settle(self, client: Client, name: str, tag: str) -> None:
        """Acknowledge one message."""
        self.log.write("settling", name)
        client.send("ACK", {"id": tag, "receipt": name})

    def settled(self, receipt: str) -> None:
        """Hear that an acknowledgement is safe."""
        self.log.write("settled", receipt)


class CopyingConsumer(StompConsumer):
    """Settles each message in a transaction that also sends a copy on: both or neither."""

    def settle(self, client: Client, name: str, tag: str) -> None:
        """Acknowledge and copy."""
        self.done += 1
        copy = f"{name}/{self.name}-{time.monotonic_ns()}"
        self.log.write("copy", copy, name)
        client.send("BEGIN", {"transaction": copy})
        client.send("SEND", headers_of(copy, "", COPIES) | {"transaction": copy}, b"x")
        client.send("ACK", {"id": tag, "transaction": copy})
        if self.random.random() < 0.2:
            client.send("ABORT", {"transaction": copy})
            self.log.write("void", copy)
            client.send("NACK", {"id": tag})
            return
        self.log.write("settling", name)
        client.send("COMMIT", {"transaction": copy, "receipt": copy})

    def settled(self, receipt: str) -> None:
        """Hear that a transaction is safe."""
        self.log.write("settled", receipt.partition("/")[0])
        self.log.write("safe", receipt)


class AmqpConsumer(Worker):
    """Accepts each message; AMQP does not say when that is safe."""

    def __init__(self, name: str, log: Log, seed: int, port: int) -> None:
        super().__init__(name, log, seed)
        self.port = port

    def work(self) -> None:
        """Read and accept."""
        connection = connect_amqp(self.port)
        receiver = connection.create_receiver(WORK, credit=5)
        while not self.is_stopping:
            try:
                message = receiver.receive(PAUSE_S)
            except ProtonException as error:
                if type(error).__name__ == "Timeout":
                    continue
                raise
            name = message.properties["name"]
            self.log.write("got", name)
            self.log.write("settling", name)
            receiver.accept()
            self.done += 1
        connection.close()


def heard(client: Client) -> Frame:
    """Read a frame; a broker that shuts down in order has ended the connection."""
    frame = client.frame()
    if frame.command == "ERROR" and any(word in frame.block for word in GOODBYES):
        raise EOFError(frame.block)
    return frame


def headers_of(name: str, group: str, queue: str = WORK) -> dict[str, str]:
    """Return the headers of a persistent SEND."""
    headers = {"destination": queue, "persistent": "true", "name": name}
    return headers | ({"message_group": group} if group else {})


def connect_stomp(port: int) -> Client:
    """Connect and log in; a broker may shut down before it says welcome."""
    client = Client(port)
    client.send("CONNECT", {"accept-version": "1.2", "login": LOGIN, "passcode": PASSCODE})
    assert heard(client).command == "CONNECTED"
    return client


def make_durable(port: int) -> None:
    """Make the durable subscription on the news."""
    with connect_stomp(port) as client:
        name = DURABLE.removeprefix("/dsub/")
        wanted = {"id": name, "destination": NEWS, "persistent": "true", "receipt": "made"}
        client.send("SUBSCRIBE", wanted)
        assert heard(client).command == "RECEIPT"


def connect_amqp(port: int) -> Any:
    """Connect proton's blocking client."""
    return BlockingConnection(
        f"amqp://{HOST}:{port}",
        user=LOGIN,
        password=PASSCODE,
        allow_insecure_mechs=True,
        timeout=AMQP_TIMEOUT_S,
    )
