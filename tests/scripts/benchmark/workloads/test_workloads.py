"""The table of workloads against the generator and the strategies it is made for.

The measure of balance, on the two ends of it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from scripts.benchmark.contender import policy
from scripts.benchmark.workloads.balance import CONSUMERS, heaviest, table
from scripts.benchmark.workloads.dispatch import bench_session
from scripts.benchmark.workloads.workloads import cases, flows, strategies

from covey.bench.flows import Workload
from covey.bench.result import Result
from covey.bench.wire.link import Job
from covey.config.load import load
from covey.config.queues import GroupSettings
from covey.groups import STRATEGIES as KNOWN


@pytest.mark.parametrize("flow", list(flows()), ids=lambda flow: flow.name)
def test_every_row_is_a_job_of_the_generator(flow: Workload) -> None:
    Job(port=1, destination=flow.place, count=flow.count, size=128, **flow.job)


def test_groups_means_every_strategy_there_is() -> None:
    assert set(strategies()) == set(KNOWN)
    assert strategies()[0] == GroupSettings().strategy
    assert len(list(cases(["groups"], (128,)))) == len(KNOWN)


def test_one_strategy_can_be_asked_for_alone() -> None:
    (case,) = cases(["groups shared"], (128,))
    assert case.name == "groups shared, 128 B"


def test_the_policies_are_a_configuration_the_broker_takes(tmp_path: Path) -> None:
    config = tmp_path / "bench.toml"
    config.write_text("".join(policy(strategy) for strategy in strategies()))
    settings = load(config, {}, {}).settings
    assert [queue.groups.strategy for queue in settings.queues] == strategies()


def test_groups_given_out_by_load_are_even() -> None:
    assert heaviest(bench_session(), "simple", 4, Random(1)) == 1.0


def test_a_ring_is_not_quite_even() -> None:
    assert 1.0 < heaviest(bench_session(), "consistent-hash", 4, Random(1)) < 1.5


def test_the_table_has_a_row_for_each_strategy_with_mean_and_worst() -> None:
    results = [Result("balance", "simple", "times", [1.0, 1.5]) for _ in CONSUMERS]
    assert table(results)[2].startswith("| `simple` | 1.25 (1.50) |")
