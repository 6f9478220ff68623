"""lru: a bound on idle groups, none on busy ones. lru-strict: a bound on all."""

from __future__ import annotations

import random

from covey.groups.strategies.lru import EVICTIONS_KEPT, LruMap, StrictLruMap
from covey.groups.strategy import FREE


def sized(size: int) -> LruMap:
    strategy = LruMap(size)
    strategy.joined(1, 1)
    strategy.joined(2, 1)
    return strategy


def use(strategy: LruMap, group: str, consumer: int = 1) -> None:
    """Let a group have a message and lose it again."""
    strategy.opened(group)
    if strategy.owner(group) == FREE:
        strategy.took(group, consumer)
    strategy.vanished(group)


def test_the_longest_idle_group_is_evicted_first() -> None:
    strategy = sized(2)
    for group in ("a", "b", "a", "c"):
        use(strategy, group)
    assert (strategy.owner("a"), strategy.owner("b"), strategy.owner("c")) == (1, FREE, 1)
    assert list(strategy.evictions()) == ["b"]
    assert list(strategy.evictions()) == []


def test_asking_for_an_owner_does_not_refresh_it() -> None:
    strategy = sized(2)
    use(strategy, "a")
    use(strategy, "b")
    strategy.owner("a")
    use(strategy, "c")
    assert strategy.owner("a") == FREE


def test_a_busy_group_is_never_evicted_and_the_map_grows_instead() -> None:
    strategy = sized(2)
    for group in ("a", "b", "c", "d"):
        strategy.opened(group)
        strategy.took(group, 1)
    assert [strategy.owner(group) for group in "abcd"] == [1, 1, 1, 1]
    assert strategy.over_size
    assert strategy.tracked() == 4
    assert list(strategy.evictions()) == []


def test_it_shrinks_to_its_size_as_groups_vanish() -> None:
    strategy = sized(2)
    for group in ("a", "b", "c", "d"):
        strategy.opened(group)
        strategy.took(group, 1)
    strategy.vanished("a")
    strategy.vanished("b")
    assert not strategy.over_size
    assert [strategy.owner(group) for group in "abcd"] == [FREE, FREE, 1, 1]
    assert list(strategy.evictions()) == ["a", "b"]
    strategy.vanished("c")
    assert strategy.owner("c") == 1, "at its size it keeps idle groups again"


def test_an_idle_group_makes_room_before_the_map_grows() -> None:
    strategy = sized(2)
    use(strategy, "idle")
    for group in ("a", "b"):
        strategy.opened(group)
        strategy.took(group, 1)
    assert strategy.owner("idle") == FREE
    assert not strategy.over_size


def test_a_group_with_messages_again_is_protected() -> None:
    strategy = sized(2)
    use(strategy, "a")
    use(strategy, "b")
    strategy.opened("a")
    use(strategy, "c")
    assert (strategy.owner("a"), strategy.owner("b")) == (1, FREE)


def test_eviction_lowers_the_load_of_the_owner() -> None:
    strategy = sized(2)
    for group in ("a", "b"):
        use(strategy, group, 1)
    use(strategy, "c", 2)
    assert (strategy.load(1), strategy.load(2)) == (1, 1)


def test_groups_of_a_departed_consumer_take_no_room() -> None:
    strategy = sized(2)
    use(strategy, "a", 1)
    use(strategy, "b", 2)
    strategy.left(1)
    use(strategy, "c", 2)
    assert (strategy.owner("b"), strategy.owner("c")) == (2, 2)
    assert list(strategy.evictions()) == [], "a dead owner's group is gone, not evicted"


def test_busy_groups_of_a_departed_consumer_take_no_room_either() -> None:
    strategy = sized(1)
    strategy.opened("busy")
    strategy.took("busy", 1)
    strategy.left(1)
    use(strategy, "b", 2)
    assert strategy.owner("b") == 2


def test_a_closed_group_is_free_and_takes_no_room() -> None:
    strategy = sized(2)
    use(strategy, "a")
    use(strategy, "b")
    strategy.closed("a")
    use(strategy, "c")
    assert (strategy.owner("a"), strategy.owner("b"), strategy.owner("c")) == (FREE, 1, 1)


def test_a_rebalance_empties_it() -> None:
    strategy = sized(2)
    use(strategy, "a")
    strategy.reset()
    assert (strategy.owner("a"), strategy.tracked(), len(strategy.evictable)) == (FREE, 0, 0)


def test_memory_is_bounded_by_size_and_busy_groups_in_a_random_run() -> None:
    strategy = sized(8)
    rng = random.Random(20)
    busy: dict[str, int] = {}
    for _ in range(5_000):
        group = f"group-{rng.randrange(40)}"
        if group in busy:
            assert strategy.owner(group) == busy.pop(group), "a busy group lost its owner"
            strategy.vanished(group)
        elif len(busy) < 20:
            strategy.opened(group)
            if strategy.owner(group) == FREE:
                strategy.took(group, rng.choice((1, 2)))
            busy[group] = strategy.owner(group)
        assert len(strategy.seats) <= max(8, len(busy))
        assert strategy.over_size == (len(busy) > 8)


def test_evictions_nobody_asks_for_do_not_pile_up() -> None:
    strategy = sized(1)
    for i in range(EVICTIONS_KEPT + 10):
        use(strategy, f"group-{i}")
    assert len(strategy.evictions()) == EVICTIONS_KEPT


def test_its_size_is_shown() -> None:
    assert sized(10).describe() == {"strategy": "lru", "cache_size": 10}


# strict lru: ActiveMQ's cached map, which evicts by delivery whatever is still out.


def sized_strictly(size: int, *groups: str) -> StrictLruMap:
    strategy = StrictLruMap(size)
    strategy.joined(1, 1)
    for group in groups:
        strategy.opened(group)
        strategy.took(group, 1)
    return strategy


def test_the_least_recently_delivered_group_is_evicted_though_it_is_busy() -> None:
    strategy = sized_strictly(2, "a", "b")
    strategy.delivered("a")
    strategy.opened("c")
    assert list(strategy.took("c", 1)) == ["b"], "its lane must be asked again"
    assert (strategy.owner("a"), strategy.owner("b"), strategy.owner("c")) == (1, FREE, 1)
    assert list(strategy.evictions()) == ["b"]


def test_idleness_does_not_count_as_use() -> None:
    strategy = sized_strictly(2, "a", "b")
    strategy.vanished("a")
    assert list(strategy.took("c", 1)) == ["a"]


def test_it_never_grows() -> None:
    strategy = sized_strictly(3, *(f"group-{i}" for i in range(100)))
    assert strategy.tracked() == 3
    assert len(strategy.seats) == 3
    assert not strategy.over_size
    assert strategy.load(1) == 3


def test_a_group_evicted_or_never_taken_is_not_refreshed_into_being() -> None:
    strategy = sized_strictly(1, "a", "b")
    strategy.delivered("a")
    strategy.delivered("never")
    assert (strategy.owner("a"), strategy.owner("b"), strategy.tracked()) == (FREE, 1, 1)


def test_a_departed_consumer_leaves_room() -> None:
    strategy = sized_strictly(2, "a", "b")
    strategy.joined(2, 1)
    strategy.left(1)
    assert list(strategy.took("c", 2)) == []
    assert list(strategy.took("d", 2)) == []


def test_it_is_shown_as_the_strict_one() -> None:
    assert sized_strictly(2).describe() == {
        "strategy": "lru",
        "cache_size": 2,
        "lru_strict_activemq": 1,
    }
