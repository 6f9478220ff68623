"""HashRing: the structure alone; what it means for groups is in test_consistent_hash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.groups.strategies.consistent_hash import OWNERS_KEPT, HashRing, position
from covey.groups.strategy import FREE

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
