"""The rate of a group (`group_rate`): so many of its messages a second, by a fake clock."""

from __future__ import annotations

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.model.entry import Outcome
from covey.core.queue.policy import park
from tests.core.support import Bench

STRATEGIES = ("shared", "simple", "lru", "hash-buckets", "consistent-hash")


def rated(rate: float, strategy: str = "simple") -> Bench:
    return Bench(strategy, QueueSettings(groups=GroupSettings(group_rate=rate)))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_group_goes_at_its_rate_and_none_waits_for_another(strategy: str) -> None:
    bench = rated(2, strategy)
    reader = bench.join()
    bench.send_all("aaabb")
    bench.send()
    bench.pump()
    assert reader.got == [1, 4, 6]
    assert bench.groups()["a"]["why"] == "its rate of 2 messages a second is used up"
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 0.5
    bench.wait(0.5)
    assert reader.got == [1, 4, 6, 2, 5]
    bench.wait(0.4)
    assert reader.got[5:] == []
    bench.wait(0.1)
    assert reader.got[5:] == [3]


def test_a_group_that_was_empty_meanwhile_is_not_faster_for_it() -> None:
    bench = rated(1)
    reader = bench.join(presettled=True)
    bench.send("a")
    bench.pump()
    bench.wait(0.6)
    bench.send("a")
    bench.pump()
    assert reader.got == [1]
    bench.wait(0.4)
    assert reader.got == [1, 2]


def test_a_tenth_of_a_second_may_go_at_once() -> None:
    bench = rated(100)
    reader = bench.join()
    bench.send_all("a" * 40)
    bench.pump()
    assert len(reader.got) == 10
    bench.wait(0.1)
    assert len(reader.got) == 20


def test_a_redelivery_counts_and_keeps_its_place() -> None:
    bench = rated(1)
    reader = bench.join()
    bench.send_all("aa")
    bench.pump()
    bench.settle(reader, 1, outcome=Outcome.RELEASED)
    bench.pump()
    assert reader.got == [1]
    bench.wait(1)
    assert reader.got == [1, 1]


def test_without_its_rate_a_group_goes_on_at_once_and_a_park_outlasts_it() -> None:
    bench = rated(0.01)
    reader = bench.join()
    bench.send_all("aab")
    bench.pump()
    park(bench.queue, "b", bench.now, parked=True)
    assert reader.got == [1, 3]
    bench.queue.apply(QueueSettings())
    bench.send("b")
    bench.pump()
    assert reader.got == [1, 3, 2]


def test_rates_of_groups_that_are_gone_are_forgotten() -> None:
    bench = rated(10)
    bench.join(10_000, presettled=True)
    for number in range(3000):
        bench.send(f"g{number}")
        bench.pump()
        bench.wait(0.01)
    assert len(bench.queue.state.paces) <= 1025
