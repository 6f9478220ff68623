"""The schedule alone: no connection, no clock."""

from __future__ import annotations

import random
from collections import deque

import pytest

from covey.worker.message import Message
from covey.worker.schedule import Job, Lane, Schedule, Troubles


def message(sequence: int, group: str = "g") -> Message:
    lines = {"covey-seq": str(sequence), "ack": str(sequence), "message_group": group}
    return Message(lines | {"destination": "/queue/q"}, b"")


def make(concurrency: int = 4, batch: int = 1) -> Schedule:
    return Schedule(concurrency, batch, Troubles())


def started(schedule: Schedule) -> list[Job]:
    jobs = []
    while (job := schedule.next()) is not None:
        jobs.append(job)
    return jobs


def numbers(jobs: list[Job]) -> list[list[int]]:
    return [[each.sequence for each in job.messages] for job in jobs]


def test_one_of_each_group_runs_at_a_time() -> None:
    schedule = make()
    for sequence, group in enumerate("aabbc", 1):
        schedule.add(message(sequence, group))
    jobs = started(schedule)
    assert numbers(jobs) == [[1], [3], [5]]
    schedule.finish(jobs[0])
    assert numbers(started(schedule)) == [[2]]


def test_messages_without_a_group_do_not_wait_for_each_other() -> None:
    schedule = make()
    for sequence in (1, 2, 3):
        schedule.add(message(sequence, ""))
    assert numbers(started(schedule)) == [[1], [2], [3]]


def test_never_more_than_the_concurrency_runs() -> None:
    schedule = make(concurrency=2)
    for sequence, group in enumerate("abcd", 1):
        schedule.add(message(sequence, group))
    assert len(started(schedule)) == 2


def test_a_batch_is_of_one_group() -> None:
    schedule = make(batch=2)
    for sequence, group in enumerate("aabaa", 1):
        schedule.add(message(sequence, group))
    assert numbers(started(schedule)) == [[1, 2], [3]]


def test_after_a_failed_batch_its_messages_run_alone() -> None:
    schedule = make(batch=3)
    for sequence in range(1, 4):
        schedule.add(message(sequence))
    (job,) = started(schedule)
    schedule.troubles.note(job.lane.key, job.messages[-1].sequence)
    schedule.suspend(job)
    assert schedule.give_back(job) == []
    for sequence in range(1, 6):
        schedule.add(message(sequence)) if sequence < 4 else None
    schedule.confirmed(job.lane)
    ran = []
    for _ in range(3):
        (job,) = started(schedule)
        ran += numbers([job])
        schedule.troubles.clear(job.lane.key, job.messages[-1].sequence)
        schedule.finish(job)
    assert ran == [[1], [2], [3]]
    for sequence in (4, 5):
        schedule.add(message(sequence))
    assert numbers(started(schedule)) == [[4, 5]]


def test_what_comes_before_the_confirmation_and_was_not_given_back_goes_back_too() -> None:
    schedule = make()
    schedule.add(message(1))
    schedule.add(message(2))
    (job,) = started(schedule)
    schedule.suspend(job)
    assert [each.sequence for each in schedule.give_back(job)] == [2]
    lane = schedule.add(message(3))
    assert lane is job.lane  # it was under way when the first one failed
    assert schedule.add(message(1)) is None
    assert started(schedule) == []  # not before both are confirmed
    schedule.confirmed(job.lane)
    assert started(schedule) == []
    schedule.confirmed(job.lane)
    assert numbers(started(schedule)) == [[1]]


def test_an_empty_lane_is_forgotten() -> None:
    schedule = make()
    schedule.add(message(1))
    (job,) = started(schedule)
    schedule.finish(job)
    assert schedule.is_idle


def test_troubles_forget_the_oldest() -> None:
    troubles = Troubles(2)
    for group in "abc":
        troubles.note(("q", group, 0))
    assert [troubles.failures(("q", group, 0)) for group in "abc"] == [0, 1, 1]


class Wire:
    """A broker's lane of one group behind a slow network, as the guarantee describes it."""

    def __init__(self, chance: random.Random, count: int) -> None:
        self.chance = chance
        self.pending = list(range(1, count + 1))
        self.to_worker: deque[int | tuple[Lane]] = deque()
        self.to_broker: deque[tuple[str, int, Lane | None]] = deque()
        self.failures: dict[int, int] = {}
        self.dead: list[int] = []

    def step(self) -> None:
        """Do one thing that could happen next at the broker."""
        if self.to_broker and self.chance.random() < 0.5:
            what, sequence, lane = self.to_broker.popleft()
            if what == "receipt":
                assert lane is not None
                self.to_worker.append((lane,))
            elif what == "failed" and self._is_dead(sequence):
                self.dead.append(sequence)
            else:
                self.pending = sorted([*self.pending, sequence])
        elif self.pending:
            self.to_worker.append(self.pending.pop(0))

    def _is_dead(self, sequence: int) -> bool:
        self.failures[sequence] = self.failures.get(sequence, 0) + 1
        return self.failures[sequence] >= 3


@pytest.mark.parametrize("seed", range(200))
def test_no_message_runs_before_one_that_comes_again(seed: int) -> None:
    chance = random.Random(seed)
    wire = Wire(chance, 12)
    schedule = make(batch=1)
    done: list[int] = []
    running: list[Job] = []
    for _ in range(5000):
        if chance.random() < 0.6:
            wire.step()
        elif wire.to_worker:
            came = wire.to_worker.popleft()
            if isinstance(came, tuple):
                schedule.confirmed(came[0])
            else:
                lane = schedule.add(message(came))
                if lane is not None:
                    wire.to_broker += [("released", came, None), ("receipt", 0, lane)]
        running += started(schedule)
        if running and chance.random() < 0.4:
            settle(chance, wire, schedule, running.pop(), done)
    assert sorted(done + wire.dead) == list(range(1, 13))
    assert done == sorted(done)


def settle(
    chance: random.Random, wire: Wire, schedule: Schedule, job: Job, done: list[int]
) -> None:
    (tried,) = [each.sequence for each in job.messages]
    if chance.random() < 0.6:
        done.append(tried)
        schedule.finish(job)
        return
    schedule.suspend(job)
    wire.to_broker.append(("failed", tried, None))
    wire.to_broker += [("released", each.sequence, None) for each in schedule.give_back(job)]
    wire.to_broker.append(("receipt", 0, job.lane))
