"""Long work goes in portions: the first at once, then one a turn, of the jobs in turn."""

from __future__ import annotations

import pytest

from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.jobs.job import Job, JobKeeper, Jobs, Steps
from covey.core.session import Session
from tests.doubles import NOBODY, Listener


class Count(Job):
    """Counts, one number a step."""

    def __init__(self, name: str, total: int, seen: list[str], session: Session | None = None):
        super().__init__("count", name, session, total)
        self.seen = seen
        self.ends = 0
        self.fails_at = -1

    def steps(self) -> Steps:
        for number in range(self.total):
            if number == self.fails_at:
                raise RefusedError("it broke", "limit")
            self.seen.append(f"{self.target}{number}")
            yield 1

    def ended(self) -> None:
        self.ends += 1


class Keeper(JobKeeper):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.claims: list[bool] = []
        self.wakes = 0

    def claim(self, session: Session, *, is_over: bool) -> None:
        self.claims.append(is_over)

    def wake(self) -> None:
        self.wakes += 1


class Desk:
    """Jobs of three items a portion, and a stopwatch that a test moves."""

    def __init__(self, *, with_stopwatch: bool = False) -> None:
        self.time = 0.0
        self.keeper = Keeper()
        self.seen: list[str] = []
        self.jobs = Jobs(Clock(), self.keeper, self.look if with_stopwatch else None)
        self.jobs.allow(3, 5.0, 100)

    def look(self) -> float:
        self.time += 0.001
        return self.time

    def begin(self, name: str, total: int, session: Session | None = None, **how: bool) -> Count:
        job = Count(name, total, self.seen, session)
        self.jobs.begin(job, **how)
        return job


def client() -> tuple[Session, Listener]:
    listener = Listener()
    return Session(1, NOBODY.host, NOBODY.identity, client=listener), listener


def test_short_work_is_done_at_once_and_never_seen_as_a_job() -> None:
    desk = Desk()
    told: list[str] = []
    job = desk.begin("a", 2)
    job.then(lambda: told.append("over"))
    assert (desk.seen, told, job.ends) == (["a0", "a1"], ["over"], 1)
    assert not desk.jobs.is_any
    assert desk.keeper.wakes == 0


def test_long_work_goes_on_a_portion_a_turn_and_tells_at_the_end() -> None:
    desk = Desk()
    told: list[str] = []
    job = desk.begin("a", 7)
    job.then(lambda: told.append("over"))
    assert (job.done, job.left, desk.keeper.wakes) == (3, 4, 1)
    desk.jobs.run()
    assert (job.done, told) == (6, [])
    desk.jobs.run()
    assert (job.done, told, job.ends) == (7, ["over"], 1)
    assert desk.jobs.running() == []


def test_jobs_take_turns() -> None:
    desk = Desk()
    desk.begin("a", 9)
    desk.begin("b", 6)
    desk.seen.clear()
    desk.jobs.run()
    assert desk.seen == ["a3", "a4", "a5", "b3", "b4", "b5"]
    assert [job.target for job in desk.jobs.running()] == ["a", "b"]
    desk.jobs.run()
    desk.jobs.run()
    assert not desk.jobs.is_any


def test_the_stopwatch_ends_a_turn_of_jobs_and_the_next_begins_with_the_next_job() -> None:
    desk = Desk(with_stopwatch=True)
    desk.jobs.allow(1000, 5.0, 10_000)
    desk.begin("a", 1000)
    desk.begin("b", 1000)
    seen = desk.seen
    assert 16 <= seen.count("a0") + len([one for one in seen if one[0] == "a"]) < 200
    seen.clear()
    desk.jobs.run()
    assert {one[0] for one in seen} == {"a"}
    seen.clear()
    desk.jobs.run()
    assert {one[0] for one in seen} == {"b"}


def test_a_session_waits_for_its_own_job_and_goes_on_after_it() -> None:
    desk = Desk()
    session, listener = client()
    desk.begin("a", 7, session, is_waited_for=True)
    assert session.must_wait
    desk.jobs.run()
    assert (session.must_wait, listener.resumed) == (True, 0)
    desk.jobs.run()
    assert (session.must_wait, listener.resumed) == (False, 1)
    assert desk.keeper.claims == [False, True]


def test_a_job_that_is_stopped_does_no_more_and_lets_its_session_go_on() -> None:
    desk = Desk()
    session, listener = client()
    job = desk.begin("a", 7, session, is_waited_for=True)
    assert desk.jobs.of(session) == [job]
    desk.jobs.stop(job)
    assert desk.jobs.of(session) == []
    assert (job.ends, listener.resumed, job.done) == (1, 1, 3)
    desk.jobs.run()
    desk.jobs.stop(job)
    assert (job.ends, len(desk.seen)) == (1, 3)


def test_a_refusal_in_a_later_portion_ends_the_connection_and_the_job() -> None:
    desk = Desk()
    session, listener = client()
    job = Count("a", 9, desk.seen, session)
    job.fails_at = 5
    desk.jobs.begin(job, is_waited_for=True)
    desk.jobs.run()
    assert job.is_over
    assert listener.kicks == ["count a: it broke"]
    assert not session.must_wait


def test_a_session_may_have_only_so_much_under_way() -> None:
    desk = Desk()
    session, _ = client()
    desk.begin("a", 50, session)
    desk.jobs.check(session, 53)
    with pytest.raises(RefusedError, match="session_work_max"):
        desk.jobs.check(session, 54)


def test_the_rest_of_a_job_can_be_done_at_once() -> None:
    desk = Desk()
    job = desk.begin("a", 50)
    desk.jobs.complete(job)
    assert (job.done, job.ends) == (50, 1)
