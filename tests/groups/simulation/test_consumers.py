"""The pool of workers: who is willing, who is next, and who stays."""

from __future__ import annotations

from covey.groups import make
from covey.groups.simulation.consumers import ReadyLanes, WorkerPool
from covey.groups.simulation.parts import Lane, Worker
from covey.groups.strategy import FREE


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


# Lanes that are ready: the oldest first, and what has become wrong is never found.

FOLLOWERS = [0] * 10


def lanes_of(*messages: int) -> list[Lane]:
    lanes = [Lane(f"g{message}", FOLLOWERS) for message in messages]
    for lane, message in zip(lanes, messages, strict=True):
        lane.messages.append(message)
    return lanes


def test_the_oldest_free_head_is_first_and_an_owned_one_is_not_free() -> None:
    lanes = lanes_of(1, 0)
    ready_lanes = ReadyLanes(lanes, [1, 0])
    for lane in lanes:
        ready_lanes.add(lane, None)
    assert ready_lanes.best_free() is lanes[1]
    lanes[1].owner = 5
    assert ready_lanes.best_free() is lanes[0]
    lanes[0].messages.pop()
    assert ready_lanes.best_free() is None


def test_an_owner_takes_nothing_of_a_lane_that_another_still_holds() -> None:
    (lane,) = lanes_of(0)
    worker = Worker(5, 0.0, FOLLOWERS)
    ready_lanes = ReadyLanes([lane], [0])
    lane.owner = worker.id
    ready_lanes.add(lane, worker)
    assert ready_lanes.best_ready(worker) is lane
    lane.unsettled, lane.holder = 1, 6
    assert ready_lanes.best_ready(worker) is None
    lane.unsettled, lane.holder = 0, FREE
    ready_lanes.add(lane, worker)
    assert ready_lanes.best_ready(worker) is lane
