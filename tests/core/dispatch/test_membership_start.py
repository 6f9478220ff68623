"""The start of the dispatch (R-3, A-17): by count, by time, and again after everybody left."""

from __future__ import annotations

from tests.core.support import Bench, policy


def test_nothing_goes_out_before_enough_consumers_are_there() -> None:
    bench = Bench(settings=policy(consumers_before=2, time_before_ms=60_000))
    bench.send_all("ab")
    first = bench.join()
    bench.pump()
    assert first.got == []
    second = bench.join()
    bench.pump()
    assert first.got + second.got == [1, 2]


def test_the_time_runs_from_the_first_consumer() -> None:
    bench = Bench(settings=policy(consumers_before=5, time_before_ms=1000))
    bench.send("a")
    bench.wait(10)
    reader = bench.join()
    bench.wait(0.9)
    assert reader.got == []
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 0.1
    bench.wait(0.1)
    assert reader.got == [1]


def test_it_goes_on_when_consumers_leave_and_waits_again_after_the_last() -> None:
    bench = Bench(settings=policy(consumers_before=2, time_before_ms=60_000))
    first, second = bench.join(), bench.join()
    bench.pump()
    bench.leave(second)
    bench.send("a")
    bench.pump()
    assert first.got == [1]
    bench.leave(first)
    third = bench.join()
    bench.pump()
    assert third.got == []


def test_browsers_count_and_absent_clients_do_not() -> None:
    bench = Bench(settings=policy(consumers_before=2, time_before_ms=60_000, sticky_return_s=60.0))
    bench.send("a")
    away = bench.join(client_id="x")
    bench.leave(away)
    reader = bench.join()
    bench.pump()
    assert reader.got == []
    bench.browse()
    bench.pump()
    assert reader.got == [1]


def test_a_change_of_policy_does_not_begin_what_waits_for_consumers() -> None:
    bench = Bench(settings=policy(consumers_before=2, time_before_ms=1000))
    bench.send("a")
    reader = bench.join()
    bench.pump()
    bench.queue.apply(policy(consumers_before=2, time_before_ms=1000, nak_limit=3))
    bench.pump()
    assert reader.got == []
    bench.wait(1)
    assert reader.got == [1]


def test_a_policy_that_does_not_wait_any_more_begins_at_once() -> None:
    bench = Bench(settings=policy(consumers_before=2, time_before_ms=1000))
    bench.send("a")
    reader = bench.join()
    bench.pump()
    bench.queue.apply(policy())
    bench.pump()
    assert reader.got == [1]
    bench.queue.apply(policy(consumers_before=2, time_before_ms=1000))
    bench.send("a")
    bench.pump()
    assert reader.got == [1, 2]  # who is being served is not kept waiting
