"""The line: who is next, with places that turn void by themselves."""

from __future__ import annotations

from covey.core.dispatch.view import LANES, VOID_SPARED, Line, View
from covey.core.model.consumer import Window
from tests.core.support import Reader


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
