"""consistent-hash: the ring of the Apollo STOMP manual, and how even it is."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.groups.strategies.consistent_hash import (
    COMING_MAX,
    OWNERS_KEPT,
    POINTS_APOLLO,
    POINTS_MAX,
    ConsistentHash,
    HashRing,
    position,
)
from covey.groups.strategy import FREE

GROUPS = [f"group-{i}" for i in range(300)]
weights = st.lists(st.integers(1, 3), min_size=1, max_size=6)


def joined_by(weights: list[int], points: int = 10) -> ConsistentHash:
    strategy = ConsistentHash(points)
    for consumer, weight in enumerate(weights, start=1):
        assert strategy.joined(consumer, weight)
    return strategy


def owners(strategy: ConsistentHash) -> dict[str, int]:
    return {group: strategy.owner(group) for group in GROUPS}


@given(weights, st.integers(1, 3))
def test_after_a_join_only_groups_that_go_to_the_newcomer_move(
    weights: list[int], weight: int
) -> None:
    strategy = joined_by(weights)
    before = owners(strategy)
    newcomer = len(weights) + 1
    strategy.joined(newcomer, weight)
    for group, owner in owners(strategy).items():
        assert owner in (before[group], newcomer)


@given(weights, st.data())
def test_after_a_leave_only_groups_of_the_leaver_move(
    weights: list[int], data: st.DataObject
) -> None:
    strategy = joined_by(weights)
    before = owners(strategy)
    leaver = data.draw(st.integers(1, len(weights)))
    strategy.left(leaver)
    for group, owner in owners(strategy).items():
        assert owner == before[group] or before[group] == leaver


@given(weights)
def test_a_join_that_leaves_again_changes_nothing(weights: list[int]) -> None:
    strategy = joined_by(weights)
    before = owners(strategy)
    strategy.joined(99, 2)
    strategy.left(99)
    assert owners(strategy) == before


@given(weights)
def test_skipping_gives_the_owner_the_group_would_have_without_the_skipped(
    weights: list[int],
) -> None:
    strategy = joined_by(weights)
    skipped = {group: strategy.owner(group, frozenset([1])) for group in GROUPS}
    strategy.left(1)
    assert skipped == owners(strategy)


def test_all_lanes_are_asked_again_when_a_consumer_joins_and_only_then() -> None:
    strategy = ConsistentHash(10)
    assert strategy.joined(1, 1)
    assert not strategy.joined(1, 1)
    assert strategy.joined(2, 1)


def test_closing_resetting_and_draining_change_nothing() -> None:
    strategy = joined_by([1, 1, 1])
    before = owners(strategy)
    strategy.took("group-1", 1)
    strategy.closed("group-1")
    strategy.reset()
    assert not strategy.drained("group-1")
    assert owners(strategy) == before
    assert not strategy.acts_on_close


def test_a_consumer_that_returns_gets_exactly_its_groups_back() -> None:
    strategy = joined_by([1, 2, 1])
    before = owners(strategy)
    strategy.joined(9, 1)
    strategy.renamed(2, 9)
    assert owners(strategy) == {group: 9 if c == 2 else c for group, c in before.items()}
    assert strategy.tracked() == 40


def test_all_consumers_skipped_means_nobody() -> None:
    strategy = joined_by([1, 1])
    assert strategy.owner("IBM", frozenset([1, 2])) == FREE


def test_memory_is_points_times_weight_up_to_the_limit_and_nothing_per_group() -> None:
    strategy = joined_by([1, 3], points=100)
    owners(strategy)
    assert strategy.tracked() == 400
    strategy.joined(3, 1_000_000)
    assert strategy.tracked() == 400 + POINTS_MAX


def test_a_weight_below_one_counts_as_one() -> None:
    strategy = ConsistentHash(10)
    strategy.joined(1, 0)
    assert strategy.owner("IBM") == 1


def heaviest_share(consumers: int, points: int) -> float:
    strategy = joined_by([1] * consumers, points)
    counts = Counter(strategy.owner(f"order-{i}") for i in range(4_000))
    return max(counts.values()) * consumers / 4_000


@pytest.mark.parametrize("consumers", [2, 4, 16])
def test_the_heaviest_consumer_carries_little_more_than_its_share(consumers: int) -> None:
    assert heaviest_share(consumers, points=100) < 1.4
    assert heaviest_share(consumers, POINTS_APOLLO) < 2.5


def test_a_weight_of_three_draws_about_three_times_the_groups() -> None:
    strategy = joined_by([1, 3], points=100)
    counts = Counter(strategy.owner(f"order-{i}") for i in range(4_000))
    assert 2.3 < counts[2] / counts[1] < 3.9


def test_points_out_of_range_are_a_programming_error() -> None:
    for points in (0, POINTS_MAX + 1):
        with pytest.raises(AssertionError, match="points"):
            ConsistentHash(points)


def test_its_points_are_shown() -> None:
    assert ConsistentHash().describe() == {"strategy": "consistent-hash", "ring_points": 100}


# HashRing: the structure alone.

KEYS = [f"key-{i}" for i in range(60)]
members = st.dictionaries(st.integers(1, 1000), st.integers(1, 8), min_size=1, max_size=6)


def ring_of(counts: dict[int, int]) -> HashRing:
    ring = HashRing()
    for consumer, count in counts.items():
        ring.add(consumer, count)
    return ring


def nearest(counts: dict[int, int], key: str, skip: frozenset[int]) -> int:
    """Find by definition: the smallest distance clockwise of all points."""
    distances = [
        ((position(f"{consumer}:{i}") - position(key)) % 2**64, consumer)
        for consumer, count in counts.items()
        for i in range(count)
        if consumer not in skip
    ]
    return min(distances)[1] if distances else FREE


@given(members, st.data())
def test_it_finds_the_nearest_point_clockwise(counts: dict[int, int], data: st.DataObject) -> None:
    skip = frozenset(data.draw(st.sets(st.sampled_from(sorted(counts)))))
    ring = ring_of(counts)
    for key in KEYS:
        assert ring.find(key, skip) == nearest(counts, key, skip)


@given(members)
def test_the_order_of_joining_does_not_matter(counts: dict[int, int]) -> None:
    backwards = dict(reversed(counts.items()))
    assert all(ring_of(counts).find(key) == ring_of(backwards).find(key) for key in KEYS)


@given(members, st.integers(1001, 2000))
def test_replacing_moves_no_key_of_others(counts: dict[int, int], new: int) -> None:
    ring = ring_of(counts)
    old = min(counts)
    before = {key: ring.find(key) for key in KEYS}
    ring.replace(old, new)
    assert {key: ring.find(key) for key in KEYS} == {
        key: new if owner == old else owner for key, owner in before.items()
    }
    ring.remove(new)
    assert len(ring) == sum(counts.values()) - counts[old]


def test_positions_are_the_same_in_every_process() -> None:
    assert position("IBM_NASDAQ_20/4/05") == 0xB546AE2D2D2A4B4D
    assert position("1:0") == 0x5249A89AF592057B


def test_an_empty_ring_finds_nobody() -> None:
    assert HashRing().find("IBM") == FREE


def test_it_knows_its_members_and_counts_its_points() -> None:
    ring = ring_of({1: 5, 2: 3})
    assert (1 in ring, 3 in ring, len(ring)) == (True, False, 8)
    ring.remove(1)
    ring.remove(1)
    assert (1 in ring, len(ring)) == (False, 3)


def test_nobody_is_on_the_ring_twice() -> None:
    ring = ring_of({1: 1, 2: 1})
    with pytest.raises(AssertionError, match="already"):
        ring.add(1, 1)
    with pytest.raises(AssertionError, match="already"):
        ring.replace(1, 2)


def test_points_on_one_position_go_to_the_lower_number_and_then_to_the_next() -> None:
    ring = HashRing()
    place = position("IBM")
    ring._points = sorted(place << 48 | consumer for consumer in (9, 4))
    assert ring.find("IBM") == 4
    assert ring.find("IBM", frozenset([4])) == 9


def test_what_was_found_is_not_remembered_over_a_change_of_the_ring() -> None:
    keys = [f"group {number}" for number in range(200)]
    ring = HashRing()
    ring.add(1, 20)
    assert {ring.find(key) for key in keys} == {1}
    ring.add(2, 20)
    assert {ring.find(key) for key in keys} == {1, 2}
    ring.replace(2, 3)
    assert {ring.find(key) for key in keys} == {1, 3}
    ring.remove(1)
    assert {ring.find(key) for key in keys} == {3}


def test_what_is_remembered_is_bounded() -> None:
    ring = HashRing()
    ring.add(1, 1)
    for number in range(OWNERS_KEPT + 10):
        ring.find(str(number))
    assert len(ring.owners) == 10


def test_who_comes_and_goes_between_two_questions_leaves_the_ring_as_if_asked_each_time() -> None:
    for seed in range(30):
        random = Random(seed)
        ring, members = HashRing(), set[int]()
        for _ in range(60):
            number = random.randrange(1, 9)
            if number in members:
                ring.remove(number)
                members.remove(number)
            else:
                ring.add(number, 5)
                members.add(number)
            if random.random() < 0.2:
                fresh = HashRing()
                for member in sorted(members):
                    fresh.add(member, 5)
                keys = [f"g{key}" for key in range(40)]
                assert [ring.find(key) for key in keys] == [fresh.find(key) for key in keys]
                assert len(ring) == 5 * len(members)


def test_consumers_that_come_and_go_leave_no_points_though_nobody_looks() -> None:
    ring = ring_of({1: 10})
    for consumer in range(2, 2_000):
        ring.add(consumer, 10)
        ring.remove(consumer)
    assert len(ring._points) < 500  # `len(ring)` would look
    assert len(ring) == 10


def test_a_ring_that_nobody_looks_at_has_no_points_of_its_first_consumers() -> None:
    ring = ring_of(dict.fromkeys(range(1, COMING_MAX + 1), 100))
    assert (len(ring), len(ring._points)) == (100 * COMING_MAX, 0)
    ring.remove(3)
    found = {ring.find(key) for key in KEYS}
    assert 3 not in found
    assert (len(found) > 1, len(ring._points)) == (True, len(ring))


def test_very_many_that_come_do_not_leave_all_their_work_to_who_looks_first() -> None:
    ring = ring_of(dict.fromkeys(range(1, 1_000), 10))
    assert len(ring._points) >= 10 * (999 - COMING_MAX)


def test_rings_of_many_queues_share_the_numbers_of_their_points() -> None:
    rings = [ring_of({1: 100, 2: 100}) for _ in range(2)]
    for ring in rings:
        ring.find("IBM")
    ours, theirs = [set(map(id, ring._points)) for ring in rings]
    assert ours == theirs
