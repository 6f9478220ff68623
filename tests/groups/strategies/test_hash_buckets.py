"""hash-buckets: Java's hash, one owner per bucket, bounded memory."""

from __future__ import annotations

import pytest

from covey.groups.strategies.hash_buckets import HashBuckets, bucket_of, java_hash
from covey.groups.strategy import FREE


def crowded() -> HashBuckets:
    """Build a strategy where `Aa` and `BB`, which share a bucket, are both present."""
    strategy = HashBuckets(1024)
    strategy.joined(1, 1)
    strategy.joined(2, 1)
    strategy.opened("Aa")
    strategy.opened("BB")
    return strategy


@pytest.mark.parametrize(
    ("group", "bucket"),
    [
        ("", 0),
        ("A", 65),
        ("Aa", 64),
        ("BB", 64),
        ("TEST-GROUP", 356),
        ("groupA", 606),
        ("IBM_NASDAQ_20/4/05", 655),
    ],
)
def test_a_group_is_in_the_bucket_activemq_puts_it_in(group: str, bucket: int) -> None:
    assert bucket_of(group, 1024) == bucket


def test_the_hash_counts_utf16_units_in_32_signed_bits() -> None:
    assert java_hash("Aa") == java_hash("BB") == 2112
    assert java_hash("é") == 0xE9
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert java_hash("polygenelubricants") == -(2**31)
    assert bucket_of("polygenelubricants", 1000) == 2**31 % 1000


def test_every_bucket_number_is_in_range() -> None:
    for count in (1, 2, 7, 1024):
        assert {bucket_of(f"group-{i}", count) for i in range(500)} <= set(range(count))


def test_taking_a_group_takes_its_bucket_and_names_the_neighbours() -> None:
    strategy = crowded()
    assert list(strategy.took("Aa", 1)) == ["BB"]
    assert (strategy.owner("Aa"), strategy.owner("BB")) == (1, 1)
    assert strategy.load(1) == 1, "load counts buckets"


def test_a_bucket_keeps_its_owner_when_its_groups_are_gone() -> None:
    strategy = crowded()
    strategy.took("Aa", 1)
    strategy.vanished("Aa")
    strategy.vanished("BB")
    assert strategy.owner("BB") == 1


def test_closing_a_group_frees_nothing_while_a_neighbour_is_present() -> None:
    strategy = crowded()
    strategy.took("Aa", 1)
    strategy.closed("Aa")
    assert (strategy.owner("Aa"), strategy.owner("BB"), strategy.load(1)) == (1, 1, 1)
    strategy.vanished("BB")
    strategy.closed("Aa")
    assert (strategy.owner("Aa"), strategy.load(1)) == (FREE, 0)


def test_closing_an_absent_group_frees_nothing_while_a_neighbour_is_present() -> None:
    strategy = crowded()
    strategy.took("Aa", 1)
    strategy.vanished("Aa")
    strategy.closed("Aa")
    assert strategy.owner("BB") == 1


def test_a_rebalance_frees_buckets_and_remembers_who_is_present() -> None:
    strategy = crowded()
    strategy.took("Aa", 1)
    strategy.reset()
    assert strategy.owner("BB") == FREE
    assert list(strategy.took("BB", 2)) == ["Aa"]


def test_a_departed_owner_frees_its_buckets() -> None:
    strategy = crowded()
    strategy.took("Aa", 1)
    strategy.left(1)
    assert (strategy.owner("BB"), strategy.tracked()) == (FREE, 0)


def test_memory_is_bounded_by_the_number_of_buckets() -> None:
    strategy = HashBuckets(16)
    strategy.joined(1, 1)
    for i in range(2_000):
        group = f"group-{i}"
        strategy.opened(group)
        if strategy.owner(group) == FREE:
            strategy.took(group, 1)
        strategy.vanished(group)
    assert len(strategy.seats) == strategy.tracked() == 16
    assert strategy._present == {}


def test_buckets_given_to_the_least_loaded_are_spread_evenly() -> None:
    strategy = HashBuckets(64)
    consumers = range(1, 9)
    for consumer in consumers:
        strategy.joined(consumer, 1)
    for i in range(1_000):
        group = f"group-{i}"
        if strategy.owner(group) == FREE:
            strategy.took(group, min(consumers, key=strategy.load))
    assert {strategy.load(consumer) for consumer in consumers} == {8}


def test_its_number_of_buckets_is_shown() -> None:
    assert HashBuckets(7).describe() == {"strategy": "hash-buckets", "bucket_count": 7}
