"""Commands of an operator: none breaks a promise."""

from __future__ import annotations

from covey.core.events.event import EventKind
from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
from covey.core.queue.purge import Purge
from covey.groups import make
from tests.core.support import Bench
from tests.doubles import at_once


def test_closing_an_unknown_group_says_so_and_forgets_its_owner() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send("a")
    bench.pump()
    bench.settle(reader)
    assert bench.queue.state.strategy.owner("a") == reader.id
    assert not commands.close_group(bench.queue, "a", bench.now)
    assert bench.queue.state.strategy.owner("a") == 0
    assert [event[1] for event in bench.events.kinds(EventKind.GROUP_CLOSE)] == ["a"]


def test_a_parked_group_waits_and_goes_on_in_order() -> None:
    bench = Bench()
    reader = bench.join(0)
    bench.send_all("aab")
    commands.park(bench.queue, "a", bench.now, parked=True)
    reader.window.grant(9, 0)
    bench.pump()
    assert reader.got == [3]
    commands.park(bench.queue, "a", bench.now, parked=False)
    bench.pump()
    assert reader.got == [3, 1, 2]


def test_a_parked_group_waits_though_it_ran_empty() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send("a")
    bench.pump()
    commands.park(bench.queue, "a", bench.now, parked=True)
    bench.settle(reader)
    group = bench.groups()["a"]
    assert (group["messages"], group["owner"], group["why"]) == (0, 0, "parked")
    bench.send_all("ab")
    bench.pump()
    assert reader.got == [1, 3]
    commands.park(bench.queue, "a", bench.now, parked=False)
    bench.pump()
    assert reader.got == [1, 3, 2]


def test_a_shared_group_that_ran_empty_while_parked_is_free_again() -> None:
    bench = Bench("shared")
    first, second = bench.join(1), bench.join(0)
    entry = bench.send("a", ttl_ms=1000)
    bench.pump()
    commands.park(bench.queue, "a", bench.now, parked=True)
    bench.wait(2)
    bench.queue.settle(entry, Outcome.RELEASED, bench.now)  # it has run out
    bench.pump()
    bench.send("a")
    commands.park(bench.queue, "a", bench.now, parked=False)
    second.window.grant(1, 0)
    bench.pump()
    assert (first.got, second.got) == ([1], [2])


def test_an_empty_group_is_gone_once_it_may_go_on() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send("a")
    bench.pump()
    commands.park(bench.queue, "a", bench.now, parked=True)
    bench.settle(reader)
    commands.park(bench.queue, "a", bench.now, parked=False)
    assert bench.groups() == {}
    assert bench.queue.state.parked == {}


def test_a_rebalance_spreads_groups_over_those_who_came_late() -> None:
    bench = Bench()
    first = bench.join()
    bench.send_all("ab")
    bench.pump()
    second = bench.join()
    bench.settle(first)
    bench.send_all("ab")
    commands.rebalance(bench.queue, bench.now)
    bench.pump()
    assert len(first.got) == 3 and len(second.got) == 1


def test_a_new_strategy_decides_from_now_on_and_order_holds() -> None:
    bench = Bench()
    old = bench.join(2)
    bench.send_all("aaa")
    bench.pump()
    new = bench.join()
    commands.change_strategy(bench.queue, make("shared"), bench.now)
    bench.send("b")
    bench.pump()
    assert new.got == [4]
    bench.settle(old)
    assert new.got == [4, 3]


def test_after_a_change_the_old_loads_do_not_count() -> None:
    bench = Bench()
    loaded = bench.join()
    bench.send_all("abc")
    bench.pump()
    bench.settle(loaded)
    other = bench.join()
    bench.send("d")
    bench.pump()
    commands.change_strategy(bench.queue, make("simple"), bench.now)
    bench.send_all("ef")
    bench.pump()
    assert (len(loaded.got), len(other.got)) == (4, 2)


def test_a_purge_spares_what_is_acquired() -> None:
    bench = Bench()
    reader = bench.join(1)
    bench.send_all("aab")
    bench.send()
    bench.pump()
    assert at_once(Purge(bench.queue)).count == 3
    assert bench.queue.counters.dropped == 3
    assert bench.shown()["messages"] == 1
    bench.settle(reader)
    assert bench.groups() == {}


def test_a_trim_drops_up_to_a_number_what_nobody_holds_and_marks_it() -> None:
    bench = Bench()
    reader = bench.join(1)
    bench.send_all("ab")
    bench.send_all("cd")
    bench.pump()
    assert reader.got == [1]
    assert at_once(Purge(bench.queue, 3)).count == 2
    assert [entry.seq for entry in bench.queue.state.index] == [1, 4]
    assert bench.queue.dropped_to == 3
    bench.settle(reader)
    assert bench.queue.dropped_to == 3
