"""plan replays the recorded arrivals and recommends what really was better."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.config.settings import Settings
from covey.groups.strategies.lru import LruMap
from covey.pipeline.errors import PipelineError
from covey.pipeline.jobs.plan import JOB, growth_of, reason_of, standings
from covey.pipeline.jobs.plan_rehearsal import (
    RESULT_FIELDS,
    Part,
    Policy,
    Scenario,
    Slice,
    combined,
    deal_queue,
    default_policies,
    parts_of,
    play_dealt,
    slices_of,
)
from tests.pipeline.support import log_in, run_job, tell


def result(policy: str, **figures: float) -> dict[str, Any]:
    return {"policy": policy, **dict.fromkeys(RESULT_FIELDS, 0.0), **figures}


def best(*rows: dict[str, Any]) -> str:
    return standings(list(rows))[0].policy


def test_order_counts_more_than_time() -> None:
    assert best(result("a", order_lost=1, makespan_s=1), result("b", makespan_s=9)) == "b"


def test_what_is_as_good_within_noise_is_decided_by_what_moves() -> None:
    fast = result("a", makespan_s=10.0, moved_up=900)
    calm = result("b", makespan_s=10.2, moved_up=3)
    slow = result("c", makespan_s=12.0)
    assert best(fast, calm, slow) == "b"


def test_a_wait_nobody_feels_decides_nothing() -> None:
    assert (
        best(result("a", wait_p95_s=1e-6, moves=0, moved_down=5), result("b", wait_p95_s=1e-3))
        == "b"
    )


# A manager reads why, and what more consumers would bring.


def test_a_reason_names_figures_that_differ_as_they_are_shown() -> None:
    calm = result("simple", makespan_s=1.0, moved_up=0)
    alike = result("lru:256", makespan_s=1.0, moved_up=0.25)
    slow = result("consistent-hash:10", makespan_s=2.0)
    assert reason_of(standings([slow, alike, calm])) == (
        "Use simple: all is done after 1.00 s instead of 2.00 s with consistent-hash:10, the next"
        " best. As good: lru:256."
    )
    assert "any policy that was tried would do" in reason_of(standings([calm, alike]))
    assert "the only policy" in reason_of(standings([calm]))


def test_it_is_said_whether_more_consumers_help() -> None:
    rows = [
        result("simple", makespan_s=makespan, consumers=consumers, speed=speed)
        for consumers, speed, makespan in ((2, 1, 9.0), (4, 1, 9.0), (2, 3, 8.0), (4, 3, 4.0))
    ]
    assert growth_of("simple", rows[:2]) == "4 consumers would not be done sooner than 2."
    assert growth_of("simple", rows) == (
        "With arrivals 3 times as fast 4 consumers would be done after 4 s, 2 after 8 s."
    )
    assert growth_of("simple", rows[:1]) == ""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_plan_is_made_for_each_queue(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 200):
        group = f"g{seq % 7}"
        for queue in ("orders", "bills"):
            tell(log, queue, group, f"in {seq}, out {seq} to 1, ack {seq} by 1")
    tell(log, "unread", "g", "in 1, in 2")
    for queue in ("plain", "temp.default.3.replies", "other/temp.default.4.replies"):
        tell(log, queue, "", "in 1, out 1 to 1, ack 1 by 1")
    log.close()
    options = {
        "policies": [Policy.parse(text) for text in ("simple", "lru:3", "consistent-hash")],
        "consumers": [1, 3],
        "speed": [1.0, 50.0],
        "credit": 2,
    }
    _, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out", **options)
    rows = pq.read_table(tmp_path / "out/plan").to_pylist()
    assert len(rows) == 2 * 3 * 2 * 2
    assert {row["messages"] for row in rows} == {199}
    assert {row["order_lost"] for row in rows} == {0}
    sentences, toml = said.split("\n\n", 1)
    unread, *planned, last = sentences.splitlines()
    assert unread == "plan: nobody consumed, so there is nothing to go by: unread"
    assert [line.split(": ")[1] for line in planned] == ["bills", "orders"]
    assert last == "plan: no policy is needed where no message has a group: plain"
    assert [queue["id"] for queue in tomllib.loads(toml)["queue"]] == ["bills", "orders"]
    assert "[[queue]]" in (tmp_path / "out/plan.html").read_text()


# All scenarios are played, each once, by tasks of about the same size.


def test_a_task_plays_its_slice_of_the_scenarios() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"queue": ["q"] * 3, "window": [2] * 3, "at": [5.0, 6.0, 7.0], "service": [0.5] * 3}
        | {"group_id": ["a", "b", "a"]}
    )
    scenarios = [Scenario(Policy.parse("simple"), count, 1.0, 1) for count in (1, 2, 3)]
    slices = [Slice("p", 0, 1), Slice("q", 0, 2, 2), Slice("q", 1, 2, 2), Slice("q", 0, 1, 1)]
    dealt = list(deal_queue(iter([batch]), slices))
    assert [row["share"][0].as_py() for row in dealt] == [1, 2]
    (played,) = play_dealt(iter(dealt[1:]), slices, scenarios)
    (row,) = played.to_pylist()
    assert (row["queue"], row["policy"], row["consumers"]) == ("q", "simple", 2)
    assert (row["messages"], row["makespan_s"]) == (3, 2.5)
    assert list(deal_queue(iter([]), slices)) == []


def test_a_long_queue_is_cut_into_more_slices() -> None:
    parts = [Part("long", 0, 0.0, 1.0, 900), Part("short", 0, 0.0, 1.0, 100)]
    slices = slices_of(parts, 16, 8)
    assert slices == [Slice("long", part, 8) for part in range(8)] + [Slice("short", 0, 1)]
    assert len(slices_of([Part("only", 0, 0.0, 1.0, 5)], 3, 8)) == 3


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_long_queue_is_cut_at_times_of_its_own(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.pipeline.jobs.plan_rehearsal.WINDOW_MESSAGES", 10)
    counts = {"long": 20, "longer": 200, "short": 5}
    rows = [(name, float(at)) for name, count in counts.items() for at in range(count)]
    arrivals = spark.createDataFrame(rows, "queue string, at double")
    short, *parts = parts_of(arrivals, counts)
    assert (short.queue, short.messages) == ("short", 5)
    of_long = [(one.begin, one.end) for one in parts if one.queue == "long"]
    assert of_long == [(0.0, 9.0), (9.0, 19.0)]
    windows = [one.window for one in parts if one.queue == "longer"]
    assert windows == [0, 2, 5, 7, 10, 12, 15, 17]  # eight of twenty
    assert parts_of(arrivals, {"short": 5}) == [short]


def test_windows_of_a_queue_become_one_row_with_its_error() -> None:
    rows = [
        {"queue": "q", "policy": "simple", "consumers": 2, "speed": 1.0}
        | dict.fromkeys(RESULT_FIELDS, 1)
        | {"wait_p95_s": wait, "messages": 10}
        for wait in (1.0, 3.0)
    ]
    (row,) = combined(rows)
    assert (row["messages"], row["wait_p95_s"], row["windows"]) == (20, 2.0, 2)
    assert row["wait_error_s"] == pytest.approx(1.0)


# A policy's text, its strategy and its configuration are the same thing.


@pytest.mark.parametrize("text", default_policies().split(","))
def test_a_policy_is_written_as_it_was_read(text: str) -> None:
    assert str(Policy.parse(text)) == text


def test_other_names_and_default_sizes_are_filled_in() -> None:
    assert str(Policy.parse(" cached")) == "lru:1024"
    assert str(Policy.parse("apollo")) == "consistent-hash:10"


def test_the_strategy_is_the_brokers_own_with_its_size() -> None:
    strategy = Policy.parse("lru:7").strategy()
    assert isinstance(strategy, LruMap)
    assert strategy.size == 7


@pytest.mark.parametrize("text", default_policies().split(","))
def test_the_toml_loads_to_the_policy(text: str) -> None:
    policy = Policy.parse(text)
    toml = policy.toml('a."b"\\c').replace("# header", "header")  # as its reader must
    settings = Settings.model_validate(tomllib.loads(toml))
    assert settings.queues[0].id == 'a."b"\\c'
    plain = settings.queues[0].groups.model_copy(update={"header": None})
    assert plain == policy.settings


def test_the_toml_of_a_shared_policy_names_the_header_it_needs_and_no_host() -> None:
    assert Policy.parse("shared").toml("b/work") == (
        '[[queue]]\nid = "work"\n[queue.groups]\nstrategy = "shared"\n'
        '# header = "message_group"  # needed: the one that your producers send\n'
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("lrru", "unknown group strategy"),
        ("simple:3", "simple has no size"),
        ("lru:0", "greater than or equal to 1"),
        ("lru:many", "must be a number"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, cause: str) -> None:
    with pytest.raises(PipelineError, match=rf"--policies: .*{cause}"):
        Policy.parse(text)
