"""The contract of GroupStrategy, one suite over all strategies.

A random driver behaves as a queue does: it offers only free groups that are present, only to
consumers that are there, and never uses a consumer's number twice. After each step the common
rules are checked by brute force over all names.
"""

from __future__ import annotations

import random

import pytest

from covey.groups import make
from covey.groups.strategies.consistent_hash import ConsistentHash
from covey.groups.strategies.hash_buckets import HashBuckets
from covey.groups.strategies.lru import StrictLruMap
from covey.groups.strategy import FREE, GroupStrategy

ALL = ["shared", "simple", "lru", "strict lru", "hash-buckets", "consistent-hash"]
GROUPS = ["Aa", "BB", "IBM", "MSFT", "SUNW", "a/b", "ü", "x", "y", "z"]
STEPS = 250


def small(name: str) -> GroupStrategy:
    """Build a strategy so small that evictions and collisions happen all the time."""
    if name == "strict lru":
        return make("lru", cache_size=3, lru_strict_activemq=True)
    return make(name, bucket_count=4, cache_size=3, ring_points=5)


class Driver:
    """A queue reduced to what a strategy sees of it."""

    def __init__(self, strategy: GroupStrategy, seed: int) -> None:
        self.strategy = strategy
        self.random = random.Random(seed)
        self.alive: list[int] = []
        self.present: set[str] = set()
        self.numbers = 0

    def owners(self) -> dict[str, int]:
        return {group: self.strategy.owner(group) for group in GROUPS}

    def step(self) -> str:
        verb = self.random.choice(
            ["join", "leave", "rename", "come", "come", "take", "take", "take", "go", "drain"]
            + ["deliver", "close", "age"]
            + ["reset"] * (self.random.random() < 0.2)
        )
        getattr(self, verb)()
        return verb

    def join(self) -> None:
        self.numbers += 1
        self.strategy.joined(self.numbers, self.random.choice([1, 1, 3]))
        self.alive.append(self.numbers)

    def leave(self) -> None:
        if self.alive:
            gone = self.alive.pop(self.random.randrange(len(self.alive)))
            self.strategy.left(gone)
            self.strategy.left(gone)

    def rename(self) -> None:
        if not self.alive:
            return
        before = self.owners()
        old = self.alive.pop(self.random.randrange(len(self.alive)))
        load = self.strategy.load(old)
        self.numbers += 1
        if self.random.random() < 0.5:
            self.strategy.joined(self.numbers, 1)
        self.strategy.renamed(old, self.numbers)
        self.alive.append(self.numbers)
        after = {group: self.numbers if c == old else c for group, c in before.items()}
        assert self.owners() == after
        assert (self.strategy.load(old), self.strategy.load(self.numbers)) == (0, load)

    def come(self) -> None:
        group = self.random.choice(GROUPS)
        if group not in self.present:
            self.present.add(group)
            self.strategy.opened(group)

    def take(self) -> None:
        free = [group for group in sorted(self.present) if self.strategy.owner(group) == FREE]
        if not free or not self.alive:
            return
        group, consumer = self.random.choice(free), self.random.choice(self.alive)
        before = self.owners()
        touched = self.strategy.took(group, consumer)
        assert self.strategy.owner(group) == consumer
        changed = {name for name, owner in self.owners().items() if owner != before[name]}
        assert changed & self.present <= {group, *touched}, "a lane was not asked again"
        assert group not in touched

    def go(self) -> None:
        if self.present:
            group = self.random.choice(sorted(self.present))
            self.present.discard(group)
            self.strategy.vanished(group)
            self.strategy.vanished(group)

    def drain(self) -> None:
        group = self.random.choice(GROUPS)
        frees = self.strategy.drained(group)
        assert frees == (self.strategy.name == "shared")
        assert not frees or self.strategy.owner(group) == FREE

    def deliver(self) -> None:
        if self.strategy.wants_delivered:
            self.strategy.delivered(self.random.choice(GROUPS))

    def close(self) -> None:
        group = self.random.choice(GROUPS)
        self.strategy.closed(group)
        once = self.owners()
        self.strategy.closed(group)
        assert self.owners() == once

    def age(self) -> None:
        before = self.owners()
        self.strategy.age()
        after = self.owners()
        assert all(after[group] == before[group] for group in self.present)

    def reset(self) -> None:
        self.strategy.reset()


def check(driver: Driver) -> None:
    strategy = driver.strategy
    owners = driver.owners()
    assert set(owners.values()) <= {FREE, *driver.alive}, "a consumer that left owns a group"
    assert owners == driver.owners(), "asking changed the answer"
    for skipped in driver.alive:
        skip = frozenset([skipped])
        assert all(strategy.owner(group, skip) != skipped for group in GROUPS)
    if strategy.name == "consistent-hash":
        assert not driver.alive or FREE not in owners.values()
        return
    for consumer in driver.alive:
        owned = {key(strategy, group) for group, owner in owners.items() if owner == consumer}
        assert strategy.load(consumer) == len(owned)
    assert strategy.tracked() == sum(strategy.load(consumer) for consumer in driver.alive)


def key(strategy: GroupStrategy, group: str) -> str:
    """Give what a load counts: a bucket, or a group."""
    return strategy._bucket(group) if isinstance(strategy, HashBuckets) else group


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", range(12))
def test_the_contract_holds_after_every_step_of_a_random_queue(name: str, seed: int) -> None:
    driver = Driver(small(name), seed)
    for _ in range(STEPS):
        driver.step()
        check(driver)


@pytest.mark.parametrize("name", ["simple", "lru", "hash-buckets"])
@pytest.mark.parametrize("seed", range(6))
def test_a_present_group_keeps_its_living_owner_until_closed_or_reset(name: str, seed: int) -> None:
    driver = Driver(small(name), seed)
    for _ in range(STEPS):
        before = driver.owners()
        verb = driver.step()
        if verb in ("close", "reset", "rename"):
            continue
        after = driver.owners()
        for group in driver.present:
            assert before[group] in (FREE, after[group]) or before[group] not in driver.alive


@pytest.mark.parametrize("name", ALL)
def test_nobody_owns_anything_before_a_consumer_joined(name: str) -> None:
    strategy = small(name)
    strategy.opened("IBM")
    assert strategy.owner("IBM") == FREE
    assert strategy.load(1) == 0
    assert strategy.tracked() == 0


@pytest.mark.parametrize("name", ALL)
def test_nobody_owns_anything_after_the_last_consumer_left(name: str) -> None:
    strategy = small(name)
    strategy.opened("IBM")
    strategy.joined(1, 1)
    strategy.took("IBM", 1)
    strategy.left(1)
    assert strategy.owner("IBM") == FREE
    assert strategy.tracked() == 0


@pytest.mark.parametrize("name", ALL)
def test_renaming_a_consumer_that_is_gone_changes_nothing(name: str) -> None:
    strategy = small(name)
    strategy.joined(1, 1)
    strategy.opened("IBM")
    strategy.took("IBM", 1)
    strategy.renamed(7, 8)
    assert strategy.owner("IBM") == 1
    strategy.left(1)
    assert strategy.owner("IBM") == FREE


@pytest.mark.parametrize("name", ALL)
def test_flags_say_what_each_strategy_needs(name: str) -> None:
    strategy = small(name)
    assert strategy.acts_on_close == (name != "consistent-hash")
    assert strategy.uses_default_group == (name == "shared")
    assert strategy.wants_delivered == isinstance(strategy, StrictLruMap)


def test_a_strategy_of_a_user_needs_the_abstract_methods_only() -> None:
    class FirstTakesAll(GroupStrategy):
        name = "first"

        def __init__(self) -> None:
            self.first = FREE

        def owner(self, group: str, skip: frozenset[int] = frozenset()) -> int:
            return FREE if self.first in skip else self.first

        def took(self, group: str, consumer: int) -> list[str]:
            return []

        def joined(self, consumer: int, weight: int) -> bool:
            self.first = self.first or consumer
            return True

        def left(self, consumer: int) -> None:
            self.first = FREE

        def renamed(self, old: int, new: int) -> None:
            self.first = new

        def closed(self, group: str) -> None: ...

        def reset(self) -> None: ...

        def load(self, consumer: int) -> int:
            return 0

        def tracked(self) -> int:
            return 0

    strategy = FirstTakesAll()
    strategy.joined(5, 1)
    strategy.opened("IBM")
    strategy.vanished("IBM")
    strategy.delivered("IBM")
    assert strategy.owner("IBM") == 5
    assert not strategy.drained("IBM")
    strategy.age()
    assert (strategy.tidy(1), strategy.over_size, list(strategy.evictions())) == (False, False, [])
    assert strategy.describe() == {"strategy": "first"}


@pytest.mark.parametrize("name", ALL)
def test_a_strategy_that_wants_no_call_has_nothing_to_do_in_it(name: str) -> None:
    kind = type(small(name))
    optional = {"opened": kind.wants_presence, "vanished": kind.wants_presence}
    optional["drained"] = kind.wants_drained
    for method, is_wanted in optional.items():
        if kind is ConsistentHash and method == "vanished":
            continue  # asked for from the first group on that has left its place on the ring
        own = [one for one in kind.__mro__ if one is not GroupStrategy and method in vars(one)]
        assert is_wanted or not own
