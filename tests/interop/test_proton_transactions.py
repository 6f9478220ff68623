"""Transactions of Qpid Proton's event-driven client against the broker over TCP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.e2e.support import HOST, LOGIN, PASSCODE, BrokerProcess
from tests.interop.amqp import amqp_port, connected

pytestmark = pytest.mark.interop

GIVE_UP_S = 20


class Client(MessagingHandler, TransactionHandler):
    """Runs a script that waits, by `yield`, for the next event of its transactions."""

    def __init__(self, port: int, queue: str) -> None:
        super().__init__(prefetch=10, auto_accept=False, auto_settle=False)
        self.port = port
        self.queue = queue
        self.transaction: Any = None
        self.received: list[tuple[Any, str]] = []
        self.problem = "it never ended"

    def script(self) -> Iterator[str]:
        """Do what the test is about; each `yield` names the event to wait for."""
        raise NotImplementedError

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.timer = self.container.schedule(GIVE_UP_S, self)
        self.connection = self.container.connect(
            f"amqp://{HOST}:{self.port}",
            user=LOGIN,
            password=PASSCODE,
            allow_insecure_mechs=True,
            reconnect=False,
        )
        self.steps = self.script()
        self.waits_for = next(self.steps)

    def happened(self, what: str) -> None:
        if what != self.waits_for:
            return
        try:
            self.waits_for = next(self.steps)
        except StopIteration:
            self.problem = ""
            self.finish()
        except AssertionError as error:
            self.problem = f"failed: {error}"
            self.finish()

    def finish(self) -> None:
        self.timer.cancel()
        self.connection.close()

    def on_sendable(self, event: Any) -> None:
        self.happened("sendable")

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.happened("declared")

    def on_transaction_committed(self, event: Any) -> None:
        self.happened("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.happened("aborted")

    def on_message(self, event: Any) -> None:
        self.received.append((event.delivery, event.message.body))
        self.happened("message")

    def on_timer_task(self, event: Any) -> None:
        self.connection.close()


def play(client: Client) -> None:
    Container(client).run()
    assert client.problem == ""


class Sends(Client):
    """Sends in an aborted transaction, then in a committed one."""

    def script(self) -> Iterator[str]:
        sender = self.container.create_sender(self.connection, self.queue)
        yield "sendable"
        for body, end in (("undone", "aborted"), ("done", "committed")):
            self.container.declare_transaction(self.connection, handler=self)
            yield "declared"
            for _ in range(3):
                self.transaction.send(sender, Message(body=body))
            (self.transaction.abort if end == "aborted" else self.transaction.commit)()
            yield end


class Receives(Client):
    """Accepts in an aborted transaction, then in a committed one."""

    def script(self) -> Iterator[str]:
        self.container.create_receiver(self.connection, self.queue)
        yield "message"
        for end in ("aborted", "committed"):
            self.container.declare_transaction(self.connection, handler=self)
            yield "declared"
            self.transaction.accept(self.received[-1][0])
            (self.transaction.abort if end == "aborted" else self.transaction.commit)()
            yield end
            if end == "aborted":
                yield "message"  # proton gives it back, and so it comes again


def test_only_what_is_committed_is_sent(broker: BrokerProcess) -> None:
    play(Sends(amqp_port(broker), "tx.sends"))
    with connected(broker) as connection:
        receiver = connection.create_receiver("tx.sends", credit=10)
        for _ in range(3):
            assert receiver.receive().body == "done"
            receiver.accept()


def test_only_what_is_committed_is_accepted(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender("tx.receives")
        sender.send(Message(body="once"))
        client = Receives(amqp_port(broker), "tx.receives")
        play(client)
        assert [body for _, body in client.received] == ["once", "once"]
        sender.send(Message(body="next"))
        receiver = connection.create_receiver("tx.receives", credit=1)
        assert receiver.receive().body == "next"
        receiver.accept()
