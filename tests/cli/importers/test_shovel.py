"""`covey shovel`: from one broker to another, in order, over any end of either."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import covey
from tests.cli.support import Terminal
from tests.e2e.support import HOST, BrokerProcess, running_broker
from tests.interop.amqp import amqp_port

GROUPS = 5
WINDOW = """
[[queue]]
id = "target"
duplicate_window = 100000
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A second broker."""
    with running_broker(tmp_path_factory.mktemp("other"), config=WINDOW) as running:
        yield running


def fill(broker: BrokerProcess, queue: str, count: int) -> None:
    with broker.client() as producer:
        for number in range(count):
            headers = {
                "destination": f"/queue/{queue}",
                "persistent": "true",
                "message_group": f"g{number % GROUPS}",
                "colour": "blue" if number % 2 else "red",
                "message-id": f"{queue}-{number}",
            }
            producer.send("SEND", headers, str(number).encode())
        producer.sync()


def bodies(broker: BrokerProcess, queue: str) -> list[tuple[str, int]]:
    """Browse a queue: the group and number of each message, in order."""
    found: list[tuple[str, int]] = []
    with broker.client() as reader:
        wanted = {"id": "b", "destination": f"/queue/{queue}", "browser": "true"}
        reader.send("SUBSCRIBE", wanted)
        while True:
            frame = reader.frame()
            headers = frame.headers(reader.version)
            if headers.get("browser") == "end":
                return found
            found.append((headers.get("message_group", ""), int(frame.body)))


@pytest.mark.parametrize(
    ("name", "over"), [("stomp", ()), ("read", ("--from-amqp",)), ("write", ("--to-amqp",))]
)
def test_messages_arrive_in_order_with_group_and_headers(
    terminal: Terminal, other: BrokerProcess, name: str, over: tuple[str, ...]
) -> None:
    count = 30 if over else 250
    source, target = f"shovel.{name}", f"arrived.{name}"
    fill(terminal.broker, source, count)
    from_port = amqp_port(terminal.broker) if "--from-amqp" in over else terminal.broker.port
    to_port = amqp_port(other) if "--to-amqp" in over else other.port
    places = ("--from", f"{HOST}:{from_port}", "--to", f"{HOST}:{to_port}")
    said = terminal.run_covey("shovel", source, target, *places, *over, "--wait", "0.3", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out) == {"moved": count}
    assert bodies(other, target) == [(f"g{number % GROUPS}", number) for number in range(count)]
    assert bodies(terminal.broker, source) == []
    read = terminal.run_covey("message", "receive", target, "--json", "-b", f"{HOST}:{other.port}")
    assert json.loads(read.out)["headers"]["colour"] == "red"


def test_a_part_by_selector_and_count(terminal: Terminal, other: BrokerProcess) -> None:
    fill(terminal.broker, "part", 20)
    places = ("--from", terminal.stomp, "--to", f"{HOST}:{other.port}")
    said = terminal.run_covey(
        "shovel", "part", "part", *places, "--selector", "colour = 'blue'", "--count", "4"
    )
    assert said.out == "4 moved\n"
    assert [number for _, number in bodies(other, "part")] == [1, 3, 5, 7]
    assert len(bodies(terminal.broker, "part")) == 16


def test_nobody_is_shovelled_into_himself(terminal: Terminal) -> None:
    assert terminal.run_covey("shovel", "a", "a").code == 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["source", "target", "shovel"])
def test_a_kill_loses_nothing_and_doubles_nothing(tmp_path: Path, victim: str) -> None:
    count = 2000
    ports = {"source": free_port(), "target": free_port()}

    def broker(name: str) -> object:
        arguments = ("--stomp", f"{HOST}:{ports[name]}")
        return running_broker(tmp_path / name, config=WINDOW, arguments=arguments)

    command = [
        *(sys.executable, "-m", "covey", "shovel", "source", "target", "--wait", "2"),
        *("--from", f"{HOST}:{ports['source']}", "--to", f"{HOST}:{ports['target']}"),
        *("--rate", "2000"),
    ]
    environment = dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent))
    running = {name: broker(name) for name in ports}
    brokers = {name: each.__enter__() for name, each in running.items()}  # type: ignore[attr-defined]
    try:
        fill(brokers["source"], "source", count)
        shovel = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        while len(bodies(brokers["target"], "target")) < 300:
            assert shovel.poll() is None
        if victim == "shovel":
            shovel.kill()
            shovel.wait()
            shovel = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        else:
            brokers[victim].signal(signal.SIGKILL)
            running[victim].__exit__(None, None, None)  # type: ignore[attr-defined]
            running[victim] = broker(victim)
            brokers[victim] = running[victim].__enter__()  # type: ignore[attr-defined]
        _, complaints = shovel.communicate(timeout=60)
        assert shovel.returncode == 0, complaints
        arrived = bodies(brokers["target"], "target")
        assert sorted(number for _, number in arrived) == list(range(count))
        for group in range(GROUPS):  # a broker that has just started may begin with any of them
            numbers = [number for name, number in arrived if name == f"g{group}"]
            assert numbers == list(range(group, count, GROUPS))
        assert bodies(brokers["source"], "source") == []
    finally:
        for each in running.values():
            each.__exit__(None, None, None)  # type: ignore[attr-defined]
