"""The view: what a selector and a from-seq let through, each message looked at once."""

from __future__ import annotations

from covey.core.dispatch.lane import Lane
from covey.core.dispatch.ungrouped import TRIM_MIN
from covey.core.dispatch.view import LANES, VOID_SPARED, Line, View
from covey.core.model.consumer import Window
from covey.core.model.entry import ACQUIRED, AWAY, GONE, PENDING, Entry, Outcome
from tests.core.support import Bench, policy, selector_of
from tests.doubles import Letter, Reader

PLAIN = Lane("", is_grouped=False)


def entry(seq: int, colour: str = "red", state: int = PENDING) -> Entry:
    return Entry(seq, Letter(colour=colour), PLAIN, state)


def test_a_view_matches_by_selector_and_from_seq() -> None:
    view = View(selector_of("colour = 'red'"), 5)
    assert view.matches(entry(5))
    assert not view.matches(entry(4))
    assert not view.matches(entry(5, "blue"))


def test_trim_drops_gone_entries_only() -> None:
    view = View(None, 0)
    view.todo.extend([entry(1, state=GONE), entry(2), entry(3, state=ACQUIRED)])
    view.todo.append(entry(4, state=AWAY))
    view.trim()
    assert [one.seq for one in view.todo] == [2, 3, 4]


def test_consumers_with_the_same_wish_share_a_view() -> None:
    bench = Bench()
    readers = [bench.join(selector="colour = 'red'") for _ in range(2)]
    assert readers[0].view is readers[1].view
    assert bench.join(selector="colour = 'red'", from_seq=9).view is not readers[0].view
    assert bench.join(selector="colour = 'red'", exclusive=True).view is not readers[0].view


def test_each_message_is_tested_once_per_distinct_selector() -> None:
    bench = Bench()
    lookups: list[int] = []

    class Counted(Letter):
        def lookup(self, name: str) -> str:
            lookups.append(1)
            return "red"

    for _ in range(5):
        bench.join(selector="colour = 'blue'")
    for _ in range(10):
        bench.queue.enqueue(Counted())
    bench.pump()
    bench.pump()
    assert len(lookups) == 10


def test_a_view_without_credit_does_not_keep_what_others_consumed() -> None:
    bench = Bench()
    dry = bench.join(0, selector="colour = 'red'")
    busy = bench.join(10_000)
    for _ in range(1000):
        bench.send(colour="red")
        bench.pump()
        bench.settle(busy)
    assert dry.view is not None
    assert len(dry.view.todo) <= TRIM_MIN + 1


def test_a_view_without_credit_does_not_keep_every_return() -> None:
    bench = Bench()
    busy = bench.join(0)
    dry = bench.join(1, selector="colour = 'red'")
    bench.send(colour="red")
    bench.pump()
    bench.settle(dry, outcome=Outcome.RELEASED)
    busy.window.grant(10_000, 0)
    bench.pump()
    for _ in range(500):
        bench.settle(busy, outcome=Outcome.RELEASED)
    assert dry.view is not None
    assert len(dry.view.back) <= TRIM_MIN + 3


def test_a_message_that_waits_for_its_retry_survives_a_trim() -> None:
    bench = Bench(settings=policy(delay_ms=1000))
    reader = bench.join(1)
    bench.send(colour="red")
    bench.pump()
    bench.settle(reader, outcome=Outcome.FAILED)
    other = bench.join(0, selector="colour = 'red'")
    for view in bench.queue.state.views:
        view.trim()
    reader.window.grant(1, 0)
    bench.wait(1.0)
    assert reader.got == [1, 1]
    assert other.got == []


# The line: who is next, with places that turn void by themselves.


def reader_in(view: View, *, priority: int = 0, credit: int = 1) -> Reader:
    reader = Reader(Window(credit))
    reader.priority = priority
    reader.view = view
    view.members.append(reader)
    return reader


def test_priority_comes_before_load_and_load_before_waiting_time() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    low, loaded, waiting, recent = (reader_in(view, priority=p) for p in (0, 1, 1, 1))
    line.push(low, 0.0, 0, 1)
    line.push(loaded, 2.0, 0, 2)
    line.push(recent, 1.0, 9, 3)
    line.push(waiting, 1.0, 3, 4)
    order = []
    for _ in range(4):
        best = line.best()
        assert best is not None
        order.append(best)
        best.window.count = 0
    assert order == [waiting, recent, loaded, low]


def test_one_that_is_not_willing_loses_its_place_and_nobody_else_does() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    dry, willing = reader_in(view, credit=0), reader_in(view)
    line.push(dry, 0.0, 0, 1)
    line.push(willing, 5.0, 0, 2)
    assert line.best() is willing
    assert dry.places[LANES] == 0


def test_a_place_of_another_view_is_void() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    moved = reader_in(view)
    line.push(moved, 0.0, 0, 1)
    moved.view = View(None, 7)
    assert line.best() is None


def test_a_new_place_voids_the_old_one() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    first, second = reader_in(view), reader_in(view)
    line.push(first, 0.0, 0, 1)
    line.push(second, 1.0, 0, 2)
    line.push(first, 2.0, 0, 3)
    assert line.best() is second


def test_void_places_do_not_pile_up() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    best, other = reader_in(view), reader_in(view)
    line.push(best, 0.0, 0, 1)
    for place in range(2, 1000):
        line.push(other, 1000.0 - place, 0, place)
    assert len(line.heap) <= 2 * len(view.members) + VOID_SPARED
    assert line.best() is best


def test_those_who_have_left_do_not_pile_up_where_nothing_is_handed_out() -> None:
    view = View(None, 0)
    line = Line(view, LANES)
    staying = reader_in(view)
    line.push(staying, 0.0, 0, 1)
    for place in range(2, 10 * VOID_SPARED):
        leaving = reader_in(view)
        line.push(leaving, 0.0, 0, place)
        view.members.remove(leaving)
        leaving.view = None
    assert len(line.heap) <= VOID_SPARED + 4
    assert line.best() is staying
