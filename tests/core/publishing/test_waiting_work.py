"""WaitingWork: tried again in the order it came, in portions; it goes with its session."""

from __future__ import annotations

from covey.core.publishing.waiting_work import TRIED_AT_ONCE, WaitingWork, Work
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
    assert list(waiting_work.lines[queue].works) == works[2:]
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
    assert list(waiting_work.lines[two].works) == [work]


def test_who_stood_behind_a_session_that_went_is_tried_again() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    gone, stays = session(), session()
    waiting_work.add(queue, Work(gone, []))
    waiting_work.add(queue, Work(stays, []))
    waiting_work.forget(gone)
    assert [work.session for work in waiting_work.lines[queue].works] == [stays]
    assert queue in waiting_work.freed
    waiting_work.forget(stays)
    assert (waiting_work.lines, waiting_work.freed) == ({}, {})


def test_very_much_work_is_tried_in_portions_and_in_order() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    whose = session()
    works = [Work(whose, []) for _ in range(2 * TRIED_AT_ONCE + 5)]
    for work in works:
        waiting_work.add(queue, work)
    tried: list[Work] = []

    def attempt(work: Work) -> None:
        tried.append(work)

    waiting_work.free(queue)
    waiting_work.retry(attempt)
    assert tried == works[:TRIED_AT_ONCE]
    assert waiting_work.is_due and queue.is_awaited
    while waiting_work.is_due:
        waiting_work.retry(attempt)
    assert tried == works
    assert (waiting_work.lines, waiting_work.sessions(), queue.is_awaited) == ({}, [], False)


def test_a_session_may_end_while_its_work_is_tried() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    gone, stays = session(), session()
    works = [Work(gone, []), Work(gone, []), Work(stays, [])]
    for work in works:
        waiting_work.add(queue, work)
    tried: list[Work] = []

    def attempt(work: Work) -> None:
        tried.append(work)
        if work.session is gone:
            assert waiting_work.forget(gone) == works[:2]

    waiting_work.free(queue)
    waiting_work.retry(attempt)
    assert tried == [works[0], works[2]]
    assert (waiting_work.lines, waiting_work.sessions()) == ({}, [])


def test_work_that_comes_while_others_are_tried_stands_behind_them() -> None:
    (queue,) = queues(1)
    waiting_work = WaitingWork([])
    first, second = Work(session(), []), Work(session(), [])
    waiting_work.add(queue, first)

    def attempt(work: Work) -> Queue:
        waiting_work.add(queue, second)
        return queue

    waiting_work.free(queue)
    waiting_work.retry(attempt)
    assert list(waiting_work.lines[queue].works) == [first, second]
    assert waiting_work.forget(second.session) == [second]
    assert list(waiting_work.lines[queue].works) == [first]
