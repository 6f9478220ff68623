"""Work waits in line for its queue, and a session's work goes with it."""

from __future__ import annotations

from covey.core.publishing.waiting_work import WaitingWork, Work
from covey.core.queue.queue import Queue
from covey.core.session import Session
from tests.core.double import Room


def queues(count: int) -> list[Queue]:
    host = Room().broker.host
    return [host.queue(f"q{number}") for number in range(count)]


def session() -> Session:
    return Room().enter().session


def test_work_is_tried_in_the_order_it_came_until_there_is_no_room() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    works = [Work(session(), []) for _ in range(3)]
    for work in works:
        waiting_work.add(queue, work)
    tried: list[Work] = []

    def attempt(work: Work) -> Queue | None:
        tried.append(work)
        return None if len(tried) < 3 else queue

    waiting_work.free(queue)
    waiting_work.retry(attempt)
    assert tried == works
    assert list(waiting_work.lines[queue]) == works[2:]
    waiting_work.retry(attempt)
    assert len(tried) == 3  # nothing was freed since


def test_a_queue_nobody_waits_for_is_not_retried() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    waiting_work.free(queue)
    assert waiting_work.freed == {}


def test_work_may_have_to_wait_for_another_queue() -> None:
    one, two = queues(2)
    waiting_work = WaitingWork([])
    work = Work(session(), [])
    waiting_work.add(one, work)
    waiting_work.free(one)
    waiting_work.retry(lambda _: two)
    assert one not in waiting_work.lines
    assert list(waiting_work.lines[two]) == [work]


def test_who_stood_behind_a_session_that_went_is_tried_again() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    gone, stays = session(), session()
    waiting_work.add(queue, Work(gone, []))
    waiting_work.add(queue, Work(stays, []))
    waiting_work.forget(gone)
    assert [work.session for work in waiting_work.lines[queue]] == [stays]
    assert queue in waiting_work.freed
    waiting_work.forget(stays)
    assert (waiting_work.lines, waiting_work.freed) == ({}, {})
