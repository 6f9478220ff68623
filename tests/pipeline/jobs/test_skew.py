"""skew measures what is uneven, and whom it makes wait."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from covey.core.events.event import EventKind
from covey.pipeline.event_log.messages import messages
from covey.pipeline.event_log.reader import read_log
from covey.pipeline.jobs.skew import (
    GROUPS_SHOWN,
    JOB,
    gini,
    lesson_of,
    load_of,
    spans_of,
    spread_of,
    zipf,
)
from tests.pipeline.support import log_in, run_job, tell


def test_gini_is_0_for_equals_and_near_1_for_a_monopoly() -> None:
    assert gini([5, 5, 5, 5]) == 0
    assert gini([0] * 99 + [1]) == pytest.approx(0.99)
    assert gini([1, 3]) == pytest.approx(0.25)
    assert gini([]) == 0


def test_zipf_finds_the_slope_of_a_power_law() -> None:
    slope, intercept, fit = zipf([1000 * rank**-1.2 for rank in range(1, 200)])
    assert (slope, intercept, fit) == pytest.approx((-1.2, 3.0, 1.0))
    assert zipf([3, 2]) == (0.0, 0.0, 0.0)


def test_the_load_is_told_or_that_nobody_read() -> None:
    assert load_of([1, 3]) == "load of 2 consumers: Gini 0.25"
    assert load_of([7]) == "one consumer"
    assert load_of([]) == "nobody read it"


def test_what_few_groups_cannot_tell_is_not_told() -> None:
    assert spread_of([]) == "groups: none"
    assert spread_of([5]) == "groups: 1"
    assert spread_of([9, 1]) == "groups: Gini 0.40"
    assert spread_of([4, 2, 1]) == "groups: Gini 0.29, Zipf s 1.23 (R2 0.98)"


# A manager reads first what follows from the figures.


def group(name: str, work_s: float, wait_s: float = 0.0, behind_s: float = 0.0) -> Row:
    return Row(group_id=name, work_s=work_s, wait_s=wait_s, behind_s=behind_s)


def loads(*messages: int) -> list[Row]:
    return [Row(run="r", consumer=at, messages=load) for at, load in enumerate(messages, 1)]


def test_a_group_that_is_too_large_is_named_with_what_would_help() -> None:
    queue = Row(messages=100, work_s=100.0)
    assert lesson_of(queue, [group("big", 36.0), group("b", 9.0)], loads(5, 5, 5, 5)) == (
        "big is 36% of the work. A group is done by one consumer at a time, so all of it never"
        " takes less than 36.0 s: more than 3 consumers will not help, splitting this group would."
    )
    assert "more than one consumer will" in lesson_of(queue, [group("all", 100.0)], loads(5))


def test_a_wait_in_groups_is_told_from_one_for_consumers() -> None:
    queue = Row(messages=100, work_s=100.0)
    behind = lesson_of(queue, [group("a", 5.0, 10.0, 9.0)], loads(5, 5))
    assert "90% of the waiting was behind a message of the same group" in behind
    busy = lesson_of(queue, [group("a", 5.0, 10.0, 1.0)], loads(5, 5))
    assert "More than the 2 consumers would shorten the waiting." in busy


def test_an_uneven_load_is_told_with_the_consumer_s_name() -> None:
    said = lesson_of(Row(messages=9, work_s=9.0), [group("a", 1.0)], loads(7, 1, 1))
    assert "consumer 1 had 78% of the messages, where an even part is 33%" in said
    assert "uneven" not in lesson_of(Row(messages=9, work_s=9.0), [group("a", 1.0)], loads(4, 3, 2))


def test_a_queue_that_nobody_reads_is_said_to_wait() -> None:
    assert "all wait" in lesson_of(Row(messages=9, work_s=0.0), [group("a", 1.0)], [])
    assert "any consumer may" in lesson_of(Row(messages=9, work_s=9.0), [], loads(9))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hot_group_its_consumer_and_its_wait_are_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 10):
        tell(log, "q", "hot", f"in {seq}")
    tell(log, "q", "cold", "in 10")
    for seq in range(1, 10):
        tell(log, "q", "hot", f"out {seq} to 1, ack {seq} by 1")
    tell(log, "q", "cold", "out 10 to 2, ack 10 by 2")
    for seq in range(1, 1 + 2 * GROUPS_SHOWN):
        tell(log, "many", f"g{seq}", f"in {seq}")
    tell(log, "temp.default.3.replies", "", "in 1, out 1 to 1, ack 1 by 1")
    log.record(EventKind.DRAIN_START, "q", "cold", 2, 0)
    log.record(EventKind.DRAIN_END, "q", "cold", 0, 0)
    log.close()
    _, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert "skew: q: 10 messages; groups: Gini 0.40" in said
    assert f"skew: many: {2 * GROUPS_SHOWN} messages; groups: Gini 0.00" in said
    assert "temp." not in said
    groups = {row["group_id"]: row for row in pq.read_table(tmp_path / "out/groups").to_pylist()}
    assert (groups["hot"]["messages"], groups["hot"]["share"]) == (9, 0.9)
    # The hot ones waited 10 to 18 ms, 2 of them at the head; the cold one for its consumer.
    assert groups["hot"]["wait_s"] == pytest.approx(0.126)
    assert groups["hot"]["behind_s"] == pytest.approx(0.100)
    assert groups["cold"]["wait_s"] == pytest.approx(0.019)
    assert groups["cold"]["behind_s"] == 0
    assert groups["cold"]["blocked_s"] == pytest.approx(0.001, abs=1e-6)
    consumers = pq.read_table(tmp_path / "out/consumers").to_pylist()
    assert {row["consumer"]: row["messages"] for row in consumers} == {1: 9, 2: 1}
    assert (tmp_path / "out/skew.html").read_text().count("<svg") == 5
    assert {path.name for path in (tmp_path / "out").glob("*.svg")} == {
        f"skew-{number}.svg" for number in range(1, 6)
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_group_s_holders_follow_each_other(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path / "log")  # an event each millisecond
    tell(log, "q", "a", "in 1, in 2, in 3, out 1 to 7, ack 1 by 7, out 2 to 7, ack 2 by 7")
    tell(log, "q", "a", "out 3 to 8, ack 3 by 8")
    tell(log, "q", "b", "in 4, out 4 to 7, ack 4 by 7")
    log.close()
    spans = spans_of(
        messages(read_log(spark, Namespace(input=str(tmp_path / "log")))), "q", ["b", "a"]
    )
    assert [(span.row, span.holder) for span in spans] == [("b", 7), ("a", 7), ("a", 8)]
    times = [round(1000 * time) for span in spans for time in (span.start, span.end)]
    assert times == [7, 8, 0, 3, 4, 5]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_waits_is_no_part_of_the_wait_and_a_restart_counts_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log", "r1")
    log.start()
    for seq in range(1, 11):
        tell(log, "q", "g", f"in {seq} kept")
    log.clock.now += 1.0
    tell(log, "q", "g", "out 1 to 1, ack 1 by 1")
    log.close()
    log = log_in(tmp_path / "log", "r2")
    log.clock.now += 5.0
    log.start("r1", 13)
    tell(log, "q", "", "back 0 kept")
    for seq in range(2, 11):
        tell(log, "q", "g", f"back {seq} kept")
    tell(log, "q", "g", "out 2 to 1, ack 2 by 1")
    log.close()
    _, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert "skew: q: 10 messages" in said
    (row,) = pq.read_table(tmp_path / "out/groups").to_pylist()
    assert (row["messages"], row["waiting"]) == (10, 8)
    assert row["wait_s"] == pytest.approx(6.0, abs=0.1)  # 1 s, and 5 s over the restart
    assert 0 < row["behind_s"] <= row["wait_s"]
    consumers = pq.read_table(tmp_path / "out/consumers").to_pylist()
    assert sorted((one["run"], one["consumer"]) for one in consumers) == [("r1", 1), ("r2", 1)]
    page = (tmp_path / "out/skew.html").read_text()
    assert "g is 100% of the work" in page
    assert "1 of run 2" in page
