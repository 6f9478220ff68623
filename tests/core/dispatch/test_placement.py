"""Placement: the gate, the cap, and events that pair up."""

from __future__ import annotations

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.dispatch.lane import DRAINING, HELD, OPEN, READY
from covey.core.events.event import EventKind
from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
from covey.core.queue.purge import Purge
from tests.core.support import Bench, policy
from tests.doubles import at_once


def test_a_group_drains_before_it_moves_and_nothing_else_waits() -> None:
    bench = Bench()
    old = bench.join(2)
    bench.send_all("aaab")
    bench.pump()
    assert old.got == [1, 2]
    new = bench.join()
    commands.close_group(bench.queue, "a", bench.now)
    bench.pump()
    lane = bench.queue.state.lanes["a"]
    assert (lane.where, new.got) == (DRAINING, [4])
    bench.settle(old, 1)
    assert new.got == [4]
    bench.settle(old, 2)
    assert new.got == [4, 3]
    assert lane.where != DRAINING


def test_assign_and_revoke_pair_up_and_drains_do_too() -> None:
    bench = Bench("shared")
    reader = bench.join(1)
    bench.send_all("aa")
    bench.pump()
    bench.settle(reader)
    events = bench.events.kinds(EventKind.ASSIGN, EventKind.REVOKE)
    assert events == [(EventKind.ASSIGN, "a", 1, 0), (EventKind.REVOKE, "a", 1, 0)]
    reader.window.grant(1, 0)
    bench.pump()
    commands.close_group(bench.queue, "a", bench.now)
    bench.send("a")
    bench.settle(reader)
    kinds = [event[0] for event in bench.events.kinds(EventKind.DRAIN_START, EventKind.DRAIN_END)]
    assert kinds == [EventKind.DRAIN_START, EventKind.DRAIN_END] * (len(kinds) // 2)


def test_a_lane_says_where_it_stands() -> None:
    bench = Bench(settings=policy(unsettled_max=1))
    bench.send_all("ab")
    lanes = bench.queue.state.lanes
    assert lanes["a"].where == OPEN
    reader = bench.join(1)
    bench.send("a")
    bench.pump()
    assert (lanes["a"].where, lanes["a"].why) == (
        HELD,
        "1 unsettled messages, the most its policy allows",
    )
    bench.settle(reader)
    assert lanes["a"].where == READY
    assert lanes["a"].blocked_since == 0


def test_the_cap_limits_what_is_out_of_one_group() -> None:
    bench = Bench(settings=policy(unsettled_max=2))
    reader = bench.join()
    bench.send_all("aaab")
    bench.pump()
    assert reader.got == [1, 2, 4]
    bench.settle(reader, 2, outcome=Outcome.RELEASED)
    assert reader.got == [1, 2, 4, 2]
    bench.settle(reader, 1)
    assert reader.got == [1, 2, 4, 2, 3]


def test_many_dead_entries_behind_the_head_are_let_go() -> None:
    bench = Bench()
    bench.send("a")
    for _ in range(500):
        bench.send("a", ttl_ms=100)
    bench.wait(2)
    lane = bench.queue.state.lanes["a"]
    assert lane.count == 1
    assert lane.gone is None or len(lane.gone) < 100


def test_a_group_that_goes_while_its_head_is_in_the_store_is_let_go() -> None:
    bench = Bench()
    queue = bench.queue
    entry = bench.send("a")
    entry.message = None
    queue.storage_state.out += 1
    queue.storage_state.resident -= entry.size
    queue.placement.resolve(entry.lane)
    assert list(queue.state.unread) == [entry.lane]
    at_once(Purge(queue))
    assert not queue.state.unread


def test_the_events_tell_of_an_eviction_before_the_group_comes_again() -> None:
    bench = Bench("lru", QueueSettings(groups=GroupSettings(cache_size=1)))
    first, second = bench.join(1), bench.join(1)
    bench.send_all("ab")  # both are busy: the map outgrows its size until one is empty
    bench.pump()
    bench.settle(first)
    assert [event[1] for event in bench.events.kinds(EventKind.EVICT)] == ["a"]
    bench.settle(second)
    assert [event[1] for event in bench.events.kinds(EventKind.EVICT)] == ["a"]
