"""plan replays the recorded arrivals and recommends what really was better."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.pipeline.jobs.plan import JOB, standings
from covey.pipeline.jobs.plan_rehearsal import RESULT_FIELDS, Policy
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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_plan_is_made_for_each_queue(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 200):
        group = f"g{seq % 7}"
        for queue in ("orders", "bills"):
            tell(log, queue, group, f"in {seq}, out {seq} to 1, ack {seq} by 1")
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
    *planned, last = sentences.splitlines()
    assert [line.split(": ")[1] for line in planned] == ["bills", "orders"]
    assert last == "plan: no policy is needed where no message has a group: plain"
    assert [queue["id"] for queue in tomllib.loads(toml)["queue"]] == ["bills", "orders"]
    assert "[[queue]]" in (tmp_path / "out/plan.html").read_text()
