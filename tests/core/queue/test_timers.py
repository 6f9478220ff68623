"""The timers: every deadline is announced, and met by the pump that comes then; expiry is one."""

from __future__ import annotations

import pytest

from covey.core.events.event import EventKind
from covey.core.model.entry import STORING, Outcome
from covey.core.queue import policy as commands
from covey.core.queue import timers
from tests.core.support import Bench, policy


def test_an_idle_queue_has_no_deadline() -> None:
    bench = Bench()
    bench.join()
    bench.pump()
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == 0


def test_the_nearest_deadline_is_announced() -> None:
    bench = Bench(settings=policy(delay_ms=5000, sticky_return_s=3.0))
    reader = bench.join(1)
    bench.send()
    bench.pump()
    bench.settle(reader, outcome=Outcome.FAILED)
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 5
    bench.leave(bench.join(client_id="x"))
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 3
    bench.send(ttl_ms=200)
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 1


def test_a_long_drain_is_reported() -> None:
    bench = Bench(settings=policy(drain_limit_s=2.0))
    bench.join(1)
    bench.send_all("aa")
    bench.pump()
    commands.close_group(bench.queue, "a", bench.now)
    bench.wait(1.9)
    assert bench.events.kinds(EventKind.DRAIN_OVERDUE) == []
    bench.wait(0.1)
    assert bench.events.kinds(EventKind.DRAIN_OVERDUE) == [(EventKind.DRAIN_OVERDUE, "a", 1, 0)]


def test_a_drain_is_reported_at_its_very_second_and_only_for_the_time_it_drains() -> None:
    bench = Bench(settings=policy(drain_limit_s=0.3))
    bench.now = 1.1
    bench.join(1)
    bench.send_all("aa")
    bench.pump()
    commands.close_group(bench.queue, "a", bench.now)
    bench.wait(0.2)
    commands.park(bench.queue, "a", bench.now, parked=True)
    commands.park(bench.queue, "a", bench.now, parked=False)
    bench.wait(0.1)
    assert bench.events.kinds(EventKind.DRAIN_OVERDUE) == []
    deadline = bench.queue.next_deadline(bench.now, bench.wall_ms)
    bench.wait(deadline - bench.now)
    assert len(bench.events.kinds(EventKind.DRAIN_OVERDUE)) == 1


def test_the_owner_of_an_idle_group_is_forgotten_after_one_to_two_turns() -> None:
    bench = Bench(settings=policy(forget_idle_s=10.0))
    reader = bench.join()
    bench.send("a")
    bench.pump()
    bench.settle(reader)
    strategy = bench.queue.state.strategy
    assert strategy.owner("a") == reader.id
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 10
    bench.wait(10)
    assert strategy.owner("a") == reader.id
    bench.wait(10)
    assert strategy.owner("a") == 0
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == 0


# Expiry on a queue.


def test_nothing_is_delivered_after_its_time_even_within_its_second() -> None:
    bench = Bench()
    bench.send(ttl_ms=100)
    bench.send("a", ttl_ms=100)
    bench.wait(0.1)
    reader = bench.join()
    bench.pump()
    assert reader.got == []
    assert bench.queue.counters.expired == 2


def test_an_acquired_message_does_not_expire_but_is_dropped_when_it_comes_back() -> None:
    bench = Bench("shared")
    reader = bench.join(1)
    bench.send("a", ttl_ms=100)
    bench.send("a")
    bench.pump()
    bench.wait(5)
    assert reader.held() == [1]
    bench.settle(reader, outcome=Outcome.RELEASED)
    assert bench.queue.counters.expired == 1
    reader.window.grant(1, 0)
    bench.pump()
    assert reader.got == [1, 2]


def test_a_message_that_ran_out_during_its_commit_is_dropped_then() -> None:
    bench = Bench()
    storing = bench.send("a", ttl_ms=100, state=STORING)
    bench.wait(5)
    assert bench.shown()["messages"] == 1
    bench.queue.committed(storing)
    assert bench.shown()["messages"] == 0
    assert bench.groups() == {}


def test_a_failed_plain_message_that_ran_out_is_dropped_not_retried() -> None:
    bench = Bench(settings=policy(delay_ms=60_000))
    reader = bench.join()
    bench.send(ttl_ms=100)
    bench.pump()
    bench.wait(5)
    bench.settle(reader, outcome=Outcome.FAILED)
    assert bench.shown()["messages"] == 0
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == 0


def test_a_browser_does_not_see_what_ran_out() -> None:
    bench = Bench()
    bench.send(ttl_ms=100)
    bench.send()
    bench.now, bench.wall_ms = bench.now + 0.1, bench.wall_ms + 100
    browser = bench.browse()
    bench.pump()
    assert browser.got == [2]


def test_very_many_that_run_out_together_go_in_portions_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "DUE_PORTION", 10)
    bench = Bench()
    for _ in range(25):
        bench.send(ttl_ms=500)
    bench.send()
    bench.now, bench.wall_ms = bench.now + 2.0, bench.wall_ms + 2000
    gone = []
    while bench.queue.pump(bench.now, bench.wall_ms, 1000):
        gone.append(bench.queue.counters.expired)
        assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now
    assert (gone, bench.queue.counters.expired) == ([10, 20], 25)
    expired = [seq for _, _, _, seq in bench.events.kinds(EventKind.EXPIRE)]
    assert expired == list(range(1, 26))
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == 0


def test_nothing_is_delivered_late_while_the_rest_waits_for_its_portion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "DUE_PORTION", 10)
    bench = Bench()
    for _ in range(25):
        bench.send(ttl_ms=500)
    bench.send()
    bench.now, bench.wall_ms = bench.now + 2.0, bench.wall_ms + 2000
    reader = bench.join()
    bench.pump()
    assert reader.got == [26]
