"""Qpid Proton's own clients against the broker over TCP: alone, beside STOMP, in transactions."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from proton import ConnectionException, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DurableSubscription, Selector
from proton.utils import LinkDetached, SendException, SyncRequestResponse

from covey.protocols.stomp.versions import Version
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess
from tests.interop.amqp import amqp_port, connected

pytestmark = pytest.mark.interop

GROUP_QUEUE = (
    "MyMsgQueue; {create: always, delete: receiver, node: {x-declare: {arguments:"
    " {'qpid.group_header_key': 'GROUP_KEY', 'qpid.shared_msg_group': 1}}}}"
)
FUZZED_SOCKETS = 200
FUZZED_TOGETHER = 50  # a failed login is answered late, so they wait together


def test_a_message_is_sent_received_and_accepted(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        connection.create_sender("plain").send(Message(body="hello", durable=True))
        receiver = connection.create_receiver("plain")
        assert receiver.receive().body == "hello"
        receiver.accept()


def test_a_wrong_password_is_a_clean_failure(broker: BrokerProcess) -> None:
    with pytest.raises(ConnectionException, match="unauthorized-access"):
        with connected(broker, passcode="wrong"):
            pass


def test_a_refused_link_says_why(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        with pytest.raises(LinkDetached, match="unknown prefix"):
            connection.create_receiver("nosuch://x")


def test_the_qpid_pages_address_string_works_as_written(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender(GROUP_QUEUE)
        for number in range(3):
            sender.send(Message(body=number, properties={"GROUP_KEY": "a"}))
        receiver = connection.create_receiver(GROUP_QUEUE, credit=3)
        for number in range(3):
            assert receiver.receive().body == number
            receiver.accept()


def test_a_selector_filters_and_a_browser_takes_nothing(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender("coloured")
        for colour in ("red", "blue"):
            sender.send(Message(body=colour, properties={"colour": colour}))
        browser = connection.create_receiver("coloured", options=Copy(), credit=2)
        assert [browser.receive().body for _ in range(2)] == ["red", "blue"]
        blue = Selector("colour = 'blue'")
        chosen = connection.create_receiver("coloured", name="chosen", options=blue)
        assert chosen.receive().body == "blue"
        chosen.accept()


def test_a_released_message_comes_back_and_a_rejected_one_does_not(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender("outcomes")
        sender.send(Message(body="1"))
        sender.send(Message(body="2"))
        receiver = connection.create_receiver("outcomes", credit=1)
        assert receiver.receive().body == "1"
        receiver.release(delivered=False)
        again = receiver.receive()
        assert (again.body, again.delivery_count) == ("1", 0)
        receiver.reject()
        assert receiver.receive().body == "2"
        receiver.accept()


def test_a_message_of_three_megabytes_passes(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 12_000
    with connected(broker, max_frame_size=4096) as connection:
        connection.create_sender("large").send(Message(body=body, inferred=True))
        receiver = connection.create_receiver("large")
        message: Any = receiver.receive()  # held: proton's body is a view into it
        assert bytes(message.body) == body
        receiver.accept()


def test_another_users_name_is_rejected(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        with pytest.raises(SendException):
            connection.create_sender("q").send(Message(body="1", user_id=b"somebody"))


def named(container_id: str) -> Container:
    container = Container()
    container.container_id = container_id
    return container


def test_a_durable_subscription_outlives_its_connection(broker: BrokerProcess) -> None:
    for expected in ("", "missed"):
        with connected(broker, container=named("durable-client")) as subscriber:
            receiver = subscriber.create_receiver(
                "topic://news", name="sub", options=DurableSubscription(), credit=1
            )
            if expected:
                assert receiver.receive().body == expected
                receiver.accept()
        if not expected:
            with connected(broker) as publisher:
                publisher.create_sender("topic://news").send(Message(body="missed"))


def test_management_answers_over_a_dynamic_node(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        client = SyncRequestResponse(connection, "$management")
        request = Message(
            properties={"operation": "CREATE", "type": "covey.queue", "name": "managed"},
            body={"arguments": {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}},
        )
        answer = client.call(request)
        assert answer.properties is not None
        assert answer.properties["statusCode"] == 201
        assert answer.body["group_header"] == "G"


def test_stomp_and_amqp_share_a_group(broker: BrokerProcess) -> None:
    with broker.client() as stomp, connected(broker) as connection:
        receiver = connection.create_receiver("mixed", credit=10)
        for number in range(4):
            headers = {"destination": "/queue/mixed", "JMSXGroupID": "g", "number": str(number)}
            stomp.send("SEND", headers, b"from stomp")
        got = [receiver.receive() for _ in range(4)]
        assert [message.body for message in got] == ["from stomp"] * 4
        assert [message.group_id for message in got] == ["g"] * 4
        assert [m.properties and m.properties["number"] for m in got] == ["0", "1", "2", "3"]
        assert got[0].annotations == {symbol("x-opt-group-first-for-consumer"): True}
        for _ in got:
            receiver.accept()


def test_what_amqp_sends_stomp_reads(broker: BrokerProcess) -> None:
    with broker.client() as stomp, connected(broker) as connection:
        stomp.subscribe("/queue/other-way")
        sender = connection.create_sender("other-way")
        sender.send(Message(body="text", group_id="g", properties={"colour": "red"}, subject="s"))
        frame = stomp.frame()
        assert frame.body == b"text"
        headers = frame.headers(stomp.version)
        assert (headers["colour"], headers["type"]) == ("red", "s")
        assert headers["JMSXGroupID"] == "g"


def read_to_the_end(peer: socket.socket) -> None:
    with peer:
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass  # it closed with words of ours unread


def test_stomp_reads_each_of_many_like_messages(broker: BrokerProcess) -> None:
    with broker.client() as stomp, connected(broker) as connection:
        stomp.subscribe("/queue/interop.alike")
        sender = connection.create_sender("interop.alike")
        for colour, body in (("red", b"1"), ("red", b"2"), ("blue", b"3"), ("red", b"4")):
            sender.send(Message(body=body, inferred=True, properties={"colour": colour}))
        frames = [stomp.frame() for _ in range(4)]
    assert [frame.body for frame in frames] == [b"1", b"2", b"3", b"4"]
    colours = [frame.headers(Version.V1_2)["colour"] for frame in frames]
    assert colours == ["red", "red", "blue", "red"]


def test_mutated_bytes_over_sockets_leave_the_broker_serving(broker: BrokerProcess) -> None:
    port = amqp_port(broker)
    chance = random.Random(4)
    header = b"AMQP\x03\x01\x00\x00"
    init = b"\x00\x00\x00\x29\x02\x01\x00\x00\x00\x53\x41\xc0\x1c\x03\xa3\x05PLAIN\xa0\x0f"
    init += b"\x00admin\x00password\x40"
    opened = (
        b"AMQP\x00\x01\x00\x00\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01c"
    )
    for _ in range(FUZZED_SOCKETS // FUZZED_TOGETHER):
        peers = [socket.create_connection((HOST, port), TIMEOUT_S) for _ in range(FUZZED_TOGETHER)]
        for peer in peers:
            data = bytearray(header + init + opened)
            for _ in range(chance.randint(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        for peer in peers:
            read_to_the_end(peer)
    with connected(broker) as connection:
        connection.create_sender("alive").send(Message(body="yes"))


# Transactions of Qpid Proton's event-driven client against the broker over TCP.

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
