"""The pool of workers: who is willing, who is next, and who stays."""

from __future__ import annotations

from covey.groups import make
from covey.groups.simulation.consumers import WorkerPool


def pool_of(count: int, credit: int = 1) -> WorkerPool:
    pool = WorkerPool(make("simple"), credit, [0] * 100)
    for _ in range(count):
        pool.join(0.0)
    return pool


def test_one_that_holds_all_it_may_is_not_willing() -> None:
    pool = pool_of(2)
    first, second = pool.everybody
    first.held.append(7)
    assert pool.least_loaded() is second
    second.held.append(8)
    assert pool.least_loaded() is None


def test_of_equals_the_one_longest_without_a_new_lane_is_next() -> None:
    pool = pool_of(2)
    first, second = pool.everybody
    first.assigned, second.assigned = 2, 1
    assert pool.least_loaded() is second
    first.served, second.served = 1, 2
    assert pool.least_served(second) is first


def test_of_two_that_finish_at_one_time_the_one_that_began_first_is_first() -> None:
    pool = pool_of(3)
    for worker, (finishes_at, started) in zip(
        pool.everybody, [(5.0, 3), (5.0, 2), (6.0, 1)], strict=True
    ):
        worker.finishes_at, worker.started = finishes_at, started
    assert pool.first_to_finish() is pool.everybody[1]


def test_the_first_goes_and_the_last_stays() -> None:
    pool = pool_of(2)
    leaver = pool.leave_first(3.0)
    assert leaver is pool.everybody[0]
    assert (leaver.is_gone, leaver.present_s) == (True, 3.0)
    assert pool.leave_first(4.0) is None
    assert pool.join(5.0).id == 3, "numbers are never given twice"
