"""Aside: what nobody may take comes back when that has changed, in order, a portion at a time."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.dispatch import aside as room
from covey.core.dispatch.aside import Aside
from tests.core.dispatch.test_dispatch import CountedIndex
from tests.core.support import Bench, policy

MANY = 5000
FEW = 1500  # look-ups of a turn that does a portion


def look_again(aside: Aside) -> list[int]:
    """Pass by all that is to be looked at again; return the numbers."""
    found = []
    while seq := aside.next():
        found.append(seq)
        assert aside.pass_by(seq)
    return found


def test_numbers_are_kept_in_order_however_they_come() -> None:
    aside = Aside(0)
    for seq in (5, 9, 2, 7):
        aside.add(seq)
    assert (aside.count, aside.first(), aside.next()) == (4, 2, 0)
    aside.recall(1)
    assert aside.count == 0
    assert look_again(aside) == [2, 5, 7, 9]
    assert aside.count == 4


def test_one_that_is_gone_is_not_looked_at_again() -> None:
    aside = Aside(0)
    for seq in (2, 5, 7):
        aside.add(seq)
    assert aside.discard(5) and not aside.discard(5)
    aside.recall(1)
    assert aside.discard(2)
    assert look_again(aside) == [7]
    assert aside.discard(7) and aside.is_empty
    assert aside.count == 0


@pytest.mark.parametrize("seed", range(40))
def test_by_chance_it_is_what_a_set_and_a_number_are(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = Random(seed)
    monkeypatch.setattr(room, "BLOCK_MAX", dice.randrange(1, 6))
    aside = Aside(0)
    numbers: set[int] = set()
    again = 10**9
    for _ in range(400):
        below = sorted(seq for seq in numbers if seq < again)
        above = sorted(seq for seq in numbers if seq >= again)
        assert aside.count == len(below)
        assert aside.next() == (above[0] if above else 0)
        assert aside.first() == min(numbers, default=0)
        act = dice.choice("aaaapppdr")
        if act == "a":
            seq = dice.randrange(above[0] if above else 500)
            if seq and seq not in numbers:
                aside.add(seq)
                numbers.add(seq)
                again = above[0] if above else 10**9
        elif act == "p" and above:
            assert aside.pass_by(above[0])
            again = above[0] + 1
        elif act == "d":
            seq = dice.randrange(1, 500)
            assert aside.discard(seq) == (seq in numbers)
            numbers.discard(seq)
        elif act == "r" and dice.random() < 0.3:
            aside.recall(1)
            again = 0
    some = aside.some_from(1, 3)
    assert some == sorted(numbers)[: len(some)]


def set_aside(groups: int, **settings: object) -> tuple[Bench, CountedIndex]:
    """Have very many messages set aside, of so many groups."""
    bench = Bench(settings=policy(**settings))  # type: ignore[arg-type]
    index = CountedIndex()
    bench.queue.state.index = index
    bench.join(selector="colour = 'red'")
    for number in range(MANY):
        bench.send(f"g{number % groups}", colour="blue")
    bench.pump()
    return bench, index


@pytest.mark.parametrize("groups", [1, 10, MANY])
def test_another_selector_looks_at_a_portion_of_them_at_a_time(groups: int) -> None:
    bench, index = set_aside(groups)
    index.looked = 0
    blue = bench.join(MANY, selector="colour = 'blue'")
    assert index.looked < 10
    while bench.queue.pump(bench.now, bench.wall_ms, 1000):
        assert index.looked < 4 * FEW
        index.looked = 0
    assert sorted(blue.got) == list(range(1, MANY + 1))
    for group in range(min(groups, 10)):
        own = [seq for seq in blue.got if (seq - 1) % groups == group]
        assert own == sorted(own)


def test_a_selector_that_nobody_s_messages_match_leaves_them_where_they_are() -> None:
    bench, _ = set_aside(1)
    lane = bench.queue.state.lanes["g0"]
    other = bench.join(selector="colour = 'green'")
    bench.pump()
    assert lane.aside is not None and lane.aside.count == MANY
    bench.queue.leave(other, bench.now)
    bench.pump()
    assert lane.aside.count == MANY
    assert other.got == []


def test_the_head_waits_for_what_came_back() -> None:
    bench = Bench("shared")
    red = bench.join(1, selector="colour = 'red'")
    for colour in ("blue", "blue", "red", "red"):
        bench.send("g", colour=colour)
    bench.pump()
    assert red.got == [3]
    anybody = bench.join(10, selector="colour <> 'green'")
    bench.settle(red)
    assert anybody.got[:2] == [1, 2]


def test_the_consumer_of_one_group_takes_what_was_set_aside_too() -> None:
    bench, index = set_aside(1)
    index.looked = 0
    own = bench.join(MANY, group="g0")
    bench.pump()
    assert own.got == list(range(1, MANY + 1))


def test_strict_selectors_that_come_later_hold_the_group_at_the_first_of_them() -> None:
    bench, index = set_aside(1)
    index.looked = 0
    bench.queue.apply(policy(strict=True))
    assert index.looked < 10
    bench.pump()
    lane = bench.queue.state.lanes["g0"]
    assert lane.head is not None and lane.head.seq == 1
    bench.queue.apply(policy())
    bench.pump()
    assert lane.aside is not None and lane.aside.count == MANY
