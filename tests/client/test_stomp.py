"""The blocking STOMP client against a real broker."""

from __future__ import annotations

import socket

import pytest

from covey.client.errors import AnswerError, DeniedError, UnreachableError
from covey.client.place import parse_place
from covey.client.stomp import StompClient
from tests.cli.support import Terminal


def test_messages_that_come_before_a_receipt_are_kept(terminal: Terminal) -> None:
    with StompClient(parse_place(terminal.stomp, 0)) as client:
        client.send("/queue/cs", [], b"one")
        client.subscribe("/queue/cs", [])
        client.send("/queue/cs", [], b"two")
        client.confirm()
        bodies = []
        for _ in range(2):
            delivery = client.message(10)
            assert delivery is not None
            bodies.append(delivery.body)
        assert bodies == [b"one", b"two"]
        assert client.message(0.01) is None


def test_a_transaction_happens_when_it_is_committed(terminal: Terminal) -> None:
    with StompClient(parse_place(terminal.stomp, 0)) as client:
        client.begin("t")
        client.send("/queue/ct", [("transaction", "t")], b"x")
        client.confirm()
        client.subscribe("/queue/ct", [("ack", "client")])
        assert client.message(0.01) is None
        client.commit("t")
        assert client.message(10) is not None


def test_refusals_are_told_apart(terminal: Terminal) -> None:
    with pytest.raises(DeniedError, match="wrong user or password"):
        StompClient(parse_place(f"guest/wrong@{terminal.stomp}", 0))
    with pytest.raises(UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1"):
        StompClient(parse_place("127.0.0.1:1", 0))
    with StompClient(parse_place(terminal.stomp, 0)) as client:
        client.send("/nowhere", [], b"")
        with pytest.raises(AnswerError):
            client.confirm()


def test_a_peer_that_says_nothing_or_nonsense_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = parse_place(f"127.0.0.1:{server.getsockname()[1]}", 0)
        with pytest.raises(UnreachableError, match="does not speak STOMP"):
            StompClient(place, timeout_s=0.05)
