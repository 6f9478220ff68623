"""Crew: who is willing, who is next, and who stays."""

from __future__ import annotations

from covey.groups import make
from covey.groups.simulation.consumers import Crew


def crew_of(count: int, credit: int = 1) -> Crew:
    crew = Crew(make("simple"), credit, [0] * 100)
    for _ in range(count):
        crew.join(0.0)
    return crew


def test_one_that_holds_all_it_may_is_not_willing() -> None:
    crew = crew_of(2)
    first, second = crew.everybody
    first.hand.append(7)
    assert crew.least_loaded() is second
    second.hand.append(8)
    assert crew.least_loaded() is None


def test_of_equals_the_one_longest_without_a_new_lane_is_next() -> None:
    crew = crew_of(2)
    first, second = crew.everybody
    first.assigned, second.assigned = 2, 1
    assert crew.least_loaded() is second
    first.served, second.served = 1, 2
    assert crew.least_served(second) is first


def test_of_two_that_finish_at_one_time_the_one_that_began_first_is_first() -> None:
    crew = crew_of(3)
    for worker, (finishes_at, started) in zip(
        crew.everybody, [(5.0, 3), (5.0, 2), (6.0, 1)], strict=True
    ):
        worker.finishes_at, worker.started = finishes_at, started
    assert crew.first_to_finish() is crew.everybody[1]


def test_the_first_goes_and_the_last_stays() -> None:
    crew = crew_of(2)
    leaver = crew.leave_first(3.0)
    assert leaver is crew.everybody[0]
    assert (leaver.is_gone, leaver.present_s) == (True, 3.0)
    assert crew.leave_first(4.0) is None
    assert crew.join(5.0).id == 3, "numbers are never given twice"
