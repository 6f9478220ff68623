"""Strategies by name: every name a user may know one by gives the right one."""

from __future__ import annotations

import pytest

import covey.groups as groups
from covey.groups import ALIASES, STRATEGIES, UnknownStrategyError, canonical, make
from covey.groups.lru import StrictLruMap


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_is_made_by_its_name(name: str) -> None:
    strategy = make(name)
    assert type(strategy) is STRATEGIES[name]
    assert strategy.name == name
    assert strategy.describe()["strategy"] == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("bucket", "hash-buckets"),
        ("messageGroupHashBucket", "hash-buckets"),
        ("messageGroupHashBucketFactory", "hash-buckets"),
        ("messageGroupHashBucked", "hash-buckets"),
        ("messageGroupHashBuckedFactory", "hash-buckets"),
        ("MessageGroupHashBucket", "hash-buckets"),
        ("cached", "lru"),
        ("CachedMessageGroupMap", "lru"),
        ("simpleMessageGroupMapFactory", "simple"),
        ("sticky", "simple"),
        ("hash-ring", "consistent-hash"),
        ("apollo", "consistent-hash"),
    ],
)
def test_the_names_of_other_brokers_are_known_in_any_case(alias: str, name: str) -> None:
    assert canonical(alias) == name
    assert make(alias).name == name


def test_aliases_lead_to_strategies_and_hide_none() -> None:
    assert set(ALIASES.values()) <= set(STRATEGIES)
    assert not set(ALIASES) & set(STRATEGIES)


def test_each_option_reaches_its_strategy() -> None:
    assert make("bucket", bucket_count=7).describe()["bucket_count"] == 7
    assert make("cached", cache_size=8).describe()["cache_size"] == 8
    assert make("hash-ring", ring_points=9).describe()["ring_points"] == 9
    assert isinstance(make("lru", lru_strict_activemq=True), StrictLruMap)


def test_apollo_means_ten_points() -> None:
    assert make("Apollo").describe()["ring_points"] == 10


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("consistent_hash", "did you mean 'consistent-hash'"),
        ("messageGroupHashBuket", "did you mean 'hash-buckets'"),
        ("zzz", "use shared, simple, lru, hash-buckets, consistent-hash"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, hint: str) -> None:
    with pytest.raises(UnknownStrategyError, match=f"{wrong}.*{hint}"):
        make(wrong)


def test_the_public_list_is_there() -> None:
    assert all(hasattr(groups, name) for name in groups.__all__)
