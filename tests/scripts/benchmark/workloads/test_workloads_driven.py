"""Each workload that is not plain throughput, driven for a moment against the real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.benchmark.contender import Covey
from scripts.benchmark.runner import Runner
from scripts.benchmark.workloads import growth, memory, objects, pace
from scripts.benchmark.workloads.workloads import cases

DRIVEN = (
    "durable-1 durable-5000 amqp-durable-1 amqp-durable-100 amqp-durable large huge connections"
)


def unheard(_line: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    made = Runner([Covey()], repetitions=1, scale=0.01, say=unheard)
    yield made
    made.stop()


@pytest.mark.parametrize("name", DRIVEN.split())
def test_a_workload_runs_and_is_checked(runner: Runner, name: str) -> None:
    (case,) = cases([name])
    (result,) = runner.run(case)
    assert (result.failure, len(result.values)) == ("", 1)
    assert result.median > 0


def test_an_open_loop_tells_the_times_of_its_slowest(tmp_path: Path) -> None:
    picture = tmp_path / "pace.svg"
    results = pace.measure([Covey()], 1, 0.02, unheard, picture)
    assert [result.failure for result in results] == [""] * 3
    for result in results:
        slow, slower, slowest = (result.notes[name] for name in pace.TAIL)
        assert 0 < result.median <= slow <= slower <= slowest
    low, middle, high = (result.notes["per_s"] for result in results)
    assert (round(middle / low), round(high / low)) == (5, 9)
    assert picture.read_text().count("<polyline") == 3


@pytest.mark.parametrize(("protocol", "groups"), objects.KINDS)
def test_a_message_that_is_settled_leaves_no_block_behind(
    monkeypatch: pytest.MonkeyPatch, protocol: str, groups: int
) -> None:
    monkeypatch.setattr(objects, "MESSAGES", 2000)
    waiting, delivered, settled = objects.run(protocol, min(groups, 10))
    assert settled < 1 < waiting <= delivered


def test_objects_are_counted_for_each_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "KINDS", (("stomp", 0),))
    results = objects.measure([Covey()], unheard)
    assert [result.case for result in results] == [
        f"objects, stomp, {state}" for state in objects.STATES
    ]


def test_growth_tells_the_time_and_the_bytes_of_each_decade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "FIRST", 100)
    monkeypatch.setattr(memory, "SETTLED_S", 0.0)
    results = growth.measure([Covey()], 0.01, unheard)
    assert [(result.case, result.failure) for result in results] == [
        ("growth, 100 queues", ""),
        ("growth, 1,000 queues", ""),
        ("growth, 100 groups", ""),
        ("growth, 1,000 groups", ""),
        ("growth, 100 subscriptions", ""),
    ]
    assert all(result.median > 0 for result in results)
