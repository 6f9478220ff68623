"""Damage behind the broker's back: what was confirmed is found, or its loss is told everywhere."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import httpx
import pytest

from tests.cli.support import Terminal
from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, running_broker

NO_ALARM = '[store]\ndisk_free_min = "0"\ndisk_free_percent = 0\n'
MESSAGES = 1000


def fill(broker: BrokerProcess) -> None:
    """Send messages, each with a receipt that has come."""
    with broker.client() as client:
        for number in range(MESSAGES):
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": str(number)}
            client.send("SEND", headers, b"x" * 500)
        for _ in range(MESSAGES):
            assert client.frame().command == "RECEIPT"


def ask(broker: BrokerProcess, path: str) -> httpx.Response:
    url = f"http://{HOST}:{broker.port_of(2)}{path}"
    return httpx.get(url, auth=("admin", "password"), timeout=TIMEOUT_S)


def count(broker: BrokerProcess) -> int:
    answer = ask(broker, "/api/v1/queues/q")
    return int(answer.json()["messages"]) if answer.status_code == 200 else 0


def damages(broker: BrokerProcess) -> list[str]:
    lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
    return [str(line["place"]) for line in lines if line["event"] == "store_damaged"]


def journal(folder: Path) -> Path:
    """Return the segment that everything is in."""
    (file,) = [path for path in folder.glob("data/**/journal-*") if path.read_bytes().strip(b"\0")]
    return file


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data.rstrip(b"\0")) * 6 // 10] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    data = file.read_bytes().rstrip(b"\0")
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("harm", [flip, cut])
def test_messages_that_the_journal_has_lost_are_told_in_the_log_in_check_and_in_readyz(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: object
) -> None:
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        fill(broker)
        broker.signal(signal.SIGKILL)
    assert callable(harm)
    harm(journal(tmp_path))
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        lost = MESSAGES - count(broker)
        (told,) = damages(broker)
        numbers = re.search(r"batch(?:es)? .* (\d+) messages came with them", told)
        assert numbers is not None and int(numbers[1]) == lost > 0
        ready = ask(broker, "/readyz")
        assert (ready.status_code, ready.json()["damages"]) == (200, 1)
        assert told.startswith(ready.json()["lost"][0])
        said = Terminal(broker, capsys).covey("check")
        assert said.code == 0 and told in said.out
        broker.assert_serves()
        broker.signal(signal.SIGTERM)
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        assert damages(broker) == [] and ask(broker, "/readyz").json() == {"status": "ok"}
        assert count(broker) == MESSAGES - lost


@pytest.mark.timeout(120)
def test_a_kill_is_told_as_no_damage(tmp_path: Path) -> None:
    for _ in range(3):
        with running_broker(tmp_path, config=NO_ALARM) as broker:
            assert not re.search("damage|corrupt", broker.log)
            assert ask(broker, "/readyz").json() == {"status": "ok"}
            fill(broker)
            broker.signal(signal.SIGKILL)
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        assert count(broker) == 3 * MESSAGES
        assert not re.search("damage|corrupt", broker.log)


def test_a_database_that_is_gone_refuses_the_start_with_one_line_that_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        fill(broker)
        broker.signal(signal.SIGKILL)
    (tmp_path / "data" / "default" / "covey.db").unlink()
    with running_broker(tmp_path, config=NO_ALARM, fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 1
        (line,) = [line for line in broker.log.splitlines() if not line.startswith("{")]
        assert "covey.db is gone" in line and ": rm " in line


def test_a_journal_that_is_gone_refuses_the_start_with_one_line_that_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        fill(broker)
        broker.signal(signal.SIGKILL)
    for path in tmp_path.glob("data/**/journal-*"):
        path.unlink()
    with running_broker(tmp_path, config=NO_ALARM, fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 1
        (line,) = [line for line in broker.log.splitlines() if not line.startswith("{")]
        assert "journal" in line and "gone" in line
        way_on = line.rpartition(": rm ")[2].strip()
    Path(way_on).unlink()
    with running_broker(tmp_path, config=NO_ALARM) as broker:
        broker.assert_serves()
