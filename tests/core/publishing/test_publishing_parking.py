"""Work waits in line for its queue, and a session's work goes with it."""

from __future__ import annotations

from covey.core.publishing.publishing import Parking, Work
from covey.core.queue.queue import Queue
from covey.core.session import Session
from tests.core.double import Room


def queues(count: int) -> list[Queue]:
    host = Room().broker.hosts[0]
    return [host.queue(f"q{number}") for number in range(count)]


def session() -> Session:
    return Room().enter().session


def test_work_is_tried_in_the_order_it_came_until_there_is_no_room() -> None:
    (queue,) = queues(1)
    parking = Parking([])
    works = [Work(session(), []) for _ in range(3)]
    for work in works:
        parking.add(queue, work)
    tried: list[Work] = []

    def attempt(work: Work) -> Queue | None:
        tried.append(work)
        return None if len(tried) < 3 else queue

    parking.free(queue)
    parking.retry(attempt)
    assert tried == works
    assert list(parking.waiting[queue]) == works[2:]
    parking.retry(attempt)
    assert len(tried) == 3  # nothing was freed since


def test_a_queue_nobody_waits_for_is_not_retried() -> None:
    (queue,) = queues(1)
    parking = Parking([])
    parking.free(queue)
    assert parking.freed == {}


def test_work_may_have_to_wait_for_another_queue() -> None:
    one, two = queues(2)
    parking = Parking([])
    work = Work(session(), [])
    parking.add(one, work)
    parking.free(one)
    parking.retry(lambda _: two)
    assert one not in parking.waiting
    assert list(parking.waiting[two]) == [work]


def test_who_stood_behind_a_session_that_went_is_tried_again() -> None:
    (queue,) = queues(1)
    parking = Parking([])
    gone, stays = session(), session()
    parking.add(queue, Work(gone, []))
    parking.add(queue, Work(stays, []))
    parking.forget(gone)
    assert [work.session for work in parking.waiting[queue]] == [stays]
    assert queue in parking.freed
    parking.forget(stays)
    assert (parking.waiting, parking.freed) == ({}, {})
