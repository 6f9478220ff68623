"""Peers that say nothing, read nothing or vanish: found in time, and what they held goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.e2e.support import MIB, STOMP_CONNECTOR, BrokerProcess, Client, running_broker

CONFIG = f"""
[broker]
logins_pending_max = 20
{STOMP_CONNECTOR}
connections_max = 30
write_timeout_s = 1.0
[connector.stomp]
login_timeout_s = 0.5
die_delay_ms = 100
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that is short of patience."""
    with running_broker(tmp_path_factory.mktemp("broker"), config=CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    yield
    broker.assert_serves()
    assert "Traceback" not in broker.log


def test_a_peer_that_says_nothing_is_closed_after_login_timeout(broker: BrokerProcess) -> None:
    with Client(broker.port) as client:
        assert b"no CONNECT frame in time" in client.until_closed()


def test_a_login_that_trickles_in_is_closed_after_login_timeout(broker: BrokerProcess) -> None:
    with Client(broker.port) as client:
        client.socket.settimeout(0.05)
        for _ in range(200):  # ten seconds if nobody stops it
            client.socket.sendall(b"\n")
            try:
                heard = client.socket.recv(65536)
            except TimeoutError:
                continue
            assert b"no CONNECT frame in time" in heard
            return
    raise AssertionError("a trickle of line feeds kept the connection open")


def test_an_address_may_have_only_so_many_strangers(broker: BrokerProcess) -> None:
    known = [broker.client() for _ in range(5)]  # who has logged in is no stranger
    strangers = [Client(broker.port) for _ in range(21)]
    assert b"logins_pending_max is reached" in strangers[-1].until_closed()
    assert b"no CONNECT frame in time" in strangers[0].until_closed()
    for client in known + strangers:
        client.socket.close()


def test_connections_beyond_the_ports_limit_are_closed(broker: BrokerProcess) -> None:
    clients = [broker.client() for _ in range(30)]
    with Client(broker.port) as one_too_many:
        assert b"connections_max is reached" in one_too_many.until_closed()
    for client in clients:
        client.send("DISCONNECT", {"receipt": "bye"})
        assert client.frame().command == "RECEIPT"
        client.socket.close()


def test_a_silent_peer_loses_its_messages_to_another_once_its_heart_beat_stops(
    broker: BrokerProcess,
) -> None:
    with broker.client(heart_beat="200,0") as silent, broker.client() as other:
        silent.subscribe("/queue/silent", ack="client")
        other.send("SEND", {"destination": "/queue/silent", "message_group": "g"}, b"work")
        assert silent.frame().body == b"work"
        other.subscribe("/queue/silent", ack="client")
        again = other.frame()  # nothing but time makes it come
        assert (again.body, b"redelivered:true" in again.block) == (b"work", True)
        assert b"no heart-beat in time" in silent.until_closed()


def test_a_silent_peer_is_found_even_while_it_takes_nothing(broker: BrokerProcess) -> None:
    with broker.client(heart_beat="200,0") as stalled, broker.client() as other:
        sent = flood(broker, stalled, "/queue/deaf")
        other.subscribe("/queue/deaf")
        assert len([other.frame() for _ in range(sent)]) == sent
        assert b"no heart-beat in time" in stalled.until_closed()


def test_a_peer_that_never_reads_is_cut_off_and_its_messages_go_to_others(
    broker: BrokerProcess,
) -> None:
    with broker.client() as stalled, broker.client() as other:
        sent = flood(broker, stalled, "/queue/stalled")
        other.subscribe("/queue/stalled")
        assert len([other.frame() for _ in range(sent)]) == sent
        assert "peer_does_not_read" in broker.log


def flood(broker: BrokerProcess, stalled: Client, queue: str) -> int:
    """Give a client that does not read more than all buffers on the way hold; return how many."""
    stalled.subscribe(queue, ack="client", credit="1000000,1000000000")
    messages = 40
    with broker.client() as sender:
        for _ in range(messages):
            sender.send("SEND", {"destination": queue}, b"x" * MIB)
        sender.sync()
    return messages


def test_a_peer_that_asks_for_receipts_and_never_reads_costs_bounded_memory(
    broker: BrokerProcess,
) -> None:
    before = broker.rss_bytes()
    receipt = b"SEND\ndestination:/topic/nobody\nreceipt:" + b"r" * 200 + b"\n\n\0"
    with broker.client() as greedy:
        greedy.socket.settimeout(2.0)
        with pytest.raises(OSError):  # it is not read on, or cut off
            while True:
                greedy.socket.sendall(receipt * 1000)
        assert broker.rss_bytes() - before < 4 * MIB


def test_a_peer_that_stops_writing_still_hears_its_answers(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.send("SEND", {"destination": "/queue/half", "receipt": "r"}, b"x")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.frame().command == "RECEIPT"
        with pytest.raises(EOFError):
            client.frame()


def test_a_slow_reader_hears_everything_up_to_the_receipt_of_its_disconnect(
    broker: BrokerProcess,
) -> None:
    with broker.client() as client, broker.client() as sender:
        for _ in range(8):
            sender.send("SEND", {"destination": "/queue/backlog"}, b"x" * MIB)
        sender.sync()
        client.subscribe("/queue/backlog")
        client.send("DISCONNECT", {"receipt": "bye"})
        sender.sync()  # the broker has turned to somebody else meanwhile
        commands = [client.frame().command]
        while commands[-1] == "MESSAGE":
            commands.append(client.frame().command)
        assert commands[-1] == "RECEIPT"
