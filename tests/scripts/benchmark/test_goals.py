"""What is asked of a workload, by build."""

from __future__ import annotations

import pytest
from scripts.benchmark.goals import GOALS, verdict
from scripts.benchmark.result import Result
from scripts.benchmark.workloads.workloads import OTHERS, cases, flows


@pytest.mark.parametrize(
    ("case", "contender", "ratio", "text"),
    [
        ("queue, 128 B", "covey", 2.1, "2: reached"),
        ("queue, 128 B", "covey compiled", 3.9, "4: missed"),
        ("queue, 1024 B", "covey", 1.0, ""),
        ("durable, 1024 B", "covey compiled", 3.0, "3: reached"),
        ("durable-beside, 1024 B", "covey", 0.0, "5,000/s: missed"),
        ("latency, 128 B", "covey compiled", 1.5, "1.4: reached"),
    ],
)
def test_a_goal_depends_on_the_build(case: str, contender: str, ratio: float, text: str) -> None:
    assert verdict(Result(case, contender, "deliveries/s", [4_999.0]), ratio) == text


def test_every_goal_is_of_a_case_that_is_measured() -> None:
    names = [case.name for case in cases([flow.name for flow in flows()])]
    for goal in GOALS:
        assert any(name.startswith(goal.case) for name in names) or (
            goal.case.partition(",")[0] in OTHERS
        )
