"""`covey serve --event-log`: what clients did is in the log, even if the broker was killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from covey.core.events.event import EventKind
from tests.e2e.support import TIMEOUT_S, running_broker


def finished_in(directory: Path) -> list[Path]:
    """Wait for a finished file: the broker's child ends a moment after a killed broker."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = sorted(directory.glob("events-*.parquet"))
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
    assert {row["queue"] for row in rows} == {"work.a"}
    assert [row["eid"] for row in rows] == list(range(1, len(rows) + 1))
    kinds = [EventKind(row["kind"]) for row in rows if row["seq"] == 1]
    assert kinds == [EventKind.ENQUEUE, EventKind.DELIVER, EventKind.ACK]
    assert not list((tmp_path / "events").glob("_*")) or number == signal.SIGKILL


def test_a_directory_that_cannot_be_made_ends_the_start_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    arguments = ("--event-log", str(tmp_path / "file"))
    with running_broker(tmp_path, arguments=arguments, fails=True) as broker:
        assert broker.process.wait(TIMEOUT_S) == 1
        assert broker.log.splitlines()[-1].startswith("covey: event_log.dir: ")
        assert broker.welcome == ""
