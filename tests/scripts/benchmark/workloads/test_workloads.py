"""The table of workloads against the generator and the strategies it is made for."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.benchmark.contender import policy
from scripts.benchmark.wire.link import Job
from scripts.benchmark.workloads.workloads import Workload, cases, flows, strategies

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
