"""Many connections, stalled consumers, long backlogs: what one costs, the others do not feel.

Figures that are worth knowing (memory per connection, rates) go into the test report as
properties; the bounds asserted here are loose enough for a machine that does other things too.

An alarm: no message is taken, over any protocol; whoever asks is told why; then all go on.
"""

from __future__ import annotations

import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from covey.client.management import Management
from covey.client.place import parse_place
from tests.cli.support import Terminal
from tests.e2e.support import HOST, MIB, TIMEOUT_S, BrokerProcess, Client, running_broker

Record = Callable[[str, object], None]

CONNECTIONS = 1000
IDLE_BYTES_MAX = 60 * 1024  # per idle connection

MESSAGES = 20_000
BATCH = 100
BODY = b"x" * 1000
STALLED_GROWTH_MAX = 16 * MIB  # two outboxes of 640 KiB, the queue's quota, and the allocator's
SLOWDOWN_MAX = 3.0  # the aim is 1.1; a shared machine alone makes 2

BACKLOG = 10_000
SUBSCRIBE_S_MAX = 0.5


def test_a_thousand_idle_connections_cost_little_and_slow_nobody(
    tmp_path: Path, record_property: Record
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running_broker(tmp_path) as broker:
        broker.assert_serves()
        before = broker.rss_bytes()
        started = time.monotonic()
        clients = [broker.client() for _ in range(CONNECTIONS)]
        record_property("logins_per_s", round(CONNECTIONS / (time.monotonic() - started)))
        each = (broker.rss_bytes() - before) / CONNECTIONS
        record_property("rss_bytes_per_idle_connection", round(each))
        broker.assert_serves()
        for client in clients:
            client.socket.close()
        assert each < IDLE_BYTES_MAX
        broker.assert_serves()


def test_running_out_of_files_refuses_newcomers_and_ends_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as old:
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        newcomers = [Client(broker.port) for _ in range(60)]
        old.sync()
        for client in newcomers:
            client.socket.close()
        broker.assert_serves()
        assert "accept_failed" in broker.log
        assert "Traceback" not in broker.log


def test_a_consumer_that_reads_nothing_costs_bounded_memory_and_slows_nobody(
    tmp_path: Path, record_property: Record
) -> None:
    config = '[[queue]]\nid = "**"\nquota = "4M"\n'
    with running_broker(tmp_path, config=config) as broker:
        transfer(broker, "/queue/warm")
        alone_s = transfer(broker, "/queue/alone")
        with stalled_client(broker) as stalled:
            stalled.subscribe("/queue/shared", credit="1000000000,1000000000")
            before = broker.rss_bytes()
            beside_s = transfer(broker, "/queue/shared")
            growth = broker.rss_bytes() - before
        record_property("messages_per_s_alone", round(MESSAGES / alone_s))
        record_property("messages_per_s_beside_a_stalled_consumer", round(MESSAGES / beside_s))
        record_property("rss_growth_bytes", growth)
        assert growth < STALLED_GROWTH_MAX
        assert beside_s < SLOWDOWN_MAX * alone_s


def stalled_client(broker: BrokerProcess) -> Client:
    """A client whose socket takes little: what it does not read stays with the broker."""
    client = Client(broker.port)
    client.socket.close()
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.connect((HOST, broker.port))
    client.log_in()
    return client


def transfer(broker: BrokerProcess, queue: str) -> float:
    """Send many messages through a queue to one reader; return how long it took."""
    with broker.client() as receiver:
        receiver.subscribe(queue)
        producer = threading.Thread(target=produce, args=(broker, queue))
        started = time.monotonic()
        producer.start()
        while receiver.frame().body != b"end":
            pass
        taken_s = time.monotonic() - started
        producer.join()
    return taken_s


def produce(broker: BrokerProcess, queue: str) -> None:
    """Send all messages and a last one that says so; a stalled reader gets some of the first."""
    frame = b"SEND\ndestination:%s\ncontent-length:%d\n\n%s\0" % (queue.encode(), len(BODY), BODY)
    with broker.client() as sender:
        for _ in range(MESSAGES // BATCH):
            sender.socket.sendall(frame * BATCH)
        sender.send("SEND", {"destination": queue}, b"end")
        sender.sync()


def test_ten_thousand_queued_messages_do_not_slow_a_subscribe(
    broker: BrokerProcess, record_property: Record
) -> None:
    frame = b"SEND\ndestination:/queue/long\nmessage_group:%d\n\n%d\0"
    with broker.client() as sender:
        sender.socket.sendall(b"".join(frame % (n % 100, n) for n in range(BACKLOG)))
        sender.send("SEND", {"destination": "/queue/short"}, b"0")
        sender.sync()
    short_s = first_message_s(broker, "/queue/short")
    long_s = first_message_s(broker, "/queue/long")
    record_property("subscribe_s_behind_one", short_s)
    record_property("subscribe_s_behind_ten_thousand", long_s)
    assert long_s < SUBSCRIBE_S_MAX


def first_message_s(broker: BrokerProcess, queue: str) -> float:
    """Subscribe and take one message, without keeping it; the best of five."""
    times = []
    for _ in range(5):
        with broker.client() as client:
            started = time.monotonic()
            client.subscribe(queue, ack="client", credit="1,0")
            assert client.frame().body == b"0"
            times.append(time.monotonic() - started)
    return min(times)


ALARM = '[store]\ndisk_free_min = "100000G"\n'
NO_ALARM = '[store]\ndisk_free_min = "0"\ndisk_free_percent = 0\n'
WHY = "less than 100,000.0 GiB"
PERSISTENT = {"destination": "/queue/q", "persistent": "true", "receipt": "r"}


@pytest.fixture
def alarmed(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path, config=ALARM) as running:
        until(lambda: ready(running).status_code == 503)
        yield running


def until(is_so: object) -> None:
    """Wait until something is true."""
    assert callable(is_so)
    end = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def url(broker: BrokerProcess) -> str:
    return f"http://{HOST}:{broker.port_of(2)}"


def ready(broker: BrokerProcess) -> httpx.Response:
    return httpx.get(f"{url(broker)}/readyz")


def count(broker: BrokerProcess) -> int:
    with Management(parse_place(f"{HOST}:{broker.port_of(1)}", 0)) as management:
        rows = {row["name"]: row for row in management.query("queue")}
    return int(rows["q"]["messages"]) if "q" in rows else 0


@pytest.mark.timeout(120)
def test_nothing_persistent_is_taken_and_everybody_who_asks_is_told_why(
    alarmed: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert WHY in ready(alarmed).json()["status"]
    for _ in range(2):
        with alarmed.client() as client:
            client.send("SEND", PERSISTENT, b"x")
            client.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.frame()
    answer = httpx.post(
        f"{url(alarmed)}/api/v1/queues/q/messages",
        json={"body": "x"},
        auth=("admin", "password"),
        timeout=TIMEOUT_S,
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "full")
    assert WHY in answer.json()["text"]
    terminal = Terminal(alarmed, capsys)
    said = terminal.covey("check")
    assert said.code == 1 and WHY in said.err and "cannot be taken" in said.err
    for wire in ((), ("--amqp",)):
        said = terminal.covey("message", "send", "q", "x", *wire)
        assert (said.code, WHY in said.err) == (1, True), said
    assert count(alarmed) == 0


@pytest.mark.timeout(120)
def test_who_waits_goes_on_when_a_reload_ends_the_alarm(alarmed: BrokerProcess) -> None:
    with alarmed.client() as client:
        client.send("SEND", PERSISTENT, b"x")
        (alarmed.folder / "covey.toml").write_text(NO_ALARM)
        alarmed.process.send_signal(signal.SIGHUP)
        assert client.frame().command == "RECEIPT"
    assert ready(alarmed).json() == {"status": "ok"}
    assert count(alarmed) == 1
    (alarmed.folder / "covey.toml").write_text(ALARM)
    alarmed.process.send_signal(signal.SIGHUP)
    until(lambda: ready(alarmed).status_code == 503)
