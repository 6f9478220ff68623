"""Balance: a rebalance moves what it must, and a group leaves an owner without credit."""

from __future__ import annotations

from collections import Counter

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.events.event import EventKind
from covey.core.queue import policy as commands
from covey.core.queue.balance import plan
from tests.core.support import Bench
from tests.doubles import Reader

STICKY = ("simple", "lru", "hash-buckets")


def bench_of(strategy: str, **groups: object) -> Bench:
    settings = GroupSettings.model_validate(groups)
    return Bench(strategy, QueueSettings(groups=settings))


def shared_out(strategy: str, groups: int, consumers: int) -> tuple[Bench, list[Reader]]:
    bench = bench_of(strategy, cache_size=10_000, bucket_count=65_536)
    readers = [bench.join(groups * 3) for _ in range(consumers)]
    for number in range(2 * groups):
        bench.send(f"group-{number % groups}")
    bench.pump(100_000)
    return bench, readers


@pytest.mark.parametrize("strategy", STICKY)
@pytest.mark.parametrize(("before", "groups"), [(2, 1000), (4, 1000), (8, 1000), (64, 1000)])
def test_a_rebalance_moves_no_more_than_needed(strategy: str, before: int, groups: int) -> None:
    bench, _ = shared_out(strategy, groups, before)
    bench.join(groups)
    ideal = groups // (before + 1)
    moved = commands.rebalance(bench.queue, bench.now)
    assert ideal - 1 <= moved <= 1.3 * ideal + 1
    shares = Counter(str(group["owner"]) for group in bench.groups().values())
    assert max(shares.values()) - min(shares.values()) <= (1 if strategy != "hash-buckets" else 20)
    assert commands.rebalance(bench.queue, bench.now) == 0


def test_what_moves_goes_to_its_new_owner_once_it_is_settled() -> None:
    bench, readers = shared_out("simple", 4, 1)
    joined = bench.join()
    assert commands.rebalance(bench.queue, bench.now) == 2
    bench.pump()
    assert joined.got == []
    moved = {step for step, group in bench.groups().items() if group["owner"] == joined.id}
    assert len(moved) == 2
    bench.settle(readers[0])
    for group in moved:
        bench.send(group)
    bench.pump()
    assert len(joined.got) == 2


@pytest.mark.parametrize("strategy", STICKY)
@pytest.mark.parametrize("is_idle", [False, True])
def test_the_first_message_to_the_new_owner_is_marked(strategy: str, is_idle: bool) -> None:
    bench = bench_of(strategy, bucket_count=65_536)
    first = bench.join()
    bench.send_all("abcd")
    bench.pump()
    if is_idle:
        bench.settle(first)
    second = bench.join()
    commands.rebalance(bench.queue, bench.now)
    bench.settle(first)
    bench.send_all("abcdabcd")
    bench.pump()
    assert len(second.got) == 4
    assert second.firsts == second.got[:2]
    assert first.firsts == [1, 2, 3, 4]


@pytest.mark.parametrize("strategy", STICKY)
def test_the_events_tell_of_a_rebalance_before_they_tell_of_new_owners(strategy: str) -> None:
    bench, _ = shared_out(strategy, 20, 2)
    bench.join(100)
    bench.events.all.clear()
    commands.rebalance(bench.queue, bench.now)
    bench.pump()
    kinds = [event[0] for event in bench.events.all]
    assert kinds.count(EventKind.ASSIGN) > 1
    assert kinds.index(EventKind.REBALANCE) < kinds.index(EventKind.REVOKE)


@pytest.mark.parametrize("strategy", [*STICKY, "consistent-hash"])
def test_so_it_is_when_a_group_leaves_an_owner_without_credit(strategy: str) -> None:
    bench = bench_of(strategy, spill_after_ms=500, bucket_count=65_536)
    stuck = bench.join(1)
    bench.send("a")
    bench.pump()
    bench.settle(stuck)
    bench.send_all("aa")
    willing = bench.join()
    bench.pump()
    bench.wait(0.6)
    assert willing.got == [2, 3]
    assert willing.firsts == [2]


def test_groups_of_which_nothing_is_out_move_first_and_those_with_least_waiting() -> None:
    bench = bench_of("simple", unsettled_max=1)
    first = bench.join(2)
    for name in "cd":
        bench.queue.state.strategy.took(name, first.id)
    bench.send_all("aabbbbcccd")
    bench.pump()
    assert first.held() == [1, 3]  # of a and b
    bench.join(0)
    steps = [(step.unit.lanes[0].name, step.target.id) for step in plan(bench.queue)]
    assert sorted(steps) == [("c", 2), ("d", 2)]


def test_weights_and_those_who_take_no_more_count() -> None:
    bench = bench_of("simple")
    first = bench.join(100)
    bench.send_all("abcdefgh")
    bench.pump()
    bench.join(weight=3)
    retiring = bench.join()
    commands.retire(bench.queue, retiring, bench.now)
    commands.rebalance(bench.queue, bench.now)
    assert len(first.lanes) == 2


@pytest.mark.parametrize("strategy", ["shared", "consistent-hash"])
def test_others_have_nothing_to_rebalance(strategy: str) -> None:
    bench = Bench(strategy)
    bench.join()
    bench.send_all("abcd")
    bench.pump()
    bench.join()
    bench.pump()
    assert commands.rebalance(bench.queue, bench.now) == 0


def test_it_comes_by_itself_when_a_consumer_has_stayed_and_gently() -> None:
    bench = bench_of("simple", rebalance_after_s=10, rebalance_rate=2)
    bench.join(100)
    bench.send_all("abcdefghij")
    bench.pump()
    joined = bench.join(100)
    bench.wait(9.9)
    assert len(joined.lanes) == 0
    for expected in (2, 4, 5, 5):
        assert bench.queue.next_deadline(bench.now, bench.wall_ms) or expected == 5
        bench.wait(1)
        assert len(joined.lanes) == expected
    kinds = [event for event in bench.events.all if event[0] is EventKind.REBALANCE]
    assert [event[3] for event in kinds] == [2, 2, 1]


def test_groups_without_messages_move_and_the_events_tell_of_it() -> None:
    bench = bench_of("simple", rebalance_after_s=10)
    first = bench.join()
    bench.send_all("abcd")
    bench.pump()
    joined = bench.join()
    bench.settle(first)
    bench.wait(10)
    told = bench.events.kinds(EventKind.REBALANCE)
    assert [event[3] for event in told] == [0]
    bench.send_all("abcd")
    bench.pump()
    assert len(joined.got) == 2
    bench.wait(10)
    assert bench.events.kinds(EventKind.REBALANCE) == told


@pytest.mark.parametrize("strategy", [*STICKY, "consistent-hash"])
def test_a_group_leaves_an_owner_without_credit(strategy: str) -> None:
    bench = bench_of(strategy, spill_after_ms=500, bucket_count=65_536)
    stuck = bench.join(1)
    if strategy != "consistent-hash":
        for name in "bcd":
            bench.queue.state.strategy.took(name, stuck.id)
    bench.send_all("aabcd")
    bench.pump()
    willing = bench.join(100)
    bench.pump()
    bench.wait(0.4)
    before = set(willing.got)
    bench.wait(0.2)
    assert stuck.held() == [1]
    assert willing.held() == [3, 4, 5], "what is out of `a` keeps it where it is"
    if strategy != "consistent-hash":
        assert before == set()
    told = [event[1] for event in bench.events.kinds(EventKind.SPILL)]
    assert set(told) <= {"b", "c", "d"} and bench.queue.counters.spilled == len(told)


def test_on_the_ring_it_comes_back_when_it_was_empty() -> None:
    bench = bench_of("consistent-hash", spill_after_ms=500)
    readers = [bench.join(100), bench.join(100)]
    bench.send("x")
    bench.pump()
    owner = next(reader for reader in readers if reader.got)
    other = next(reader for reader in readers if not reader.got)
    bench.settle(owner)
    owner.window.count = 0
    bench.send("x")
    bench.wait(0.5)
    bench.wait(0.5)
    assert other.got == [2]
    bench.send("x")
    bench.pump()
    assert other.got == [2, 3]
    bench.settle(other)
    owner.window.grant(10, 0)
    bench.send("x")
    bench.pump()
    assert owner.got == [1, 4]


def test_a_bucket_moves_only_when_nothing_of_it_is_out() -> None:
    bench = bench_of("hash-buckets", spill_after_ms=500, bucket_count=1)
    stuck = bench.join(1)
    bench.send_all("ab")
    bench.pump()
    willing = bench.join(100)
    bench.wait(1)
    bench.wait(1)
    assert (stuck.held(), willing.got) == ([1], [])


def test_a_restarted_worker_does_not_get_all_new_groups() -> None:
    """ActiveMQ counts every group ever seen; that way is an option."""
    for counts_idle, least in ((False, 100), (True, 0)):
        bench = bench_of("simple", count_idle_groups=counts_idle)
        readers = [bench.join(10_000) for _ in range(4)]
        for number in range(2000):
            bench.send(f"old-{number}")
            bench.pump()
            for reader in readers:
                bench.settle(reader) if reader.unsettled else None
        bench.leave(readers[0])
        readers[0] = bench.join(10_000)
        before = [len(reader.got) for reader in readers]
        for number in range(500):
            bench.send(f"new-{number}")
        bench.pump(100_000)
        got = [len(reader.got) - each for reader, each in zip(readers, before, strict=True)]
        assert min(got[1:]) >= least
        assert (max(got) == 500) is counts_idle
