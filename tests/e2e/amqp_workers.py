"""AMQP workers that work in transactions: proton's event-driven client, which alone knows them.

Like the others (`tests.e2e.workers`) each writes down what it does and hears, and ends with the
broker. A worker's deeds are a generator: each `yield` waits until its transaction has been
declared or discharged, or a message has come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.e2e.support import HOST, LOGIN, PASSCODE
from tests.e2e.workers import COPIES, PAUSE_S, WORK, Log, Producer, Worker

CREDIT = 5
VOID_SHARE = 0.2  # of transactions that are aborted


Deeds = Callable[["Transactor"], Iterator[str]]


class Transactor(MessagingHandler, TransactionHandler):
    """One connection and the steps of its worker, one transaction at a time."""

    def __init__(self, worker: Worker, port: int, deeds: Deeds) -> None:
        super().__init__(prefetch=CREDIT, auto_accept=False, auto_settle=False)
        self.worker = worker
        self.port = port
        self.deeds = deeds
        self.transaction: Any = None
        self.received: deque[tuple[Any, str]] = deque()
        self.is_waiting = False  # for a message, in no transaction

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = self.container.connect(
            f"amqp://{HOST}:{self.port}",
            user=LOGIN,
            password=PASSCODE,
            allow_insecure_mechs=True,
            reconnect=False,
        )
        self.steps = self.deeds(self)
        self.container.schedule(PAUSE_S, self)
        self.go_on()

    def go_on(self) -> None:
        """Take the next step; the last one closes the connection."""
        if next(self.steps, None) is None:
            self.connection.close()

    def declare(self) -> None:
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.go_on()

    def on_transaction_committed(self, event: Any) -> None:
        self.go_on()

    def on_transaction_aborted(self, event: Any) -> None:
        self.go_on()

    def on_message(self, event: Any) -> None:
        name = event.message.properties["name"]
        self.worker.log.write("got", name)
        self.received.append((event.delivery, name))
        self.go_on_with_message()

    def on_timer_task(self, event: Any) -> None:
        self.container.schedule(PAUSE_S, self)
        self.go_on_with_message()

    def go_on_with_message(self) -> None:
        """Wake a worker that waits, also to tell it that it shall stop."""
        if self.is_waiting and (self.received or self.worker.is_stopping):
            self.is_waiting = False
            self.go_on()

    def on_transport_closed(self, event: Any) -> None:
        self.container.stop()

    def on_transport_tail_closed(self, event: Any) -> None:
        """End with the broker's side: it was killed, and will answer nothing any more."""
        self.container.stop()

    def on_transport_error(self, event: Any) -> None:
        """End: the broker was killed."""
        self.container.stop()

    def on_connection_error(self, event: Any) -> None:
        """End: the broker shuts down, and has said so."""
        self.container.stop()

    def on_link_error(self, event: Any) -> None:
        """Say nothing: the connection ends, too."""


class AmqpTransactionProducer(Producer):
    """Sends in AMQP transactions, some of which it aborts."""

    def work(self) -> None:
        """Send until told to stop."""
        Container(Transactor(self, self.port, self.steps)).run()

    def steps(self, transactor: Transactor) -> Iterator[str]:
        """Send a few, then commit or abort."""
        sender = transactor.container.create_sender(transactor.connection, WORK)
        while not self.is_stopping:
            transactor.declare()
            yield "declared"
            names = []
            for _ in range(self.random.randint(1, 8)):
                name, group = self.next_message()
                names.append(name)
                message = Message(body="x", id=name, durable=True, properties={"name": name})
                message.group_id = group
                transactor.transaction.send(sender, message)
            if self.random.random() < VOID_SHARE:
                for name in names:
                    self.log.write("void", name)
                transactor.transaction.abort()
                yield "aborted"
                continue
            transactor.transaction.commit()
            yield "committed"
            for name in names:
                self.log.write("safe", name)
                self.done += 1


class AmqpCopyingConsumer(Worker):
    """Accepts each message in an AMQP transaction that also sends a copy on: both or neither."""

    def __init__(self, name: str, log: Log, seed: int, port: int) -> None:
        super().__init__(name, log, seed)
        self.port = port

    def work(self) -> None:
        """Copy until told to stop."""
        Container(Transactor(self, self.port, self.steps)).run()

    def steps(self, transactor: Transactor) -> Iterator[str]:
        """Take one message after the other."""
        connection = transactor.connection
        transactor.container.create_receiver(connection, WORK)
        sender = transactor.container.create_sender(connection, COPIES)
        while True:
            while not transactor.received:
                if self.is_stopping:
                    return
                transactor.is_waiting = True
                yield "message"
            delivery, name = transactor.received.popleft()
            transactor.declare()
            yield "declared"
            copy = f"{name}/{self.name}-{time.monotonic_ns()}"
            self.log.write("copy", copy, name)
            message = Message(body="x", durable=True, properties={"name": copy})
            transactor.transaction.send(sender, message)
            transactor.transaction.accept(delivery)
            if self.random.random() < VOID_SHARE:
                self.log.write("void", copy)
                transactor.transaction.abort()  # proton releases the message then
                yield "aborted"
                continue
            self.log.write("settling", name)
            transactor.transaction.commit()
            yield "committed"
            self.log.write("settled", name)
            self.log.write("safe", copy)
            self.done += 1
