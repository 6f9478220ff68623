"""The blocking AMQP client against a real broker."""

from __future__ import annotations

import pytest

from covey.client import amqp
from covey.client.amqp import AmqpClient
from covey.client.base import MessageClient
from covey.client.errors import AnswerError, DeniedError, UnreachableError
from covey.client.place import parse_place
from covey.client.stomp import StompClient
from tests.cli.support import Terminal


@pytest.mark.parametrize("is_sender", [True, False])
def test_what_it_sends_a_stomp_client_reads_and_the_other_way_round(
    terminal: Terminal, is_sender: bool
) -> None:
    headers = [("message_group", "g"), ("persistent", "true"), ("colour", "blue")]
    with (
        AmqpClient(parse_place(terminal.amqp, 0)) as by_amqp,
        StompClient(parse_place(terminal.stomp, 0)) as by_stomp,
    ):
        writer: MessageClient = by_amqp if is_sender else by_stomp
        reader: MessageClient = by_stomp if is_sender else by_amqp
        writer.send("/queue/ca", headers, "grün".encode())
        writer.confirm()
        reader.subscribe("/queue/ca", [("ack", "client-individual")])
        delivery = reader.message(10)
        assert delivery is not None
        assert delivery.body == "grün".encode()
        assert dict(headers).items() <= delivery.headers.items()
        reader.ack(delivery)
        reader.confirm()
        assert terminal.queue("ca")["messages"] == 0


def test_a_message_is_gone_when_its_acknowledgement_returns(terminal: Terminal) -> None:
    with AmqpClient(parse_place(terminal.amqp, 0)) as client:
        client.send("/queue/cg", [], b"\xff\x00")
        client.confirm()
        client.subscribe("/queue/cg", [])
        delivery = client.message(10)
        assert delivery is not None
        assert (delivery.body, terminal.queue("cg")["unsettled"]) == (b"\xff\x00", 1)
        client.ack(delivery)
        assert terminal.queue("cg")["messages"] == 0
        assert client.message(0.01) is None


def test_a_browse_of_several_batches_has_an_end(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp, "BROWSE_BATCH", 2)
    with AmqpClient(parse_place(terminal.amqp, 0)) as client:
        for number in range(4):
            client.send("/queue/cb", [], str(number).encode())
        client.confirm()
        client.subscribe("/queue/cb", [("browser", "true"), ("from-seq", "2")])
        found = []
        while not (delivery := client.message(10)) or not delivery.is_end:
            assert delivery is not None
            found.append((delivery.headers["covey-seq"], delivery.body))
    assert found == [("2", b"1"), ("3", b"2"), ("4", b"3")]
    assert terminal.queue("cb")["messages"] == 4


def test_refusals_are_told_apart(terminal: Terminal) -> None:
    with pytest.raises(DeniedError, match="refused the login of guest"):
        AmqpClient(parse_place(f"guest/wrong@{terminal.amqp}", 0))
    with pytest.raises(UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1"):
        AmqpClient(parse_place("127.0.0.1:1", 0))
    with AmqpClient(parse_place(terminal.amqp, 0)) as client:
        with pytest.raises(AnswerError, match="selector"):
            client.subscribe("/queue/cr", [("selector", "(((")])


def test_a_queue_that_refuses_says_why(terminal: Terminal) -> None:
    terminal.config("add", "queue", "cfull", "--max-queue-count", "1", "--limit-policy", "reject")
    with AmqpClient(parse_place(terminal.amqp, 0)) as client:
        client.send("/queue/cfull", [], b"1")
        client.send("/queue/cfull", [], b"2")
        with pytest.raises(AnswerError, match="cfull"):
            client.confirm()
