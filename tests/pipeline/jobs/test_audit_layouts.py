"""audit finds the same whatever files the events lie in, and in a table: every rule, over runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.core.events.event import EventKind
from covey.pipeline.event_log.schema import finished_name
from covey.pipeline.jobs.audit import JOB
from covey.pipeline.jobs.audit_rules import PROMISES
from tests.pipeline.support import log_in, run_job, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# By group: what happens before a restart and after it, and what is found.
STORIES = {
    "fine": ("in 1 kept, out 1 to 1", "back 1 kept, out 1 to 1, ack 1 by 1", ""),
    "two": ("in 2, in 3, out 2 to 1, out 3 to 2, ack 2 by 1, ack 3 by 2", "", "two-holders 3"),
    "turned": (
        "in 4 kept, in 5 kept",
        "back 4 kept, back 5 kept, out 5 to 1, out 4 to 1",
        "order 4",
    ),
    "gone": ("in 6 kept, in 7 kept", "back 7 kept, out 7 to 1", "lost 6"),
    "again": ("in 8 kept, out 8 to 1, ack 8 by 1", "back 8 kept", "duplicate 8"),
    "undead": ("in 9, out 9 to 1, release 9 by 1, ack 9 by 1", "", "zombie 9"),
    "made up": ("in 10 kept", "back 10 kept, out 50 to 1", "phantom 50"),
    "foreign": ("in 11 kept, out 11 to 1", "back 11 kept, out 11 to 2", "stranger 11"),
}
EXPECTED = sorted([found for _, _, found in STORIES.values() if found] + ["moved 0"])
QUEUE = "q"


def write(directory: Path) -> pa.Table:
    """Write two runs with one store that break every promise; return all events."""
    position = 0
    for run, joiners in (("r1", (1, 2)), ("r2", (1,))):
        log = log_in(directory, run)
        log.clock.now += 100.0 * (run == "r2")
        log.start("r1" if run == "r2" else "", position)
        if run == "r2":
            tell(log, QUEUE, "", "back 0 kept")
        log.record(EventKind.POLICY, QUEUE, "simple", 0, 0)
        for joiner in joiners:
            tell(log, QUEUE, "", f"join {joiner}")
        for group, stories in STORIES.items():
            if story := stories[run == "r2"]:
                tell(log, QUEUE, group, story)
        if run == "r1":
            for owner in (1, 2):  # the first has neither left nor given it up
                log.record(EventKind.ASSIGN, QUEUE, "bounced", owner, 0)
        log.close()
        files = sorted(directory.rglob("*.parquet"))
        events = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        position = events.num_rows  # the store has heard of all of them
    return events


def as_written(directory: Path, events: pa.Table) -> None:
    pass


def in_one_file(directory: Path, events: pa.Table) -> None:
    pq.write_table(events, directory / "all.parquet")


def in_many_files(directory: Path, events: pa.Table) -> None:
    for run in ("r1", "r2"):
        mine = events.filter(pc.equal(events["run"], run))
        for first in range(0, mine.num_rows, 7):
            part = mine.slice(first, 7)
            folder = directory / f"date=2026-01-0{run[1]}/hour={first % 24:02}"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(part, folder / finished_name(run, part["eid"][0].as_py()))


def shuffled(directory: Path, events: pa.Table) -> None:
    order = list(range(events.num_rows))
    Random(3).shuffle(order)
    for number in range(4):
        pq.write_table(events.take(order[number::4]), directory / f"part-{number}.parquet")


LAYOUTS: dict[str, Callable[[Path, pa.Table], None]] = {
    "as written": as_written,
    "one file": in_one_file,
    "many files": in_many_files,
    "shuffled": shuffled,
}


def found_in(out: Path) -> list[str]:
    rows = pq.read_table(out / "violations").to_pylist()
    return sorted(f"{row['violation']} {row['seq']}" for row in rows)


def test_every_rule_has_a_story() -> None:
    assert {found.split()[0] for found in EXPECTED} == set(PROMISES)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_violation_is_found_in_whatever_files_it_lies(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    log = tmp_path / "log"
    events = write(log)
    if LAYOUTS[layout] is not as_written:
        for file in log.rglob("*.parquet"):
            file.unlink()
    LAYOUTS[layout](log, events)
    run_job(spark, JOB, input=str(log), out=tmp_path / "out")
    assert found_in(tmp_path / "out") == EXPECTED


def test_a_table_is_audited_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "log")
    frame = spark.read.parquet(str(tmp_path / "log")).drop("date", "hour")
    frame.write.option("path", str(tmp_path / "table")).saveAsTable("forged_events")
    try:
        run_job(spark, JOB, input="", table="forged_events", out=tmp_path / "out")
    finally:
        spark.sql("drop table forged_events")
    assert found_in(tmp_path / "out") == EXPECTED
