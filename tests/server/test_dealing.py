"""Dealing: virtual hosts go to workers evenly, and keep theirs."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from covey.server.dealing import Seat, deal

SPACES = st.lists(st.text(min_size=1, max_size=3), max_size=12, unique=True)


def test_virtual_hosts_are_dealt_in_turn() -> None:
    assert deal(["a", "b", "c"], {}, 2) == {"a": 0, "b": 1, "c": 0}


def test_fewer_virtual_hosts_than_workers_leave_workers_without_one() -> None:
    assert deal(["a", "b"], {}, 4) == {"a": 0, "b": 1}


@given(before=SPACES, after=SPACES, count=st.integers(1, 5))
def test_no_worker_has_two_more_than_another_and_nobody_moves(
    before: list[str], after: list[str], count: int
) -> None:
    table = deal(before, {}, count)
    dealt = deal([*after, *before], table, count)
    assert {space: dealt[space] for space in before} == table
    loads = Counter(dict.fromkeys(range(count), 0)) + Counter(dealt.values())
    counts = [loads.get(number, 0) for number in range(count)]
    assert max(counts) - min(counts) <= 1
    assert set(dealt) == {*before, *after}


def test_everybody_deals_the_same() -> None:
    table = {"a": 1, "b": 0}
    assert deal(["c", "a", "d"], table, 2) == deal(["c", "d"], table, 2)


def test_a_seat_knows_what_is_its_own_and_who_else_serves() -> None:
    seat = Seat(1, 4, {"a": 0, "b": 1, "c": 2})
    assert [space for space in "abcd" if seat.is_ours(space)] == ["b"]
    assert seat.others == [0, 2]  # the fourth has nothing to do yet, so it does not run


def test_seats_of_two_brokers_have_different_addresses() -> None:
    first, second = Seat(0, 2, {}), Seat(0, 2, {})
    assert first.address(0) != second.address(0)
    assert first.address(0) != first.address(1)
    assert first.address(0).startswith("\0")  # no file that could be left behind
