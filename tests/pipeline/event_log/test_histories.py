"""Histories: runs that had one store are one history, also if a host comes back to a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from covey.pipeline.event_log.histories import (
    RUN_BITS,
    Gap,
    History,
    LogFigures,
    Numbers,
    Run,
    Start,
    histories_of,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def run(name: str, events: int, minute: int) -> Run:
    began = NOON + timedelta(minutes=minute)
    return Run(name, events, 1, events, began, began)


def figures(runs: list[Run], starts: list[Start], gaps: tuple[Gap, ...] = ()) -> LogFigures:
    hosts = {(start.run, start.host): (start.predecessor, False) for start in starts}
    return LogFigures(runs, list(gaps), 0, {}, starts, {}, hosts)


def told(history: History) -> list[tuple[str, int, int]]:
    return [(one.run, one.first_eid, one.last_eid) for one in history.chapters]


def test_each_host_of_a_run_goes_on_where_its_own_store_went() -> None:
    runs = [run("a", 100, 0), run("b", 50, 1)]
    starts = [
        Start("a", "one", "", "**", 0, 1),
        Start("a", "two", "", "**", 0, 2),
        Start("b", "two", "a", "**", 90, 7),
    ]
    one, two = histories_of(figures(runs, starts))
    assert (one.host, told(one)) == ("one", [("a", 0, 100)])
    assert (two.host, told(two)) == ("two", [("a", 0, 100), ("b", 0, 50)])
    assert two.chapters[0].doubt_from == two.chapters[0].base + 90


def test_a_host_that_comes_back_to_a_run_is_there_twice() -> None:
    runs = [run("a", 100, 0), run("b", 50, 1)]
    starts = [
        Start("a", "h", "", "**", 0, 1),
        Start("b", "h", "a", "**", 40, 3),
        Start("a", "h", "b", "**", 20, 60),
        Start("b", "h", "a", "**", 80, 30),
    ]
    gaps = (Gap("a", 70, 71), Gap("b", 5, 6))
    (history,) = histories_of(figures(runs, starts, gaps))
    assert told(history) == [("a", 0, 59), ("b", 0, 29), ("a", 60, 100), ("b", 30, 50)]
    bases = [chapter.base for chapter in history.chapters]
    assert bases == sorted(set(bases))
    assert history.gaps == (bases[1] + 6, bases[2] + 71)
    assert history.place_of(bases[2] + 65) == ("a", 65)
    doubts = [one.doubt_from - one.base for one in history.chapters[:3]]
    assert doubts == [40, 20, 80]
    assert all(one.is_told and not one.is_cut for one in history.chapters)


def test_of_two_brokers_each_may_take_over_from_the_other() -> None:
    runs = [run("a", 100, 0), run("b", 50, 1)]
    starts = [
        Start("a", "one", "", "**", 0, 1),
        Start("b", "two", "", "**", 0, 1),
        Start("a", "two", "b", "**", 30, 40),
        Start("b", "one", "a", "**", 60, 35),
    ]
    for history in histories_of(figures(runs, starts)):
        first, second = history.chapters
        assert (first.run, second.run) == (("a", "b") if history.host == "one" else ("b", "a"))
        assert first.base < second.base
        assert second.follows and not second.is_cut


def test_numbers_stay_when_a_later_audit_sees_more() -> None:
    known = Numbers({}, {})
    runs = [run("a", 50, 0), run("b", 20, 1)]
    starts = [Start("a", "h", "", "**", 0, 1), Start("b", "h", "a", "**", 40, 1)]
    (first,) = histories_of(figures(runs, starts), known)
    more = [run("a", 100, 0), run("b", 20, 1)]
    (later,) = histories_of(figures(more, [*starts, Start("a", "h", "b", "**", 20, 60)]), known)
    assert (later.number, later.chapters[0].base) == (first.number, first.chapters[0].base)
    assert [one.base >> RUN_BITS for one in later.chapters] == [1, 2, 3]
