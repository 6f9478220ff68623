"""Asking: every lane is asked after a change, some at a time, whoever comes and goes meanwhile."""

from __future__ import annotations

from covey.core.dispatch.asking import Asking
from covey.core.dispatch.lane import Lane


def lanes_of(*names: str) -> dict[str, Lane]:
    return {name: Lane(name) for name in names}


def taken(asking: Asking, count: int = 100) -> str:
    """Take up to so many lanes; return their names."""
    found = ""
    for _ in range(count):
        lane = asking.next()
        if lane is None:
            break
        found += lane.name
    return found


def test_a_round_asks_each_lane_once() -> None:
    asking = Asking(lanes_of(*"abc"))
    assert not asking.is_any
    asking.add_all()
    assert asking.is_any
    assert taken(asking) == "abc"
    assert not asking.is_any


def test_a_change_amid_a_round_lets_it_go_on_and_another_follows() -> None:
    asking = Asking(lanes_of(*"abcd"))
    asking.add_all()
    assert taken(asking, 2) == "ab"
    for _ in range(3):
        asking.add_all()
    assert taken(asking) == "cd" + "abcd"
    assert not asking.is_any


def test_a_lane_that_came_amid_a_round_is_asked_in_the_next() -> None:
    lanes = lanes_of(*"ab")
    asking = Asking(lanes)
    asking.add_all()
    assert taken(asking, 1) == "a"
    lanes["c"] = Lane("c")
    asking.add_all()
    del lanes["a"]
    assert taken(asking) == "b" + "bc"


def test_single_lanes_come_behind_a_round() -> None:
    lanes = lanes_of(*"ab")
    asking = Asking(lanes)
    asking.add_all()
    asking.add(Lane("x"))
    asking.add_some([Lane("y"), Lane("z")])
    assert asking.count == 5
    assert taken(asking) == "abxyz"
    assert not asking.is_any


def test_without_lanes_there_is_nothing_to_ask() -> None:
    asking = Asking({})
    asking.add_all()
    assert not asking.is_any
    assert asking.next() is None
