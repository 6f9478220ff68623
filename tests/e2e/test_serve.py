"""`covey serve` from the outside: what it says, how it starts, how it ends.

`covey serve --event-log`: what clients did is in the log, even if the broker was killed.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from covey.core.events.event import EventKind
from tests.e2e.support import (
    HOST,
    STOMP_CONNECTOR,
    TIMEOUT_S,
    BrokerProcess,
    Client,
    running_broker,
)

# The promises are 5 s and 2 s; a machine that runs other tests beside this one needs more.
STOP_S = 8.0
START_S = 15.0


def test_the_welcome_says_where_it_listens_who_may_log_in_and_what_to_try(
    broker: BrokerProcess,
) -> None:
    assert f"stomp  {HOST}:{broker.port}\n" in broker.welcome
    assert "admin / password" in broker.welcome
    assert f"nc -q 1 {HOST} {broker.port}" in broker.welcome


def test_the_sample_command_of_the_welcome_works(broker: BrokerProcess) -> None:
    frames, _, netcat = broker.welcome.splitlines()[-1].rpartition(" | ")
    assert netcat == f"nc -q 1 {HOST} {broker.port}"
    said = subprocess.run(["sh", "-c", frames], capture_output=True, timeout=30, check=True)
    with Client(broker.port) as client:
        client.socket.sendall(said.stdout)
        client.socket.shutdown(socket.SHUT_WR)  # as nc does at the end of its input
        assert [client.frame().command, client.frame().body] == ["CONNECTED", b"hello"]


def test_the_welcome_of_a_broker_with_other_users_names_no_login_that_fails(tmp_path: Path) -> None:
    config = '[[user]]\nname = "ann"\npassword = "hidden-word"\nroles = ["admin"]\n'
    with running_broker(tmp_path, config=config) as broker:
        assert "login:USER\\npasscode:PASSWORD" in broker.welcome
        assert "admin" not in broker.welcome and "hidden-word" not in broker.welcome


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_broker_with_exit_code_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running_broker(tmp_path) as broker:
        assert broker.signal(number) == 0


def test_a_signal_tells_the_clients_why_they_are_closed(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client:
        broker.process.send_signal(signal.SIGTERM)
        heard = client.until_closed()
        assert heard.startswith(b"ERROR\nmessage:the broker is shutting down\n")
        client.socket.close()
        assert broker.process.wait(STOP_S) == 0


def test_a_signal_under_load_ends_it_in_time_with_exit_code_0(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        stalled = broker.client()
        stalled.subscribe("/queue/load")
        flooders = [threading.Thread(target=_flood, args=(broker.port,)) for _ in range(2)]
        for flooder in flooders:
            flooder.start()
        stalled.socket.recv(1)  # the load has arrived
        started = time.monotonic()
        assert broker.signal(signal.SIGTERM) == 0
        assert time.monotonic() - started < STOP_S
        for flooder in flooders:
            flooder.join()
        stalled.socket.close()
        assert "Traceback" not in broker.log


def _flood(port: int) -> None:
    """Send until the broker goes."""
    frames = b"SEND\ndestination:/queue/load\n\n" + b"x" * 1000 + b"\0"
    try:
        with Client(port) as client:
            client.log_in()
            while True:
                client.socket.sendall(frames * 50)
    except OSError:
        pass


def test_it_accepts_nobody_while_it_stops(tmp_path: Path) -> None:
    config = STOMP_CONNECTOR + "[connector.stomp]\ndie_delay_ms = 3000\n"
    with running_broker(tmp_path, config=config) as broker, broker.client() as client:
        broker.process.send_signal(signal.SIGTERM)
        assert client.frame().command == "ERROR"
        told = time.monotonic()
        # Reset: it came in between the last accept and the close.
        with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
            while time.monotonic() < told + 2.0:  # a few turns of its loop; it goes after 3 s
                Client(broker.port).socket.close()


def test_a_taken_port_is_one_clear_line_and_exit_code_1(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    taken = f"{HOST}:{broker.port}"
    with running_broker(tmp_path, arguments=("--stomp", taken), fails=True) as second:
        assert second.process.wait(TIMEOUT_S) == 1
        lines = [line for line in second.log.splitlines() if not line.startswith("{")]
        cause = "(stomp): Address already in use; does another broker run here?"
        assert lines == [f"covey: cannot listen on {taken} {cause}"]


def test_a_bad_config_is_named_by_file_and_line_with_exit_code_2(tmp_path: Path) -> None:
    with running_broker(tmp_path, config="[broker]\nconections_max = 1\n", fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 2
        assert f"{tmp_path}/covey.toml:2: broker.conections_max: unknown key" in broker.log
        assert "Traceback" not in broker.log


def test_a_config_file_that_is_not_there_is_exit_code_2(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.toml")
    with running_broker(tmp_path, arguments=("--config", missing), fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 2
        assert missing in broker.log
        assert "Traceback" not in broker.log


def test_a_second_start_on_the_same_port_and_directory_serves_at_once(tmp_path: Path) -> None:
    with running_broker(tmp_path) as first:
        address = f"{HOST}:{first.port}"
        with first.client():  # a connection of the old one must not keep the port
            assert first.signal(signal.SIGTERM) == 0
    started = time.monotonic()
    with running_broker(tmp_path, arguments=("--stomp", address)) as second:
        assert time.monotonic() - started < START_S
        second.assert_serves()


def finished_in(directory: Path) -> list[Path]:
    """Wait for a finished file: the broker's child ends a moment after a killed broker."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = sorted(directory.rglob("events-*.parquet"))
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no finished file in {list(directory.iterdir())}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_message_s_way_is_in_the_log_however_the_broker_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    arguments = ("--event-log", str(tmp_path / "events"))
    config = "[event_log]\nrotate_age_s = 1\nqueues = ['work.*']\n"
    with running_broker(tmp_path, config=config, arguments=arguments) as broker:
        with broker.client() as client:
            client.subscribe("/queue/work.a")
            for destination in ("/queue/work.a", "/queue/other"):
                client.send("SEND", {"destination": destination, "message_group": "g"}, b"x")
            assert client.frame().body == b"x"
            client.sync()
        finished_in(tmp_path / "events")  # rotated by age, while the broker runs
        broker.signal(number)
    rows = [
        row for file in finished_in(tmp_path / "events") for row in pq.read_table(file).to_pylist()
    ]
    assert {row["queue"] for row in rows} == {"", "work.a"}  # the host starts
    assert [row["eid"] for row in rows] == list(range(1, len(rows) + 1))
    kinds = [EventKind(row["kind"]) for row in rows if row["seq"] == 1]
    assert kinds == [EventKind.ENQUEUE, EventKind.DELIVER, EventKind.ACK]
    assert not list((tmp_path / "events").glob("_*")) or number == signal.SIGKILL


def test_what_a_start_tells_is_of_today(tmp_path: Path) -> None:
    """Or `compact --keep-days` would remove it, as it would be of 1970."""
    arguments = ("--event-log", str(tmp_path / "events"), "--data", str(tmp_path / "data"))
    before = datetime.now(UTC)
    for _ in range(2):
        with running_broker(tmp_path, arguments=arguments) as broker, broker.client() as client:
            client.send("SEND", {"destination": "/queue/kept", "persistent": "true"}, b"x")
            client.sync()
    rows = [
        row
        for file in (tmp_path / "events").rglob("events-*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    assert {EventKind.START, EventKind.RECOVER} <= {row["kind"] for row in rows}
    assert all(before - timedelta(seconds=1) < row["ts"] for row in rows)


def test_a_directory_that_cannot_be_made_ends_the_start_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    arguments = ("--event-log", str(tmp_path / "file"))
    with running_broker(tmp_path, arguments=arguments, fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 1
        assert broker.log.splitlines()[-1].startswith("covey: event_log.dir: ")
        assert broker.welcome == ""
