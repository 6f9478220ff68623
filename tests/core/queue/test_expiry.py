"""Expiry: numbers by the second in which they run out, kept as runs."""

from __future__ import annotations

import random

import pytest

from covey.core.dispatch.index import Index
from covey.core.dispatch.lane import Lane
from covey.core.model.entry import PENDING, Entry
from covey.core.queue import expiry as module
from covey.core.queue.expiry import SWEEP_MIN, Expiry
from tests.core.support import Bench
from tests.doubles import Letter


def entry(seq: int, expires_ms: int) -> Entry:
    message = Letter()
    message.expires_ms = expires_ms
    return Entry(seq, message, Lane("g"), PENDING)


def test_a_second_is_due_once_it_has_passed() -> None:
    expiry = Expiry()
    expiry.add(entry(1, 5_999))
    expiry.add(entry(2, 5_000))
    assert expiry.next_ms() == 6_000
    assert list(expiry.take_due(5_999, 1000)) == []
    assert sorted(expiry.take_due(6_000, 1000)) == [1, 2]
    assert expiry.next_ms() == 0


def test_the_first_second_of_all_is_a_second_too() -> None:
    expiry = Expiry()
    expiry.add(entry(1, 1))
    assert expiry.next_ms() == 1000
    assert expiry.take_due(999, 10) == []
    assert expiry.take_due(1000, 10) == [1]


def test_a_rounded_time_is_the_last_of_its_second_and_falls_due_with_it() -> None:
    expiry = Expiry()
    expiry.add(entry(1, 5_000_500))
    rounded = expiry.rounded(5_000_500)
    assert rounded == 5_000_999
    assert expiry.rounded(7_000_001) == 7_000_999  # also of a second that has nothing in it
    assert list(expiry.take_due(5_001_000, 1000)) == [1]


def index_of(*numbers: int) -> Index:
    index = Index()
    for seq in numbers:
        index.add(entry(seq, 0))
    return index


def sweep(expiry: Expiry, index: Index, most: int) -> None:
    """Sweep to the end."""
    while expiry.sweep(index, most):
        pass


@pytest.mark.parametrize("most", [1, 2, 7, 1000, 10**6])
def test_a_sweep_keeps_the_living(most: int) -> None:
    expiry = Expiry()
    for seq in range(1, SWEEP_MIN + 2):
        expiry.add(entry(seq, 5_000 + seq // 100 * 1000))
    assert not expiry.sweep(index_of(*range(1, SWEEP_MIN + 1)), most)
    assert expiry.count == SWEEP_MIN + 1
    living = [7, 8, 9, 300, 1999, SWEEP_MIN + 1]
    sweep(expiry, index_of(*living), most)
    assert (expiry.count, len(expiry._runs)) == (6, 4)
    assert list(expiry.take_due(10**6, 1000)) == living
    assert expiry.next_ms() == 0


def test_a_sweep_looks_at_no_more_than_it_may() -> None:
    expiry = Expiry()
    for seq in range(1, 100_001):
        expiry.add(entry(seq, 5_000))
    index = index_of(1)
    portions = 1
    while expiry.sweep(index, 1000):
        portions += 1
    assert portions in (100, 101)


def test_a_run_that_is_older_than_all_entries_is_dropped_at_once() -> None:
    expiry = Expiry()
    for seq in range(1, 100_001):
        expiry.add(entry(seq, 5_000 + seq // 50_000 * 1000))
    assert not expiry.sweep(index_of(100_000), 5)
    assert expiry.count == 1


def test_what_comes_amid_a_sweep_is_kept() -> None:
    expiry = Expiry()
    for seq in range(1, SWEEP_MIN + 2):
        expiry.add(entry(seq, 5_000))
    index = index_of(1, SWEEP_MIN + 1)
    assert expiry.sweep(index, SWEEP_MIN)
    for seq in (SWEEP_MIN + 2, SWEEP_MIN + 3):  # it makes the last run longer
        expiry.add(entry(seq, 5_000))
        index.add(entry(seq, 0))
    expiry.add(entry(SWEEP_MIN + 4, 9_000))
    index.add(entry(SWEEP_MIN + 4, 0))
    sweep(expiry, index, 1)
    assert expiry.take_due(7_000, 10) == [1, SWEEP_MIN + 1, SWEEP_MIN + 2, SWEEP_MIN + 3]
    assert expiry.take_due(10_000, 10) == [SWEEP_MIN + 4]


def test_a_second_whose_time_comes_amid_its_sweep_is_due_as_a_whole() -> None:
    expiry = Expiry()
    for seq in range(1, SWEEP_MIN + 2):
        expiry.add(entry(seq, 5_000))
    index = index_of(1)
    assert expiry.sweep(index, 10)
    assert len(expiry.take_due(6_000, 10**6)) == SWEEP_MIN + 1
    expiry.add(entry(SWEEP_MIN + 2, 5_000))  # the same second once more
    index.add(entry(SWEEP_MIN + 2, 0))
    sweep(expiry, index, 10)
    assert expiry.count == 1
    assert expiry.take_due(6_000, 10) == [SWEEP_MIN + 2]


def test_a_clock_that_is_set_back_expires_nothing_early_and_all_in_the_end() -> None:
    expiry = Expiry()
    for seq, expires_ms in enumerate((5_000, 6_000, 4_000_000), start=1):
        expiry.add(entry(seq, expires_ms))
    assert list(expiry.take_due(6_000, 1000)) == [1]
    assert list(expiry.take_due(1_000, 1000)) == []
    assert list(expiry.take_due(7_000, 1000)) == [2]
    assert list(expiry.take_due(5_000_000, 1000)) == [3]


def words(expiry: Expiry) -> int:
    """Return how many numbers the table keeps."""
    return sum(map(len, expiry._runs.values()))


def test_numbers_without_a_gap_are_one_run_and_others_are_no_larger_than_before() -> None:
    expiry = Expiry()
    for seq in range(100_000):
        expiry.add(entry(seq, 5_000 + seq // 50))
    assert words(expiry) == 2 * 2
    expiry = Expiry()
    for seq in range(1, 1001):
        expiry.add(entry(seq, 5_000 + seq % 2 * 1000))
    assert words(expiry) == 1000


def test_numbers_in_any_order_are_all_due_once() -> None:
    expiry = Expiry()
    numbers = [7, 8, 9, 3, 4, 0, 1, 20, 19, 18, 5, 6]
    for seq in numbers:
        expiry.add(entry(seq, 5_000))
    assert expiry.count == len(numbers)
    assert expiry.take_due(6_000, 1000) == numbers
    assert (expiry.count, expiry.next_ms()) == (0, 0)


def test_a_second_that_is_being_taken_may_be_added_to() -> None:
    expiry = Expiry()
    for seq in range(1, 6):
        expiry.add(entry(seq, 5_000))
    assert expiry.take_due(6_000, 3) == [1, 2, 3]
    assert expiry.next_ms() == 1
    expiry.add(entry(6, 5_000))
    assert expiry.take_due(6_000, 10) == [4, 5, 6]
    assert expiry.count == 0


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_is_due_with_its_second_and_not_before(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    expiry = Expiry()
    monkeypatch.setattr(module, "SWEEP_MIN", 5)
    model: dict[int, int] = {}  # the second of each number
    gone: set[int] = set()
    wall_s, seq = 100, 0
    for _ in range(300):
        step = chance.random()
        if step < 0.6:
            second = wall_s + chance.choice((0, 1, 1, 1, 2, 5))
            for _ in range(chance.randint(1, 6)):
                seq += chance.choice((1, 1, 1, 1, 3))
                expiry.add(entry(seq, second * 1000 + chance.randint(0, 999)))
                model[seq] = second
        elif step < 0.65:
            gone |= {each for each in model if chance.random() < 0.7}
        elif step < 0.85:
            expiry.sweep(index_of(*sorted(set(model) - gone)), chance.choice((1, 5, 20, 1000)))
        else:
            wall_s += chance.randint(0, 1)
            most = chance.randint(1, 20)
            due = expiry.take_due(wall_s * 1000, most)
            living = [each for each, to in model.items() if to < wall_s and each not in gone]
            assert len(due) >= min(most, len(living))
            for each in due:
                assert model.pop(each) < wall_s
        assert len(set(model) - gone) <= expiry.count <= len(model)
        assert (expiry.next_ms() > 0) == (expiry.count > 0)
    due = expiry.take_due(10**9, 10**6)
    assert len(due) == len(set(due))
    assert set(model) - gone <= set(due) <= set(model)


def test_a_purge_leaves_nothing_that_could_expire() -> None:
    bench = Bench()
    for _ in range(2 * SWEEP_MIN):
        bench.send("a", ttl_ms=60_000)
    survivor = bench.send("a", ttl_ms=60_000)
    for seq in range(1, survivor.seq):
        gone = bench.queue.state.index.get(seq)
        assert gone is not None
        bench.queue.expire(gone)
    bench.wait(1.0)
    assert bench.queue.timers.expiry.count == 1
    expired = bench.queue.counters.expired
    bench.wait(61.0)
    assert bench.queue.counters.expired == expired + 1
