"""The dispatch: the oldest first, within a budget, and nobody left who could take something.

ReadAhead: a browser takes what was read for it in order, and what is outdated does no harm.
"""

from __future__ import annotations

import pytest

from covey.core.dispatch.browsing import ReadAhead
from covey.core.dispatch.index import Index
from covey.core.events.event import EventKind
from covey.core.model.entry import Entry, Outcome
from covey.core.model.message import Message
from covey.core.queue import policy as commands
from covey.groups import make
from tests.core.support import Bench, policy
from tests.doubles import Letter


def test_of_all_that_can_go_the_oldest_goes_first() -> None:
    bench = Bench()
    reader = bench.join(0)
    bench.send_all("ab")
    bench.send()
    bench.send_all("ca")
    bench.send()
    reader.window.grant(6, 0)
    bench.pump()
    assert reader.got == [1, 2, 3, 4, 5, 6]


def test_a_budget_ends_the_pump_and_asks_for_another_turn() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send_all("abc")
    assert bench.queue.pump(bench.now, bench.wall_ms, 2)
    assert reader.got == [1, 2]
    assert not bench.queue.pump(bench.now, bench.wall_ms, 2)
    assert reader.got == [1, 2, 3]


def test_a_selector_scan_advances_even_with_the_smallest_budget() -> None:
    bench = Bench()
    reader = bench.join(selector="colour = 'red'")
    for colour in ("blue", "blue", "red"):
        bench.send(colour=colour)
    for _ in range(20):
        bench.queue.pump(bench.now, bench.wall_ms, 1)
    assert reader.got == [3]


def test_the_next_best_is_shown_when_the_best_is_parked_before_the_pump() -> None:
    bench = Bench("consistent-hash")
    reader = bench.join(0)
    bench.send_all("ab")
    bench.pump()
    reader.window.grant(5, 0)
    commands.park(bench.queue, "a", bench.now, parked=True)
    bench.pump()
    assert reader.got == [2]


def test_the_next_best_is_shown_when_the_best_runs_out() -> None:
    bench = Bench("consistent-hash")
    reader = bench.join(0)
    bench.send("a", ttl_ms=100)
    bench.send("b")
    bench.send("a")
    bench.pump()
    bench.now, bench.wall_ms = bench.now + 0.1, bench.wall_ms + 100
    reader.window.grant(1, 0)
    bench.pump()
    assert reader.got == [2]


def test_plain_messages_are_spread_by_weight() -> None:
    bench = Bench()
    light, heavy = bench.join(), bench.join(weight=3)
    for _ in range(40):
        bench.send()
    bench.pump()
    assert (len(light.got), len(heavy.got)) == (10, 30)


def test_one_that_comes_back_does_not_catch_up_on_what_it_missed() -> None:
    bench = Bench()
    steady, other, dry = bench.join(), bench.join(), bench.join(0)
    for _ in range(40):
        bench.send()
    bench.pump()
    dry.window.grant(100, 0)
    for _ in range(30):
        bench.send()
    bench.pump()
    assert len(dry.got) <= 11
    assert len(steady.got) + len(other.got) + len(dry.got) == 70


def test_without_round_robin_the_first_consumer_is_filled_first() -> None:
    bench = Bench(settings=policy(round_robin=False))
    first, second = bench.join(3), bench.join(3)
    for _ in range(4):
        bench.send()
    bench.pump()
    assert (first.got, second.got) == ([1, 2, 3], [4])


def test_priority_decides_who_gets_plain_messages_and_free_groups() -> None:
    bench = Bench()
    low, high = bench.join(), bench.join(2, priority=5)
    bench.send("a")
    bench.send()
    bench.send()
    bench.pump()
    assert (high.got, low.got) == ([1, 2], [3])


def test_whoever_has_become_idle_is_not_passed_over_for_its_past_load() -> None:
    bench = Bench("shared")
    busy = bench.join()
    bench.send_all("abc")
    bench.pump()
    other = bench.join()
    bench.send("d")
    bench.pump()
    assert (busy.got, other.got) == ([1, 2, 3], [4])
    bench.settle(busy)
    bench.send("e")
    bench.pump()
    assert busy.got == [1, 2, 3, 5]


def test_a_retired_consumer_gets_no_plain_message() -> None:
    bench = Bench()
    old, new = bench.join(), bench.join()
    commands.retire(bench.queue, old, bench.now)
    for _ in range(3):
        bench.send()
    bench.pump()
    assert (old.got, new.got) == ([], [1, 2, 3])


class CountedIndex(Index):
    """An index that counts how often a number is looked up."""

    __slots__ = ("looked",)

    def __init__(self) -> None:
        super().__init__()
        self.looked = 0

    def get(self, seq: int) -> Entry | None:
        self.looked += 1
        return super().get(seq)


@pytest.mark.parametrize("strategy", ["shared", "simple", "lru", "hash-buckets", "consistent-hash"])
def test_blocked_groups_cost_nothing(strategy: str) -> None:
    bench = Bench(strategy)
    index = CountedIndex()
    bench.queue.state.index = index
    blocker = bench.join(50)
    for i in range(2000):
        bench.send(f"g{i % 50}")
    bench.pump()
    blocker.window.count = 0
    free = bench.join()
    bench.pump()
    index.looked = 0
    for _ in range(20):
        bench.send()
        bench.pump()
    assert free.got[-20:] == list(range(2001, 2021))
    assert index.looked < 200


def test_a_browser_copies_and_ends_once() -> None:
    bench = Bench()
    bench.send_all("ab")
    browser = bench.browse(1)
    bench.pump()
    assert (browser.got, browser.ends) == ([1], 0)
    browser.window.grant(5, 0)
    bench.pump()
    bench.send("c")
    bench.pump()
    assert (browser.got, browser.ends) == ([1, 2], 1)
    assert bench.shown()["messages"] == 3


def test_a_browser_sees_what_a_consumer_settles_as_it_is_sent() -> None:
    bench = Bench()
    browser = bench.browse()
    browser.browse_ends = False
    reader = bench.join(presettled=True)
    for group in ("", "a", "a", ""):
        bench.send(group)
        bench.pump()
    assert browser.got == reader.got == [1, 2, 3, 4]


def test_browsers_have_half_of_a_pump_that_ends_early() -> None:
    bench = Bench()
    browsers = [bench.browse(1000), bench.browse(1000)]
    reader = bench.join(1000)
    for _ in range(500):
        bench.send("a")
    assert bench.queue.pump(bench.now, bench.wall_ms, 100)
    assert [len(browser.got) for browser in browsers] == [25, 25]
    assert len(reader.got) == 50
    assert bench.queue.pump(bench.now, bench.wall_ms, 1)
    assert len(reader.got) == 51
    bench.pump()
    assert [len(browser.got) for browser in browsers] == [500, 500]


def test_a_browser_from_the_next_number_sees_only_what_comes() -> None:
    bench = Bench()
    bench.send()
    browser = bench.browse(from_seq=-1)
    browser.browse_ends = False
    bench.send()
    bench.pump()
    assert browser.got == [2]


def test_a_returned_message_behind_the_cursor_is_seen_again() -> None:
    bench = Bench()
    reader = bench.join(3)
    for _ in range(3):
        bench.send()
    bench.pump()
    bench.settle(reader, 2, outcome=Outcome.RELEASED)
    reader.window.grant(1, 0)
    bench.pump()
    assert reader.got == [1, 2, 3, 2]


def test_a_bounded_map_that_had_to_grow_says_so_once() -> None:
    bench = Bench("lru", policy(cache_size=2))
    reader = bench.join()
    bench.send_all("ABCD")
    bench.pump()
    told = bench.events.kinds(EventKind.GROUPS_OVER_SIZE)
    assert len(told) == 1
    bench.settle(reader)
    assert bench.shown()["groups_over_size"] == 0


def test_the_next_bounded_map_says_so_too() -> None:
    bench = Bench("lru", policy(cache_size=2))
    bench.join()
    bench.send_all("ABC")
    bench.pump()
    commands.change_strategy(bench.queue, make("lru", cache_size=1), bench.now)
    bench.send_all("DE")
    bench.pump()
    assert len(bench.events.kinds(EventKind.GROUPS_OVER_SIZE)) == 2


def read(*numbers: int) -> tuple[ReadAhead, dict[int, Message]]:
    read_ahead = ReadAhead(numbers[0])
    letters: dict[int, Message] = {number: Letter() for number in numbers}
    for number, letter in letters.items():
        read_ahead.put(number, letter)
    return read_ahead, letters


def test_messages_are_taken_once_and_vanished_ones_passed_over() -> None:
    read_ahead, letters = read(3, 4, 5, 6)
    assert read_ahead.take(3) is letters[3]
    assert read_ahead.take(6) is letters[6]
    assert len(read_ahead) == 0


def test_what_was_not_read_is_where_the_next_page_begins() -> None:
    read_ahead, _ = read(3, 5, 6)
    assert read_ahead.take(4) is None
    assert (read_ahead.ahead, len(read_ahead)) == (4, 0)


def test_while_a_page_is_under_way_nothing_is_asked_for_again() -> None:
    read_ahead, letters = read(3)
    read_ahead.ahead, read_ahead.is_asked = 9, True
    assert read_ahead.take(4) is None
    assert read_ahead.ahead == 9
    read_ahead.put(4, letters[3])
    assert read_ahead.take(4) is letters[3]


LANES = 20_000


def test_heads_of_a_consumer_without_credit_are_passed_over_in_portions() -> None:
    bench = Bench("consistent-hash")
    index = bench.queue.state.index = CountedIndex()
    reader = bench.join(1)
    for i in range(LANES):
        bench.send(f"g{i}")
    index.looked = 0
    assert bench.queue.pump(bench.now, bench.wall_ms, 1000)
    assert index.looked < LANES // 2
    bench.pump()
    reader.window.grant(LANES, 0)
    bench.pump()
    assert reader.got == list(range(1, LANES + 1))


def test_open_groups_that_others_took_meanwhile_are_passed_over_in_portions() -> None:
    bench = Bench()
    index = bench.queue.state.index = CountedIndex()
    slow = bench.join(0, selector="1 = 1")
    busy = bench.join(LANES, selector="2 = 2")
    for i in range(LANES):
        bench.send(f"g{i}")
    bench.pump()
    bench.settle(busy)
    bench.send("last")
    slow.window.grant(1, 0)
    bench.queue.dispatch.offer(slow)
    index.looked = 0
    assert bench.queue.pump(bench.now, bench.wall_ms, 1000)
    assert index.looked < LANES // 2
    bench.pump()
    assert slow.got == [LANES + 1]
