"""The measure of balance, on the two ends of it."""

from __future__ import annotations

from random import Random

from scripts.benchmark.result import Result
from scripts.benchmark.workloads.balance import CONSUMERS, heaviest, table
from scripts.benchmark.workloads.dispatch import bench_session


def test_groups_given_out_by_load_are_even() -> None:
    assert heaviest(bench_session(), "simple", 4, Random(1)) == 1.0


def test_a_ring_is_not_quite_even() -> None:
    assert 1.0 < heaviest(bench_session(), "consistent-hash", 4, Random(1)) < 1.5


def test_the_table_has_a_row_for_each_strategy_with_mean_and_worst() -> None:
    results = [Result("balance", "simple", "times", [1.0, 1.5]) for _ in CONSUMERS]
    assert table(results)[2].startswith("| `simple` | 1.25 (1.50) |")
