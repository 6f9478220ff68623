"""The timers: every deadline is announced, and met by the pump that comes then."""

from __future__ import annotations

from covey.core.events.event import EventKind
from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
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
