"""strict lru: ActiveMQ's cached map, which evicts by delivery whatever is still out."""

from __future__ import annotations

from covey.groups.strategies.lru import StrictLruMap
from covey.groups.strategy import FREE


def sized(size: int, *groups: str) -> StrictLruMap:
    strategy = StrictLruMap(size)
    strategy.joined(1, 1)
    for group in groups:
        strategy.opened(group)
        strategy.took(group, 1)
    return strategy


def test_the_least_recently_delivered_group_is_evicted_though_it_is_busy() -> None:
    strategy = sized(2, "a", "b")
    strategy.delivered("a")
    strategy.opened("c")
    assert list(strategy.took("c", 1)) == ["b"], "its lane must be asked again"
    assert (strategy.owner("a"), strategy.owner("b"), strategy.owner("c")) == (1, FREE, 1)
    assert list(strategy.evictions()) == ["b"]


def test_idleness_does_not_count_as_use() -> None:
    strategy = sized(2, "a", "b")
    strategy.vanished("a")
    assert list(strategy.took("c", 1)) == ["a"]


def test_it_never_grows() -> None:
    strategy = sized(3, *(f"group-{i}" for i in range(100)))
    assert strategy.tracked() == 3
    assert len(strategy.owners) == 3
    assert not strategy.over_size
    assert strategy.load(1) == 3


def test_a_group_evicted_or_never_taken_is_not_refreshed_into_being() -> None:
    strategy = sized(1, "a", "b")
    strategy.delivered("a")
    strategy.delivered("never")
    assert (strategy.owner("a"), strategy.owner("b"), strategy.tracked()) == (FREE, 1, 1)


def test_a_departed_consumer_leaves_room() -> None:
    strategy = sized(2, "a", "b")
    strategy.joined(2, 1)
    strategy.left(1)
    assert list(strategy.took("c", 2)) == []
    assert list(strategy.took("d", 2)) == []


def test_it_is_shown_as_the_strict_one() -> None:
    assert sized(2).describe() == {"strategy": "lru", "cache_size": 2, "lru_strict_activemq": 1}
