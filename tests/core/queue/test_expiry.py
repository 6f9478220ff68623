"""Expiry: numbers by the second in which they run out, kept as runs."""

from __future__ import annotations

import random

import pytest

from covey.core.dispatch.lane import Lane
from covey.core.model.entry import PENDING, Entry
from covey.core.queue.expiry import REBUILD_MIN, Expiry
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


def test_a_rounded_time_is_the_last_of_its_second_and_falls_due_with_it() -> None:
    expiry = Expiry()
    expiry.add(entry(1, 5_000_500))
    rounded = expiry.rounded(5_000_500)
    assert rounded == 5_000_999
    assert expiry.rounded(7_000_001) == 7_000_999  # also of a second that has nothing in it
    expiry.rebuild([entry(1, rounded)])
    assert list(expiry.take_due(5_001_000, 1000)) == [1]


def test_a_rebuild_keeps_the_living() -> None:
    expiry = Expiry()
    for seq in range(REBUILD_MIN + 1):
        expiry.add(entry(seq, 5_000))
    assert expiry.is_bloated(1)
    assert not expiry.is_bloated(REBUILD_MIN)
    expiry.rebuild([entry(7, 9_000), entry(8, 0)])
    assert list(expiry.take_due(10_000, 1000)) == [7]


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


def test_a_rebuild_in_the_middle_of_a_run_brings_back_only_the_living() -> None:
    expiry = Expiry()
    for seq in range(1, 11):
        expiry.add(entry(seq, 5_000 if seq < 9 else 8_000))
    assert expiry.take_due(6_000, 3) == [1, 2, 3]
    expiry.rebuild([entry(seq, 5_000) for seq in (4, 6, 7)] + [entry(10, 8_000)])
    assert (expiry.count, words(expiry)) == (4, 4)
    assert expiry.take_due(6_000, 10) == [4, 6, 7]
    assert expiry.next_ms() == 9_000


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_is_due_with_its_second_and_not_before(seed: int) -> None:
    chance = random.Random(seed)
    expiry = Expiry()
    model: dict[int, int] = {}  # the second of each number
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
            model = {each: to for each, to in model.items() if chance.random() < 0.7}
            expiry.rebuild([entry(each, to * 1000) for each, to in model.items()])
        else:
            wall_s += chance.randint(0, 1)
            most = chance.randint(1, 20)
            due = expiry.take_due(wall_s * 1000, most)
            assert len(due) == min(most, sum(second < wall_s for second in model.values()))
            for each in due:
                assert model.pop(each) < wall_s
        assert expiry.count == len(model)
        assert (expiry.next_ms() > 0) == bool(model)
    assert sorted(expiry.take_due(10**9, 10**6)) == sorted(model)


def test_a_purge_leaves_nothing_that_could_expire() -> None:
    bench = Bench()
    for _ in range(2 * REBUILD_MIN):
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
