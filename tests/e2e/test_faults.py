"""What goes wrong around a broker: a second one, a full disk, a dying disk, a damaged file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.support import TIMEOUT_S, BrokerProcess, Client, running_broker

KIB = 1024
MIB = 1024 * KIB
BODY = b"x" * 10 * KIB
QUEUE = "/queue/faults"
SMALL_DISK = 24 * MIB
FREE_MIN = 4 * MIB
ROOM = f'[store]\ndisk_free_min = "{FREE_MIN}"\ndisk_free_percent = 0\n'
UNWRITTEN_MAX = 4 * MIB
FLOOD = 256 * MIB
SOCKETS_AND_SLACK = 16 * MIB
NO_ALARM = '[store]\ndisk_free_min = "0"\ndisk_free_percent = 0\n'


def send(client: Client, name: str, body: bytes = BODY) -> None:
    headers = {"destination": QUEUE, "persistent": "true", "receipt": name}
    client.send("SEND", headers, body)


def receipt(client: Client, timeout_s: float = TIMEOUT_S) -> str:
    """Return the next receipt, "" if none comes in time."""
    client.socket.settimeout(timeout_s)
    try:
        frame = client.frame()
    except TimeoutError:
        return ""
    finally:
        client.socket.settimeout(TIMEOUT_S)
    assert frame.command == "RECEIPT", frame.block
    return frame.headers(client.version)["receipt-id"]


def test_a_second_broker_on_the_same_directory_is_refused_with_one_line(tmp_path: Path) -> None:
    with running_broker(tmp_path) as first:
        data = str(tmp_path / "data")
        with running_broker(tmp_path / "second", arguments=("--data", data), fails=True) as second:
            assert second.process.wait(TIMEOUT_S) == 1
            lines = [line for line in second.log.splitlines() if not line.startswith("{")]
            assert lines == [
                f"covey: data directory {data}/default is in use by another broker"
                f" (process {first.process.pid})"
            ]
        first.assert_serves()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB, where the machine allows one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "none", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(client: Client) -> int:
    """Send until no receipt comes any more; return how many came."""
    count = 0
    while count * len(BODY) < 2 * SMALL_DISK:
        send(client, str(count))
        if not receipt(client, 2.0):
            return count
        count += 1
    raise AssertionError("the disk never filled")


def drain(broker: BrokerProcess, count: int) -> None:
    with broker.client() as consumer:
        consumer.subscribe(QUEUE, ack="client-individual")
        for _ in range(count):
            frame = consumer.frame()
            assert frame.command == "MESSAGE" and frame.body == BODY
            consumer.send("ACK", {"id": frame.headers(consumer.version)["ack"]})
        consumer.send("UNSUBSCRIBE", {"id": "s", "receipt": "drained"})
        while consumer.frame().command != "RECEIPT":
            pass


def assert_empty(broker: BrokerProcess) -> None:
    """Send a message through the queue: it is the first to arrive."""
    with broker.client() as client:
        send(client, "last", b"last")
        assert receipt(client) == "last"
        client.subscribe(QUEUE, ack="client-individual")
        assert client.frame().body == b"last"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_full_disk_holds_up_producers_and_ends_by_itself(
    small_disk: Path, tmp_path: Path
) -> None:
    arguments = ("--data", str(small_disk / "data"))
    with running_broker(tmp_path / "broker", config=ROOM, arguments=arguments) as broker:
        producer = broker.client()
        count = fill_up(producer)
        assert count * len(BODY) > SMALL_DISK // 4
        # The next message was not taken and its producer waits: nobody else does.
        with broker.client() as other:
            other.send("SEND", {"destination": "/queue/other", "receipt": "quick"}, b"x")
            assert receipt(other) == "quick"
        until_logged(broker, '"event": "producer_blocked"')
        assert "free, less than 4.0 MiB" in broker.log
        drain(broker, count)
        assert receipt(producer) == str(count)
        send(producer, "more")
        assert receipt(producer) == "more"
        producer.socket.close()
        assert "Traceback" not in broker.log
    with running_broker(tmp_path / "broker", config=ROOM, arguments=arguments) as broker:
        drain(broker, 2)  # what was promised since survived the kill, and nothing else came back
        assert_empty(broker)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_disk_that_others_fill_stops_nothing_but_receipts_until_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    arguments = ("--data", str(small_disk / "data"))
    with running_broker(tmp_path / "broker", config=NO_ALARM, arguments=arguments) as broker:
        with broker.client() as producer:
            send(producer, "first")
            assert receipt(producer) == "first"
            hog = small_disk / "hog"
            with pytest.raises(OSError, match="No space"), hog.open("wb", buffering=0) as file:
                while file.write(b"\0" * 4096):
                    pass
            count = fill_up(producer)
            hog.unlink()
            assert receipt(producer) == str(count)
        assert "Traceback" not in broker.log
    with running_broker(tmp_path / "broker", config=NO_ALARM, arguments=arguments) as broker:
        drain(broker, count + 2)  # after a kill: all that had a receipt, those of before too
        assert_empty(broker)


def until_logged(broker: BrokerProcess, text: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while text not in broker.log:
        assert time.monotonic() < until, broker.log
        time.sleep(0.1)


@pytest.fixture
def fsync_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file whose presence makes every fsync of a broker fail, with `_stalls` wait."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    shim, flag = tmp_path / "fsync_shim.so", tmp_path / "fsync_fails"
    source = Path(__file__).with_name("fsync_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("FSYNC_FAILS", str(flag))
    monkeypatch.setenv("FSYNC_STALLS", f"{flag}_stalls")
    return flag


def test_after_a_failed_fsync_no_receipt_leaves_and_the_broker_ends(
    fsync_shim: Path, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker", config=NO_ALARM) as broker:
        with broker.client() as producer:
            send(producer, "before", b"before")
            assert receipt(producer) == "before"
            fsync_shim.touch()
            with suppress(BrokenPipeError, ConnectionResetError):  # it may end before the last one
                for number in range(10):
                    send(producer, f"after-{number}")
            heard = producer.until_closed()
        assert b"receipt-id" not in heard
        assert broker.process.wait(TIMEOUT_S) == 1
        assert "the store failed, nothing more can be promised" in broker.log
    fsync_shim.unlink()
    with running_broker(tmp_path / "broker", config=NO_ALARM) as broker:
        with broker.client() as consumer:
            consumer.subscribe(QUEUE)
            assert consumer.frame().body == b"before"


def test_a_disk_that_hangs_holds_up_producers_and_costs_bounded_memory(
    fsync_shim: Path, tmp_path: Path
) -> None:
    config = NO_ALARM + f'unwritten_max = "{UNWRITTEN_MAX}"\n'
    frame = b"SEND\ndestination:%s\npersistent:true\n\n%s\0" % (QUEUE.encode(), BODY)
    stalls = fsync_shim.with_name(f"{fsync_shim.name}_stalls")
    with running_broker(tmp_path / "broker", config=config) as broker:
        with broker.client() as producer, broker.client() as reader:
            producer.socket.sendall(frame)
            producer.sync()
            reader.subscribe("/topic/beside")
            before = broker.rss_bytes()
            stalls.touch()
            producer.socket.settimeout(2.0)
            sent = 1
            with pytest.raises(TimeoutError):
                while sent * len(BODY) < FLOOD:
                    producer.socket.sendall(frame)
                    sent += 1
            assert broker.rss_bytes() - before < UNWRITTEN_MAX + SOCKETS_AND_SLACK
            # Others are served; only receipts promise something about the disk.
            reader.send("SEND", {"destination": "/topic/beside"}, b"beside")
            assert reader.frame().body == b"beside"
            until_logged(broker, "the disk is behind")
            stalls.unlink()
            producer.socket.settimeout(TIMEOUT_S)
        drain(broker, sent - 1)
        assert "Traceback" not in broker.log


def test_a_damaged_file_costs_its_own_messages_and_is_reported(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=NO_ALARM) as broker, broker.client() as producer:
        for number in range(200):
            headers = {"destination": f"/queue/q{number % 2}", "persistent": "true"}
            producer.send("SEND", headers, b"%03d" % number + b"x" * 1000)
        producer.sync()
    with running_broker(tmp_path, config=NO_ALARM):
        pass  # a start takes everything out of the journal
    database = tmp_path / "data" / "default" / "covey.db"
    _checkpoint(database)
    with database.open("r+b") as file:
        file.seek(database.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\0" * 4096)
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        until_logged(broker, "store_damaged")
        assert "of queue q" in broker.log and "cannot be read" in broker.log
        broker.assert_serves()
        with broker.client() as consumer:
            consumer.subscribe("/queue/q0", selector="TRUE")
            assert consumer.frame().command == "MESSAGE"


def _checkpoint(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
