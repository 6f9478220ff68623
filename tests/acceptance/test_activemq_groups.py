"""Sticky groups, rule by rule: ActiveMQ's message groups (A-n) and Artemis's options (R-n).

A-18 and A-19 are the protocols' business, A-16's listing the admin view's. R-3 and A-17 are in
test_start.py. Where this broker does better than its model the test says so.
"""

from __future__ import annotations

import pytest

from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
from tests.core.support import Bench, policy

STICKY = pytest.mark.parametrize("strategy", ["simple", "lru", "hash-buckets"])


def test_a1_a_message_without_a_group_goes_to_anybody() -> None:
    bench = Bench()
    first, second = bench.join(), bench.join()
    for _ in range(4):
        bench.send()
    bench.pump()
    assert (len(first.got), len(second.got)) == (2, 2)


@STICKY
def test_a2_a_full_paused_or_refusing_consumer_does_not_get_a_group(strategy: str) -> None:
    bench = Bench(strategy)
    bench.join(0)
    paused = bench.join()
    paused.window.is_paused = True
    bench.join(selector="colour = 'red'")
    willing = bench.join()
    bench.send("a", colour="blue")
    bench.pump()
    assert willing.got == [1]


@STICKY
def test_a3_a4_a_new_group_goes_by_priority_then_fewest_groups_then_longest_wait(
    strategy: str,
) -> None:
    bench = Bench(strategy)
    bench.join(priority=-1)
    first, second = bench.join(), bench.join()
    bench.send_all("abcd")
    bench.pump()
    assert (first.got, second.got) == ([1, 3], [2, 4])


def test_a4_a_heavier_consumer_gets_more_groups() -> None:
    bench = Bench()
    light, heavy = bench.join(), bench.join(weight=3)
    bench.send_all("abcdefgh")
    bench.pump()
    assert (len(light.got), len(heavy.got)) == (2, 6)


@STICKY
def test_a5_sequence_one_does_not_steal_a_group(strategy: str) -> None:
    """Unlike ActiveMQ, where it re-assigns the group and so breaks its order."""
    bench = Bench(strategy)
    owner = bench.join(1)
    bench.send("a", sequence=1)
    bench.pump()
    other = bench.join()
    bench.send("a", sequence=1)
    bench.pump()
    assert (owner.got, other.got) == ([1], [])


@STICKY
def test_a6_a7_the_first_taker_owns_the_group_and_nobody_else_gets_it(strategy: str) -> None:
    bench = Bench(strategy)
    owner = bench.join(1)
    bench.send_all("aab")
    bench.pump()
    other = bench.join()
    bench.pump()
    assert (owner.got, other.got) == ([1], [3])
    bench.settle(owner)
    assert other.got == [3]


@STICKY
def test_a8_only_the_first_message_of_an_ownership_is_flagged(strategy: str) -> None:
    bench = Bench(strategy)
    reader = bench.join()
    bench.send_all("aa")
    bench.pump()
    bench.settle(reader, 1, outcome=Outcome.RELEASED)
    bench.settle(reader)
    bench.send("a")
    bench.pump()
    assert reader.got == [1, 2, 1, 3]
    assert reader.firsts == [1]


@STICKY
def test_a9_a_negative_sequence_closes_the_group(strategy: str) -> None:
    bench = Bench(strategy)
    owner = bench.join(2)
    bench.send("a")
    bench.send("a", sequence=-1)
    bench.send("a")
    bench.pump()
    other = bench.join()
    bench.settle(owner)
    assert (owner.got, other.got, other.firsts) == ([1, 2], [3], [3])


def test_a9_a_close_of_a_group_nobody_owns_leaves_it_unowned() -> None:
    """Unlike ActiveMQ, where it opens the group."""
    bench = Bench()
    reader = bench.join(1)
    bench.send("a", sequence=-1)
    bench.pump()
    assert reader.got == [1]
    assert bench.owner("a") is None


@STICKY
def test_a10_a_closed_group_moves_once_its_old_owner_is_done(strategy: str) -> None:
    """Unlike ActiveMQ, where it moves at once."""
    bench = Bench(strategy)
    owner = bench.join(2)
    bench.send("a")
    bench.send("a", sequence=-1)
    bench.send("a")
    bench.pump()
    other = bench.join()
    bench.settle(owner, 2)
    assert other.got == []
    bench.settle(owner, 1)
    assert other.got == [3]


@STICKY
def test_a11_a_full_owner_blocks_its_own_groups_only(strategy: str) -> None:
    """However many messages it blocks: ActiveMQ stops at its page of 200."""
    bench = Bench(strategy)
    bench.join(1)
    bench.send_all("a" * 300 + "b")
    bench.pump()
    other = bench.join()
    bench.pump()
    assert other.got == [301]


def test_a12_a_message_its_owner_refuses_is_lent_instead_of_stuck() -> None:
    bench = Bench()
    owner = bench.join(selector="colour = 'red'")
    bench.send("a", colour="red")
    bench.pump()
    bench.settle(owner)
    bench.send("a", colour="blue")
    other = bench.join()
    bench.pump()
    assert other.got == [2]


def test_a13_a_better_exclusive_consumer_is_not_stuck_behind_the_old_one() -> None:
    bench = Bench()
    old = bench.join(exclusive=True)
    bench.send("a")
    bench.pump()
    bench.settle(old)
    best = bench.join(exclusive=True, priority=1)
    bench.send_all("ab")
    bench.pump()
    assert (old.got, best.got) == ([1], [2, 3])


@STICKY
def test_a14_the_groups_of_a_leaver_are_free(strategy: str) -> None:
    bench = Bench(strategy)
    owner = bench.join()
    bench.send("a")
    bench.pump()
    other = bench.join()
    bench.leave(owner)
    bench.send("a")
    bench.pump()
    assert (other.got, other.firsts) == ([1, 2], [1])


def test_a15_returned_messages_go_to_their_place_whoever_left_when() -> None:
    bench = Bench()
    first = bench.join(5)
    bench.send_all("aaaaa")
    bench.pump()
    bench.leave(first)
    second = bench.join(2)
    bench.pump()
    bench.leave(second)
    third = bench.join()
    bench.pump()
    assert third.got == [1, 2, 3, 4, 5]


@STICKY
def test_a16_removing_a_group_waits_for_what_is_in_flight(strategy: str) -> None:
    bench = Bench(strategy)
    owner = bench.join(1)
    bench.send_all("aa")
    bench.pump()
    other = bench.join()
    commands.close_group(bench.queue, "a", bench.now)
    bench.pump()
    assert other.got == []
    bench.settle(owner)
    assert other.got == [2]


def test_a16_closing_one_group_of_a_bucket_does_not_move_the_other() -> None:
    bench = Bench("hash-buckets", policy(bucket_count=1))
    owner = bench.join(1)
    bench.send_all("abb")
    bench.pump()
    commands.close_group(bench.queue, "a", bench.now)
    other = bench.join()
    bench.pump()
    assert other.got == []
    assert bench.owner("b") is owner


def test_an_evicted_group_had_no_message_on_the_queue() -> None:
    bench = Bench("lru", policy(cache_size=1))
    first = bench.join(2)
    bench.send_all("ab")
    bench.pump()
    second = bench.join()
    bench.send_all("ab")
    bench.pump()
    assert (first.got, second.got) == ([1, 2], [])
    bench.settle(first)
    assert bench.shown()["groups_tracked"] == 2


def test_r1_a_group_is_recorded_only_when_a_consumer_took_it() -> None:
    bench = Bench()
    bench.join(0)
    bench.send("a")
    bench.pump()
    assert bench.queue.state.strategy.owner("a") == 0


def test_r4_a_join_moves_no_group() -> None:
    bench = Bench()
    first = bench.join(1)
    bench.send_all("aa")
    bench.pump()
    bench.join()
    bench.pump()
    assert bench.owner("a") is first


def test_r5_a_rebalance_lets_each_group_drain_and_nothing_else_wait() -> None:
    bench = Bench()
    first = bench.join(1)
    bench.send_all("aab")
    bench.pump()
    second = bench.join()
    commands.rebalance(bench.queue, bench.now)
    bench.pump()
    assert second.got == [3]
    bench.settle(first)
    assert (second.got, bench.owner("a")) == ([3], first)  # of two groups one had to move


def reconnecting(count: int, *, speeds: list[int]) -> list[int]:
    """Play MessageGroupReconnectDistributionTest: each consumer re-opens after each batch.

    Return how many messages each got. A consumer of speed 2 works on two in the time of one.
    """
    bench = Bench("lru", policy(cache_size=count - 1))
    for number in range(1000):
        bench.send(f"group {number}")
    readers = [bench.join(100) for _ in range(count)]
    bench.pump()
    done = [0] * count
    while sum(done) < 1000:
        for at in [at for at, speed in enumerate(speeds) for _ in range(speed)]:
            held = readers[at].held()
            if held:
                bench.settle(readers[at], held[0])
                readers[at].window.grant(1, 0)
                done[at] += 1
            if held and done[at] % 10 == 0:
                bench.leave(readers[at])
                bench.pump()
                readers[at] = bench.join(100)
            bench.pump()
    return done


@pytest.mark.parametrize("count", [4, 10])
def test_consumers_that_reconnect_all_the_time_share_evenly_if_they_are_equally_fast(
    count: int,
) -> None:
    done = reconnecting(count, speeds=[1] * count)
    assert max(done) - min(done) < 0.25 * 1000 / count


def test_of_consumers_that_reconnect_a_faster_one_gets_more_and_the_others_evenly_less() -> None:
    fast, *others = reconnecting(4, speeds=[2, 1, 1, 1])
    assert fast > 1.25 * max(others)
    assert max(others) - min(others) < 0.25 * 1000 / 4
