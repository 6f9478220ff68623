"""The artificial event log is one in which every promise is kept, and memory is really measured."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from scripts.benchmark import scale
from scripts.benchmark.process_memory import MIB, watched
from scripts.benchmark.workloads.event_logs import Traffic, write_event_log

from covey.core.events.event import EventKind


def test_a_log_has_the_life_of_each_message_in_order(tmp_path: Path) -> None:
    traffic = Traffic(3000, queues=2, groups=20, hot_share=0.9, messages_per_s=1000, wait_s=0.5)
    count = write_event_log(tmp_path, traffic)
    files = sorted(tmp_path.rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert [row["eid"] for row in rows] == list(range(1, count + 1))
    times = [row["ts"] for row in rows]
    assert times == sorted(times)
    kinds = Counter(row["kind"] for row in rows)
    life = (EventKind.ENQUEUE, EventKind.DELIVER, EventKind.ACK)
    assert [kinds[kind] for kind in life] == [3000] * 3
    assert (kinds[EventKind.START], kinds[EventKind.ASSIGN]) == (1, 20)
    groups = Counter(row["group_id"] for row in rows if row["kind"] == EventKind.ENQUEUE)
    assert 0.88 < groups["group-0"] / 3000 < 0.93
    waiting = {(row["queue"], row["seq"]) for row in rows if row["kind"] == EventKind.ENQUEUE}
    assert len(waiting) == 3000


def test_the_peak_of_each_process_is_seen() -> None:
    code = "import time; big = bytearray(80 << 20); time.sleep(1)"
    process = subprocess.Popen([sys.executable, "-c", code])
    with watched(process.pid) as watch:
        process.wait()
    assert 80 * MIB < watch.peaks["driver"] < 200 * MIB
    assert watch.processor_s < 10


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_job_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = scale.main(["--events", "3e3", "--hot", "0.9", "--folder", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "90% in one group, 2 tasks: " in said
    assert "every promise was kept" in said and "worker " in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_last_day_is_measured_as_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--days", "4", "--events", "3e3", "--hot", "0", "--folder", str(tmp_path)]
    assert scale.main(given) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(",")[1] for line in said[:4]] == [f" day {day}" for day in range(1, 5)]
    assert all("every promise was kept" in line for line in said[:4])
    assert said[4].startswith("the state has ")
