"""State: which files a later audit must read."""

from __future__ import annotations

from datetime import UTC, datetime

from covey.pipeline.event_log.histories import Run
from covey.pipeline.event_log.reader import LogFile
from covey.pipeline.jobs.audit_state import State

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILES = [
    LogFile("a", "r1", 1, 0),
    LogFile("b", "r1", 11, 0),
    LogFile("c", "r1", 21, 0),
    LogFile("d", "r2", 1, 30),
]


def read_up_to(eid: int, *, is_cut: bool, run: str = "r1") -> State:
    state = State(is_cut=is_cut)
    state.figures.runs.append(Run(run, eid, 1, eid, NOON, NOON))
    return state


def new(state: State) -> list[str]:
    return [file.path for file in state.new_of(FILES)]


def test_files_that_were_read_are_not_read_again() -> None:
    assert new(State()) == ["a", "b", "c", "d"]
    assert new(read_up_to(20, is_cut=False)) == ["c", "d"]
    assert new(read_up_to(30, is_cut=False, run="r2")) == ["a", "b", "c"]


def test_a_file_of_which_until_left_out_a_part_is_read_again() -> None:
    assert new(read_up_to(15, is_cut=True)) == ["b", "c", "d"]
    assert new(read_up_to(20, is_cut=True)) == ["c", "d"]  # the next one follows at once
    assert new(read_up_to(25, is_cut=True)) == ["c", "d"]  # nobody knows how far it reaches
    assert new(read_up_to(25, is_cut=True, run="r2")) == ["a", "b", "c", "d"]


def test_a_file_whose_name_tells_nothing_is_always_looked_into() -> None:
    other = LogFile("copy", "", 0, 0)
    assert read_up_to(40, is_cut=False).new_of([other, *FILES[:3]]) == [other]
