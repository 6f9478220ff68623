"""An alarm: no message is taken, over any protocol; whoever asks is told why; then all go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from covey.client.management import Management
from covey.client.place import parse_place
from tests.cli.support import Terminal
from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, running_broker

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
