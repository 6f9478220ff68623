"""Lanes that are ready: the oldest first, and what has become wrong is never found."""

from __future__ import annotations

from covey.groups.simulation.consumers import ReadyLanes
from covey.groups.simulation.parts import Lane, Worker
from covey.groups.strategy import FREE

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
