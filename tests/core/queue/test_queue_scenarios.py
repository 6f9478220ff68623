"""What the peers' own test suites play, played here: ActiveMQ, Broker-J, Artemis.

Each scenario is told in our own words; the expected result is theirs unless a comment says why
it is not.
"""

from __future__ import annotations

from random import Random

import pytest

from covey.core.model.entry import Outcome
from covey.core.queue import policy as commands
from tests.core.support import Bench, policy
from tests.doubles import Reader

STICKY = pytest.mark.parametrize("strategy", ["simple", "lru", "hash-buckets"])


def groups_of(reader: Reader) -> set[str]:
    return {entry.lane.name for entry in reader.entries}


# ActiveMQ.


@STICKY
def test_a_group_s_remaining_message_goes_to_the_second_consumer_when_the_first_closes(
    strategy: str,
) -> None:
    bench = Bench(strategy)
    first = bench.join(3)
    bench.send_all("aaaa")
    bench.pump()
    bench.settle(first)
    second = bench.join()
    bench.pump()
    assert second.got == []
    bench.leave(first)
    assert second.got == [4]


@STICKY
def test_a_message_that_waited_for_a_consumer_is_flagged_first(strategy: str) -> None:
    bench = Bench(strategy)
    bench.send("a")
    reader = bench.join()
    bench.pump()
    assert reader.firsts == [1]


@STICKY
def test_closing_a_group_hands_what_follows_to_the_other_consumer(strategy: str) -> None:
    bench = Bench(strategy)
    first = bench.join(3)
    bench.send_all("aaaa")
    bench.pump()
    second = bench.join()
    bench.send("a", sequence=-1)
    bench.send_all("aaaa")
    bench.settle(first)
    first.window.grant(1, 0)
    bench.pump()
    first.window.grant(1, 0)
    bench.pump()
    bench.settle(first)
    assert (first.got, second.got) == ([1, 2, 3, 4, 5], [6, 7, 8, 9])


def test_every_reopened_group_is_flagged_and_every_close_reaches_its_owner() -> None:
    bench = Bench()
    for i in range(10):
        for group in "abcdefghij":
            bench.send(group, sequence=-1 if i in (4, 9) else i + 1)
    readers = [bench.join(1), bench.join(1)]
    bench.pump()
    while bench.shown()["messages"]:
        for reader in readers:
            bench.settle(reader)
            reader.window.grant(1, 0)
        bench.pump()
    assert sorted(readers[0].got + readers[1].got) == list(range(1, 101))
    flagged = sorted(readers[0].firsts + readers[1].firsts)
    assert flagged == [*range(1, 11), *range(51, 61)]
    for reader in readers:
        assert {seq % 10 for seq in reader.got if seq <= 40} == {
            seq % 10 for seq in reader.got if 40 < seq <= 50
        }


@pytest.mark.parametrize(("count", "time_ms"), [(3, 0), (3, 100), (5, 100), (0, 100)])
def test_a_delayed_start_gives_each_of_three_consumers_one_of_three_groups(
    count: int, time_ms: int
) -> None:
    bench = Bench(settings=policy(consumers_before=count, time_before_ms=time_ms or 1000))
    bench.send_all("abc" * 10)
    readers = []
    for _ in range(3):
        readers.append(bench.join(1))
        bench.pump()
    bench.wait(0.1)
    while bench.shown()["messages"]:
        for reader in readers:
            bench.settle(reader)
            reader.window.grant(1, 0)
        bench.pump()
    assert [len(reader.got) for reader in readers] == [10, 10, 10]
    assert all(len(groups_of(reader)) == 1 for reader in readers)


def test_a_late_third_worker_gets_the_new_group() -> None:
    bench = Bench()
    workers = [bench.join(1000), bench.join(1000)]
    bench.send_all("aaabbb")
    bench.pump()
    workers.append(bench.join(1000))
    bench.send_all("ccc")
    bench.pump()
    assert [len(worker.got) for worker in workers] == [3, 3, 3]


def test_a_late_second_worker_gets_the_new_group() -> None:
    bench = Bench()
    first = bench.join(1000)
    bench.send_all("aabb")
    bench.pump()
    second = bench.join(1000)
    bench.send_all("cc")
    bench.pump()
    assert (len(first.got), len(second.got)) == (4, 2)


def test_a_consumer_that_comes_and_goes_gets_nothing_of_owned_groups() -> None:
    bench = Bench()
    first = bench.join(1000)
    bench.send_all("abc")
    bench.pump()
    for _ in range(9):
        visitor = bench.join(1000)
        bench.send_all("abc")
        bench.pump()
        assert visitor.got == []
        bench.leave(visitor)
    assert len(first.got) == 30


def test_reconnecting_consumers_share_the_load_of_a_small_cache() -> None:
    bench = Bench("lru", policy(cache_size=3))
    random = Random(7)
    readers = [bench.join(20) for _ in range(4)]
    done = [0, 0, 0, 0]
    for i in range(2000):
        bench.send(f"g{i // 10}")
        if i % 20 == 0:
            at = random.randrange(4)
            bench.pump()
            bench.leave(readers[at])
            readers[at] = bench.join(20)
        bench.pump()
        for at, reader in enumerate(readers):
            held = len(reader.held())
            done[at] += held
            bench.settle(reader)
            reader.window.grant(held, 0)
    assert sum(done) == 2000
    assert all(done[0] / 2 <= count <= done[0] * 1.5 for count in done)


def test_a_message_in_a_group_of_its_own_is_always_first() -> None:
    bench = Bench()
    reader = bench.join()
    for i in range(20):
        bench.send(f"g{i}", sequence=1)
    bench.pump()
    assert reader.firsts == reader.got


def test_three_exclusive_consumers_in_turn_keep_the_order() -> None:
    bench = Bench()
    bench.send_all("f" * 30)
    order: list[int] = []
    for _ in range(3):
        reader = bench.join(10, exclusive=True)
        bench.pump()
        order += reader.got
        bench.settle(reader)
        bench.leave(reader)
    assert order == list(range(1, 31))


# Broker-J, both of its kinds of groups.

KINDS = pytest.mark.parametrize("strategy", ["shared", "simple"])


@KINDS
def test_two_groups_are_shared_out_and_stepped_over(strategy: str) -> None:
    bench = Bench(strategy)
    bench.send_all("abab")
    first, second = bench.join(1), bench.join(1)
    bench.pump()
    assert (first.got, second.got) == ([1], [2])
    second.window.grant(1, 0)
    bench.queue.settle(second.unsettled[2], Outcome.ACCEPTED, bench.now)
    bench.pump()
    assert second.got == [2, 4]
    first.window.grant(1, 0)
    bench.settle(first)
    assert first.got == [1, 3]


@KINDS
def test_a_closed_consumer_s_group_goes_on_with_the_next_message(strategy: str) -> None:
    bench = Bench(strategy)
    bench.send_all("aaba")
    first, second = bench.join(1), bench.join(1)
    bench.pump()
    bench.settle(first)
    second.window.grant(5, 0)
    bench.settle(second)
    if strategy == "simple":
        assert second.got == [3]
    bench.leave(first)
    assert second.got == [3, 2, 4]


@KINDS
def test_a_consumer_closed_without_settling_gives_back_marked_messages(strategy: str) -> None:
    bench = Bench(strategy)
    bench.send_all("aaba")
    first, second = bench.join(1), bench.join(1)
    bench.pump()
    second.window.grant(5, 0)
    bench.settle(second)
    bench.leave(first)
    assert second.got == [3, 1, 2, 4]
    assert [entry.deliveries for entry in second.entries] == [0, 1, 0, 0]


@pytest.mark.parametrize(("strategy", "taker"), [("shared", 1), ("simple", 0)])
def test_an_emptied_group_is_free_if_shared_and_kept_if_sticky(strategy: str, taker: int) -> None:
    bench = Bench(strategy)
    readers = [bench.join(1), bench.join(1)]
    bench.send_all("abc")
    bench.pump()
    readers[0].window.grant(1, 0)
    bench.settle(readers[0])
    assert readers[0].got == [1, 3]
    bench.send("a")
    readers[1].window.grant(1, 0)
    bench.pump()
    readers[0].window.grant(1, 0)
    bench.pump()
    assert 4 in readers[taker].got


def test_one_group_is_never_at_work_at_two_consumers() -> None:
    bench = Bench("shared")
    readers = [bench.join(1) for _ in range(4)]
    bench.send_all("a" * 100)
    bench.pump()
    order: list[int] = []
    while bench.shown()["messages"]:
        busy = [reader for reader in readers if reader.unsettled]
        assert len(busy) == 1
        order += busy[0].held()
        busy[0].window.grant(1, 0)
        bench.settle(busy[0])
    assert order == list(range(1, 101))


# Artemis.


def test_two_buckets_keep_a_third_consumer_idle() -> None:
    bench = Bench("hash-buckets", policy(bucket_count=2))
    readers = [bench.join() for _ in range(3)]
    bench.send_all("abc" * 10)  # a and c fall into one bucket
    bench.pump()
    assert [groups_of(reader) for reader in readers] == [{"a", "c"}, {"b"}, set()]


def test_a_rebalance_after_a_join_gives_each_of_three_a_group() -> None:
    bench = Bench()
    readers = [bench.join(), bench.join()]
    bench.send_all("abc")
    bench.pump()
    assert [groups_of(reader) for reader in readers] == [{"a", "c"}, {"b"}]
    readers.append(bench.join())
    for reader in readers:
        bench.settle(reader)
        reader.entries.clear()
    commands.rebalance(bench.queue, bench.now)
    bench.send_all("abc" * 3)
    bench.pump()
    assert sorted(len(groups_of(reader)) for reader in readers) == [1, 1, 1]


def test_a_rebalance_moves_an_idle_group_and_leaves_the_one_in_flight() -> None:
    """Artemis stops the whole queue until everything is settled."""
    bench = Bench()
    first, second = bench.join(), bench.join()
    bench.send_all("abc")
    bench.pump()
    bench.settle(first, 1)
    bench.settle(second)
    third = bench.join()
    commands.rebalance(bench.queue, bench.now)
    bench.send_all("abc")
    bench.pump()
    in_flight = {3}
    went = set(first.got + second.got + third.got) - {1, 2, 3}
    assert went == {4, 5, 6}
    assert set(first.held()) >= in_flight
    assert (third.got, 6 in first.got) == ([4], True)


def test_a_closed_group_goes_round_the_consumers() -> None:
    bench = Bench()
    readers = [bench.join() for _ in range(3)]
    for _ in range(3):
        for i in range(5):
            bench.send("a", sequence=-1 if i == 4 else 0)
        bench.pump()
        for reader in readers:
            bench.settle(reader)
        bench.pump()
    assert [len(reader.got) for reader in readers] == [5, 5, 5]
