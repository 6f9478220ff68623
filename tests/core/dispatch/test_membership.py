"""Membership: starting, joining, leaving, retiring, coming back, and being exclusive."""

from __future__ import annotations

import pytest

from covey.core.dispatch import dispatch
from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
from tests.core.support import Bench, policy


def test_a_leaver_s_messages_return_in_order_to_its_groups_next_owner() -> None:
    bench = Bench()
    old, new = bench.join(4), bench.join(0)
    bench.send_all("aab")
    bench.send()
    bench.pump()
    new.window.grant(9, 0)
    bench.leave(old)
    assert new.got == [1, 2, 3, 4]
    assert [entry.deliveries for entry in new.entries] == [1, 1, 1, 1]


def test_an_uncounted_leave_does_not_count_a_delivery() -> None:
    bench = Bench()
    old = bench.join(1)
    entry = bench.send("a")
    bench.pump()
    bench.queue.leave(old, bench.now, counted=False)
    assert entry.deliveries == 0


def test_a_queue_that_all_have_left_keeps_none_of_them() -> None:
    bench = Bench()
    for reader in [bench.join(), bench.join()]:
        bench.leave(reader)
    view = bench.queue.state.default_view
    assert not view.lane_line.heap
    assert not view.ungrouped_line.heap


def test_a_second_leave_changes_nothing() -> None:
    bench = Bench()
    reader = bench.join()
    bench.leave(reader)
    bench.leave(reader)
    assert bench.shown()["consumers"] == 0


def test_a_client_that_returns_in_time_finds_its_groups() -> None:
    bench = Bench(settings=policy(sticky_return_s=10.0))
    before = bench.join(client_id="x")
    bench.send_all("ab")
    bench.pump()
    bench.leave(before)
    other = bench.join()
    bench.pump()
    assert other.got == []
    bench.now += 9
    after = bench.join(client_id="x")
    bench.pump()
    assert (after.got, other.got) == ([1, 2], [])


def test_the_groups_of_a_client_that_does_not_return_are_free() -> None:
    bench = Bench(settings=policy(sticky_return_s=10.0))
    bench.send("a")
    before = bench.join(client_id="x")
    bench.pump()
    bench.leave(before)
    other = bench.join()
    bench.wait(10)
    assert other.got == [1]


def test_two_consumers_of_one_client_each_find_their_groups() -> None:
    bench = Bench(settings=policy(sticky_return_s=10.0))
    pair = [bench.join(1, client_id="x"), bench.join(1, client_id="x")]
    bench.send_all("ab")
    bench.pump()
    for reader in pair:
        bench.leave(reader)
    back = [bench.join(client_id="x"), bench.join(client_id="x")]
    bench.pump()
    assert [reader.got for reader in back] == [reader.got for reader in pair]
    bench.leave(back[0])
    bench.leave(back[1])
    other = bench.join()
    bench.wait(10)
    assert other.got == [1, 2]


def test_a_retiring_consumer_keeps_its_groups_until_they_are_empty() -> None:
    bench = Bench()
    old = bench.join(2)
    bench.send_all("ab")
    bench.pump()
    new = bench.join()
    commands.retire(bench.queue, old, bench.now)
    old.window.grant(9, 0)
    bench.send_all("ac")
    bench.pump()
    assert (old.got, new.got) == ([1, 2, 3], [4])
    bench.settle(old)
    bench.send_all("ab")
    bench.pump()
    assert new.got == [4, 5, 6]


def test_a_retiring_client_is_not_waited_for() -> None:
    bench = Bench(settings=policy(sticky_return_s=10.0))
    old = bench.join(client_id="x")
    bench.send("a")
    bench.pump()
    commands.retire(bench.queue, old, bench.now)
    bench.leave(old)
    new = bench.join()
    bench.pump()
    assert new.got == [1]


def test_a_close_takes_a_group_from_a_retiring_consumer_too() -> None:
    bench = Bench()
    old, new = bench.join(1), bench.join(0)
    bench.send("a")
    bench.pump()
    commands.retire(bench.queue, old, bench.now)
    old.window.grant(9, 0)
    new.window.grant(9, 0)
    bench.send("a", sequence=-1)
    bench.send("a")
    bench.pump()
    bench.settle(old)
    assert (old.got, new.got) == ([1, 2], [3])


def test_an_exclusive_consumer_has_what_it_matches_for_itself() -> None:
    bench = Bench()
    first = bench.join()
    chosen = bench.join(exclusive=True, selector="colour = 'red'")
    for colour in ("red", "blue"):
        bench.send("a" + colour, colour=colour)
        bench.send(colour=colour)
    bench.pump()
    assert (chosen.got, first.got) == ([1, 2], [3, 4])


def test_of_two_exclusive_consumers_priority_then_age_decides() -> None:
    bench = Bench()
    first, second = bench.join(exclusive=True), bench.join(exclusive=True)
    bench.send()
    bench.pump()
    best = bench.join(exclusive=True, priority=1)
    bench.send()
    bench.pump()
    assert (first.got, second.got, best.got) == ([1], [], [2])


def test_a_retiring_exclusive_consumer_lets_the_others_work() -> None:
    bench = Bench()
    chosen, other = bench.join(exclusive=True), bench.join()
    commands.retire(bench.queue, chosen, bench.now)
    bench.send("a")
    bench.send()
    bench.pump()
    assert (chosen.got, other.got) == ([], [1, 2])


def test_what_comes_back_from_the_side_goes_before_the_old_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even while the lane still waits for its turn to be asked again."""
    monkeypatch.setattr(dispatch, "STALE_PORTION", 0)
    bench = Bench()
    red = bench.join(0, selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.send("a", colour="red")
    anybody = bench.join(9)
    red.window.grant(9, 0)
    bench.queue.pump(bench.now, bench.wall_ms, 1000)
    assert (red.got, anybody.got) == ([], [])
    monkeypatch.setattr(dispatch, "STALE_PORTION", 1)
    bench.pump()
    assert (red.got, anybody.got) == ([], [1, 2, 3])


def test_a_returned_message_waits_for_the_exclusive_consumer() -> None:
    bench = Bench()
    reader = bench.join(1)
    bench.send()
    bench.pump()
    chosen = bench.join(0, exclusive=True)
    reader.window.grant(5, 0)
    bench.settle(reader, outcome=Outcome.RELEASED)
    assert reader.got == [1]
    chosen.window.grant(1, 0)
    bench.pump()
    assert chosen.got == [1]


def test_consumers_that_come_and_go_keep_no_group_from_being_asked() -> None:
    bench = Bench("consistent-hash")
    first = bench.join(0)
    groups = [f"g{i}" for i in range(2500)]
    for group in groups:
        bench.send(group)
    bench.pump()
    for _ in range(3):
        bench.join(0)
        assert bench.queue.pump(bench.now, bench.wall_ms, 1000)  # a thousand are asked
    assert any(bench.owner(group) is not first for group in groups[2000:])
    bench.pump()
    assert not bench.queue.state.stale.is_any


def test_an_exclusive_consumer_has_every_group_at_once_however_many_there_are() -> None:
    bench = Bench("consistent-hash")
    first = bench.join(0)
    for i in range(2500):
        bench.send(f"g{i}")
    bench.pump()
    alone = bench.join(0, exclusive=True)
    first.window.grant(5000, 0)
    bench.pump()
    assert first.got == []
    alone.window.grant(5000, 0)
    bench.pump()
    assert len(alone.got) == 2500


# The start of the dispatch: by count, by time, and again after everybody left.


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
