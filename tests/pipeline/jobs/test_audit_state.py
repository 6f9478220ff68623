"""State: which files a later audit must read, and that neither its work nor the state grows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.core.events.event import EventKind
from covey.pipeline.event_log.histories import Run
from covey.pipeline.event_log.reader import ALWAYS, LogFile, log_files, read_files
from covey.pipeline.jobs.audit import JOB, audited
from covey.pipeline.jobs.audit_state import State, load
from tests.pipeline.support import log_in, run_job, tell

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILES = [
    LogFile("a", "r1", 1, 0),
    LogFile("b", "r1", 11, 0),
    LogFile("c", "r1", 21, 0),
    LogFile("d", "r2", 1, 30),
]


def read_up_to(eid: int, *, is_cut: bool, run: str = "r1") -> State:
    state = State(is_cut=is_cut)
    state.figures.runs.append(Run(run, eid, 1, eid, NOON, NOON))
    return state


def new(state: State) -> list[str]:
    return [file.path for file in state.new_of(FILES)]


def test_files_that_were_read_are_not_read_again() -> None:
    assert new(State()) == ["a", "b", "c", "d"]
    assert new(read_up_to(20, is_cut=False)) == ["c", "d"]
    assert new(read_up_to(30, is_cut=False, run="r2")) == ["a", "b", "c"]


def test_a_file_of_which_until_left_out_a_part_is_read_again() -> None:
    assert new(read_up_to(15, is_cut=True)) == ["b", "c", "d"]
    assert new(read_up_to(20, is_cut=True)) == ["c", "d"]  # the next one follows at once
    assert new(read_up_to(25, is_cut=True)) == ["c", "d"]  # nobody knows how far it reaches
    assert new(read_up_to(25, is_cut=True, run="r2")) == ["a", "b", "c", "d"]


def test_a_file_whose_name_tells_nothing_is_always_looked_into() -> None:
    other = LogFile("copy", "", 0, 0)
    assert read_up_to(40, is_cut=False).new_of([other, *FILES[:3]]) == [other]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_queues_that_came_and_went_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
    log = log_in(tmp_path / "log")
    log.start()
    for day in range(3):
        for queue in ("lasting", f"temp.broker.connection.{day}"):
            log.record(EventKind.POLICY, queue, "simple", 0, 0)
            tell(log, queue, "g", f"join 7, in {day + 1}, out {day + 1} to 7, ack {day + 1} by 7")
            tell(log, queue, "", "leave 7, delete 0")
        log.close()
        code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
        assert code == 0, said
        state = json.loads((tmp_path / "state/state.json").read_text())
        assert list(state["given"]) == ["0/lasting"]
        assert list(state["policies"]) == ["lasting"]
        (queues,) = (tmp_path / "state").glob("queues-*")
        assert pq.read_table(queues).num_rows == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_brokers_that_log_into_one_place_give_numbers_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
    logs = {run: log_in(tmp_path / "log", run) for run in ("long", "short")}
    given = {"long": 0, "short": 0}
    queues = [f"q{number}" for number in range(8)]
    for log in logs.values():
        log.start()
        for queue in queues:
            tell(log, queue, "", "join 7")
    for day in range(2):
        for run, count in (("long", 9), ("short", 2)):
            for seq in range(given[run] + 1, given[run] + count + 1):
                for queue in queues:
                    tell(logs[run], queue, f"g{day}", f"in {seq}, out {seq} to 7")
            given[run] += count
            logs[run].close()
        code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
        assert code == 0, (day, said)
    for queue in queues:
        tell(logs["long"], queue, "new", "in 18")
    logs["long"].close()
    code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
    assert (code, "BROKEN: 8 duplicate" in said) == (1, True), said


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_hundredth_day_is_as_much_work_as_the_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.pipeline.jobs.audit.EVENTS_PER_SHARE", 25)
    log = log_in(tmp_path / "log")
    log.start()
    tasks = []
    for day in range(2):
        for seq in range(100 * day + 1, 100 * day + 101):
            tell(log, "q", "g", f"in {seq}, out {seq} to 7, ack {seq} by 7")
        log.close()
        state = load(tmp_path / "state")
        files = state.new_of(log_files(str(tmp_path / "log"), ALWAYS))
        assert len(files) == 1
        events = state.unread(read_files(spark, [file.path for file in files]))
        found = audited(spark, events, state, str(tmp_path / "state")).found
        tasks.append(found.rdd.getNumPartitions())
        run_job(
            spark, JOB, input=str(tmp_path / "log"), out=tmp_path, state=str(tmp_path / "state")
        )
    assert tasks == [13, 12]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_gap_accuses_nobody_on_the_days_after_it(spark: SparkSession, tmp_path: Path) -> None:
    options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
    log = log_in(tmp_path / "log")
    log.start()
    days = (
        "join 7, in 1 kept, in 2, in 3, out 2 to 7",
        "in 4, out 1 to 7, join 8",  # it will be missing
        "in 5, out 5 to 7, ack 5 by 7, in 6",
        "out 1 to 7, ack 2 by 7, out 4 to 7, ack 4 by 7, out 3 to 7, ack 3 by 7, ack 1 by 7",
        "out 6 to 8, ack 6 by 8",
        "out 3 to 7",
    )
    codes = []
    for number, day in enumerate(days):
        for queue in ("plain", "q"):
            tell(log, queue, "" if queue == "plain" else "g", day)
        log.close()
        if number == 1:
            max((tmp_path / "log").rglob("*.parquet"), key=lambda file: file.name).unlink()
            continue
        code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
        codes.append((code, said))
    assert [code for code, _ in codes] == [0, 1, 0, 0, 1], codes


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_consumers_of_brokers_that_were_killed_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    tmp_path = tmp_path / "logs [old] {50%} *?"  # to Spark a pattern, to the user a name
    options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
    kept = []
    for day in range(4):
        log = log_in(tmp_path / "log", f"r{day}")
        log.clock.now += 30.0 * day
        log.start(f"r{day - 1}" if day else "", 1000)
        log.record(EventKind.POLICY, "q", "simple", 0, 0)
        tell(log, "q", "", "join 7, join 8")
        tell(log, "q", "g", f"in {day + 1}, out {day + 1} to 7, ack {day + 1} by 7")
        log.close()
        code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
        assert code == 0, said
        (queues,) = (tmp_path / "state").glob("queues-*")
        kept.append(pq.read_table(queues).num_rows)
    assert kept == [3, 5, 5, 5]  # of the run before, too: some of its events may be late
