"""Virtual hosts over several worker processes: one set of ports, and each is served by its owner.

A broker has two workers here, and each serves one virtual host. Which of them accepts a connection
is the system's choice, so several connections to each host come to the wrong one, too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from tests.e2e.amqp_bytes import AMQP_HEADER, OPEN, AmqpBytes, opening
from tests.e2e.support import LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess, Client, running_broker

HOST: Final = """
[[virtual_host]]
id = "{id}"
host_names = ["{name}"]
"""
ONE: Final = HOST.format(id="one", name="127.0.0.1")
TWO: Final = HOST.format(id="two", name="two.example")
NAMES: Final = {"one": "127.0.0.1", "two": "two.example"}
CONFIG: Final = """
[broker]
workers = 2
[store]
disk_free_min = 0
disk_free_percent = 0
"""
AMQP, HTTP = 1, 2  # places in the welcome
TRIES: Final = 6  # connections to a host, so that some reach the wrong worker


@contextmanager
def two_workers(folder: Path, more: str = "") -> Iterator[BrokerProcess]:
    with running_broker(folder, config=CONFIG + ONE + TWO + more) as broker:
        yield broker


def children(pid: int) -> list[int]:
    """The worker processes of a parent, in the order of their start."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def ask(broker: BrokerProcess, path: str, method: str = "GET", body: str = "") -> tuple[int, str]:
    """Ask over HTTP, on a connection of its own; return the status and the answer."""
    connection = HTTPConnection("127.0.0.1", broker.port_of(HTTP), timeout=TIMEOUT_S)
    login = b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def keep(client: Client, body: str) -> None:
    """Send a message that survives, and wait until it does."""
    client.send("SEND", {"destination": "/queue/q", "persistent": "true"}, body.encode())
    client.sync()


def test_clients_of_all_protocols_are_served_by_the_owner_of_their_host(tmp_path: Path) -> None:
    with two_workers(tmp_path) as broker:
        for space, name in NAMES.items():
            for number in range(TRIES):
                with broker.client(host=name) as client:
                    keep(client, f"{space} {number}")
                check_amqp(broker, name)
                check_web_socket(broker, name, space)
                status, text = ask(broker, f"/api/v1/queues/q?host={name}")
                assert (status, json.loads(text)["messages"]) == (200, number + 1)
        for space, name in NAMES.items():
            with broker.client(host=name) as client:
                client.subscribe("/queue/q", ack="auto")
                bodies = [client.frame().body for _ in range(TRIES)]
            assert bodies == [f"{space} {number}".encode() for number in range(TRIES)]
        workers = children(broker.process.pid)
        assert len(workers) == 2
        assert {os.getpgid(one) for one in workers} == {os.getpgid(broker.process.pid)}
        assert broker.signal(signal.SIGTERM) == 0
        assert all(is_gone(one) for one in workers)
    assert {"one", "two"} <= {path.name for path in (tmp_path / "data").iterdir()}


def check_amqp(broker: BrokerProcess, name: str) -> None:
    with AmqpBytes(broker.port_of(AMQP)) as client:
        client.log_in()
        client.say(opening(hostname=name, container="passed"))
        assert client.header() == AMQP_HEADER
        client.until(OPEN)
        status, text = ask(broker, f"/api/v1/connections?search=passed&host={name}")
        assert (status, json.loads(text)["total"]) == (200, 1)


def check_web_socket(broker: BrokerProcess, name: str, space: str) -> None:
    with socket.create_connection(("127.0.0.1", broker.port_of(HTTP)), TIMEOUT_S) as stream:
        stream.sendall(
            b"GET /stomp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        )
        read_until(stream, b"\r\n\r\n")
        frame = (
            f"CONNECT\naccept-version:1.2\nhost:{name}\nlogin:{LOGIN}\npasscode:{PASSCODE}\n\n\0"
        )
        stream.sendall(bytes([0x81, 0x80 | len(frame)]) + bytes(4) + frame.encode())
        assert f"host-id:{space}".encode() in read_until(stream, b"\0")


def read_until(stream: socket.socket, end: bytes) -> bytes:
    said = b""
    while end not in said:
        piece = stream.recv(4096)
        assert piece, said
        said += piece
    return said


def test_any_worker_lists_all_virtual_hosts_and_who_serves_each(tmp_path: Path) -> None:
    with two_workers(tmp_path) as broker:
        for _ in range(TRIES):
            status, text = ask(broker, "/api/v1/hosts")
            assert status == 200, text
            rows = json.loads(text)["items"]
            assert {row["id"]: row["served_by"] for row in rows} == {"one": "0", "two": "1"}
            assert [row["queues"] for row in rows] == [0, 0]  # each has answered for itself


def test_http_shows_all_hosts_whichever_worker_answers(tmp_path: Path) -> None:
    with two_workers(tmp_path) as broker:
        for name in NAMES.values():
            with broker.client(host=name) as client:
                keep(client, name)
        user = json.dumps({"password": "secret", "roles": ["admin"]})
        assert ask(broker, "/api/v1/users/ann?host=two.example", "PUT", user)[0] == 200
        for _ in range(TRIES):
            _, totals = ask(broker, "/metrics")
            lines = totals.splitlines()
            assert {f'covey_worker_up{{worker="{n}"}} 1' for n in (0, 1)} <= set(lines)
            assert {f'covey_messages_ready{{worker="{n}"}} 1' for n in (0, 1)} <= set(lines)
            assert len([line for line in lines if line.startswith("# HELP covey_queues ")]) == 1
            _, queues = ask(broker, "/metrics/queues")
            for space in NAMES:
                assert f'covey_queue_messages_ready{{host="{space}",queue="q"}} 1' in queues
            assert ask(broker, "/readyz") == (200, '{"status":"ok"}')
            with broker.client(login="ann", passcode="secret"):
                pass  # who was set at one worker is known at all of them
        check_browser(broker)
        check_top(broker)
        stopped = children(broker.process.pid)[1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            totals = ask(broker, "/metrics")[1]
            if 'covey_worker_up{worker="1"} 0' not in totals:  # the stopped one was to answer
                totals = ask(broker, "/metrics")[1]
            assert 'covey_worker_up{worker="1"} 0' in totals
            assert 'covey_messages_ready{worker="0"} 1' in totals
        finally:
            os.kill(stopped, signal.SIGCONT)


def check_browser(broker: BrokerProcess) -> None:
    """Sign in once, and be known by every worker."""
    place = f"http://127.0.0.1:{broker.port_of(HTTP)}/api/v1"
    given = json.dumps({"name": LOGIN, "password": PASSCODE}).encode()
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{place}/session", given, headers), timeout=TIMEOUT_S) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert {each["id"]: each["name"] for each in json.loads(answer.read())["hosts"]} == NAMES
    for name in list(NAMES.values()) * 3:
        asked = Request(f"{place}/queues?host={name}", headers={"Cookie": cookie})
        with urlopen(asked, timeout=TIMEOUT_S) as answer:
            assert json.loads(answer.read())["total"] == 1


def check_top(broker: BrokerProcess) -> None:
    """See the queues of all virtual hosts in one view, or those of the one that is named."""
    place = f"{LOGIN}/{PASSCODE}@127.0.0.1:{broker.port_of(AMQP)}"
    shown = [top(place, "--json"), top(f"{place}/two.example", "--json")]
    rows = [[(row["host"], row["name"]) for row in json.loads(each)["queues"]] for each in shown]
    assert sorted(rows[0]) == [("one", "q"), ("two", "q")]
    assert rows[1] == [("two", "q")]
    lines = top(place).splitlines()
    assert [line.split()[3] for line in lines if line.startswith("broker ")] == ["one", "two"]
    assert next(line for line in lines if line.startswith("queue ")).split()[-1] == "host"


def top(place: str, *arguments: str) -> str:
    """Return one look of `covey top`."""
    command = [sys.executable, "-m", "covey", "top", "--count", "1", "-b", place, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout


def test_a_worker_that_is_killed_comes_back_and_the_other_notices_nothing(tmp_path: Path) -> None:
    with two_workers(tmp_path) as broker:
        first, second = children(broker.process.pid)
        with broker.client() as stays, broker.client(host="two.example") as goes:
            for number in range(3):
                keep(stays, str(number))
                keep(goes, str(number))
            os.kill(second, signal.SIGKILL)
            wait_for(lambda: "worker_died" in broker.log, "the parent sees it")
            keep(stays, "3")
            with broker.client(host="two.example") as client:  # waits until it is there
                client.subscribe("/queue/q", ack="client")
                assert [client.frame().body for _ in range(3)] == [b"0", b"1", b"2"]
            keep(stays, "4")
        assert first in children(broker.process.pid)


def test_nothing_is_left_of_a_parent_that_is_killed(tmp_path: Path) -> None:
    with two_workers(tmp_path) as broker:
        workers = children(broker.process.pid)
        with broker.client(host="two.example") as client:
            keep(client, "kept")
            broker.signal(signal.SIGKILL)
        wait_for(lambda: all(is_gone(one) for one in workers), "no worker is left")
    with two_workers(tmp_path) as broker, broker.client(host="two.example") as client:
        client.subscribe("/queue/q", ack="client")
        assert client.frame().body == b"kept"


def test_a_virtual_host_that_comes_by_a_reload_is_dealt(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=CONFIG + ONE) as broker:
        assert len(children(broker.process.pid)) == 1  # never more than there are virtual hosts
        with broker.client() as stays:
            (tmp_path / "covey.toml").write_text(CONFIG + ONE + TWO)
            broker.process.send_signal(signal.SIGHUP)
            wait_for(lambda: len(children(broker.process.pid)) == 2, "a worker is started")
            wait_for(lambda: "two" in os.listdir(tmp_path / "data"), "it has its store")
            for _ in range(TRIES):
                with broker.client(host="two.example") as client:
                    keep(client, "of two")
            keep(stays, "of one")


def test_a_start_that_fails_in_one_worker_fails_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "two").write_text("no directory")
    with running_broker(tmp_path, config=CONFIG + ONE + TWO, fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 1
        assert "covey:" in broker.log
