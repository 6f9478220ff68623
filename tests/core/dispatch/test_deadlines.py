"""Deadlines of deliveries: when a clock starts, what runs out, and what its holder gets then."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.entry import Outcome
from covey.core.queue import timers
from covey.core.queue.policy import change_strategy, retire
from covey.groups import make
from tests.core.support import Bench, policy
from tests.doubles import Heard

STRATEGIES = ("shared", "simple", "lru", "hash-buckets", "consistent-hash")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_group_of_a_hung_consumer_goes_to_another(strategy: str) -> None:
    bench = Bench(strategy, policy(deadline_s=10))
    hung = bench.join()
    bench.send_all("aa")
    bench.pump()
    other = bench.join()
    bench.pump()
    if strategy == "consistent-hash" and bench.owner("a") is other:
        pytest.skip("the ring has it there already")  # it would only have to drain
    bench.wait(9.9)
    assert (hung.held(), other.held()) == ([1, 2], [])
    bench.wait(0.1)
    assert (hung.held(), other.held()) == ([], [1, 2])
    assert hung.overdue == [1, 2]
    assert [entry.deliveries for entry in other.unsettled.values()] == [1, 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_one_that_failed_gets_nothing_until_it_settles_something(strategy: str) -> None:
    bench = Bench(strategy, policy(deadline_s=10))
    hung = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(10)
    for group in ("a", "b", ""):
        bench.send(group)
    bench.wait(5)
    assert hung.got == [1]
    why = "consumer 1 held a message for over 10 s, and settles nothing"
    assert {str(group["why"]) for group in bench.groups().values()} == {why}
    bench.queue.heard_late(hung, 1, bench.now)
    bench.pump()
    assert hung.got == [1, 1, 2, 3, 4]
    assert bench.shown()["late"] == 1


def test_a_clock_starts_at_the_last_settlement_so_prefetched_messages_do_not_run_out() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    busy = bench.join()
    bench.send_all("abc")
    bench.pump()
    for seq in (1, 2, 3):
        bench.wait(9)
        bench.settle(busy, seq)
    assert busy.overdue == []
    bench.send("a")
    bench.pump()
    bench.wait(9.9)
    assert busy.overdue == []
    bench.wait(0.1)
    assert busy.overdue == [4]


def test_only_what_is_overdue_goes_and_the_gate_keeps_the_rest_of_its_group() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    hung, other = bench.join(), bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(4)
    bench.send("a")
    bench.pump()
    bench.wait(6)
    assert (hung.overdue, hung.held(), other.got) == ([1], [2], [])
    assert "waiting for consumer 1" in str(bench.groups()["a"]["why"])
    bench.wait(4)
    assert other.got == [1, 2]


def test_what_another_group_of_it_holds_may_be_settled_in_time_and_brings_it_back() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    slow = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(5)
    bench.send("b")
    bench.pump()
    bench.wait(5)
    assert (slow.overdue, slow.held()) == ([1], [2])
    bench.settle(slow, 2)
    assert slow.held() == [1]  # nobody else is there


def test_running_out_counts_as_a_failed_delivery() -> None:
    bench = Bench("simple", policy(deadline_s=10, nak_limit=1))
    hung = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(10)
    assert [reason for _, reason in bench.dead] == ["failed 1 times"]
    assert bench.shown()["overdue"] == 1
    kinds = [event[0] for event in bench.events.all if event[3] == 1]
    assert kinds[-3:] == [EventKind.DEADLINE, EventKind.FAIL, EventKind.DEAD_LETTER]
    assert hung.held() == []


def test_it_is_in_the_operators_log_once() -> None:
    audit = Heard()
    bench = Bench("simple", policy(deadline_s=10), audit)
    bench.join()
    bench.send_all("ab")
    bench.pump()
    bench.wait(10)
    assert audit.all == [("group", "work", "deadline", "a")]


def test_a_consumer_may_ask_for_another_deadline() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    quick, patient = bench.join(deadline_s=2), bench.join(deadline_s=100)
    bench.send_all("ab")
    bench.pump()
    bench.wait(2)
    assert (quick.overdue, patient.overdue) == ([1], [])
    bench.wait(97)
    assert patient.overdue == []
    bench.wait(1)
    assert patient.overdue == [2]


def test_a_deadline_beyond_the_maximum_is_refused_and_so_is_none_at_all() -> None:
    bench = Bench("simple", policy())
    with pytest.raises(RefusedError, match="43201 s is beyond 43200 s"):
        bench.join(deadline_s=43_201)
    with pytest.raises(RefusedError, match="delivery_deadline_max_s"):
        bench.join(deadline_s=0)
    assert bench.queue.state.consumers == {}


def test_what_is_settled_as_it_is_sent_has_no_deadline() -> None:
    bench = Bench("simple", policy(deadline_s=1))
    reader = bench.join(presettled=True)
    bench.send("a")
    bench.wait(5)
    assert (reader.overdue, bench.queue.next_deadline(bench.now, bench.wall_ms)) == ([], 0.0)


def test_the_queue_says_when_it_must_be_looked_at() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    reader = bench.join()
    bench.send("a")
    bench.pump()
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 10
    bench.settle(reader)
    bench.wait(10)
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == 0.0


def test_a_deadline_that_is_set_later_counts_from_then() -> None:
    bench = Bench("simple", policy())
    reader = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(100)
    bench.queue.apply(policy(deadline_s=10))
    bench.wait(9)
    assert reader.overdue == []
    bench.wait(1)
    assert reader.overdue == [1]


def test_an_exclusive_consumer_that_hangs_gives_way() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    hung = bench.join(exclusive=True)
    other = bench.join()
    bench.send_all("ab")
    bench.pump()
    assert hung.held() == [1, 2]
    bench.wait(10)
    assert other.held() == [1, 2]
    bench.queue.heard(hung, bench.now)
    bench.send("c")
    bench.pump()
    assert hung.held() == [3]


def test_a_retiring_consumer_that_hangs_loses_its_groups_too() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    hung = bench.join(credit=1)
    bench.send_all("aa")
    bench.pump()
    retire(bench.queue, hung, bench.now)
    other = bench.join()
    bench.wait(10)
    assert other.held() == [1, 2]
    bench.queue.heard(hung, bench.now)
    bench.send("b")
    bench.pump()
    assert other.held() == [1, 2, 3]


def test_a_change_of_strategy_does_not_bring_it_back() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    hung = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(10)
    change_strategy(bench.queue, make("consistent-hash"), bench.now)
    bench.wait(1)
    assert hung.got == [1]


def test_many_that_come_and_go_leave_nothing_behind() -> None:
    bench = Bench("simple", policy(deadline_s=1000))
    for _ in range(300):
        reader = bench.join()
        bench.send("a")
        bench.pump()
        bench.settle(reader, outcome=Outcome.ACCEPTED)
        bench.leave(reader)
    assert len(bench.queue.state.deadlines._heap) < 200


def test_a_busy_consumer_leaves_no_clocks_behind() -> None:
    bench = Bench("simple", policy(deadline_s=1000))
    reader = bench.join(credit=10_000)
    for _ in range(500):
        bench.send("a")
        bench.pump()
        bench.settle(reader)
    assert len(reader.clocks) < 100


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_very_many_run_out_in_portions_as_if_at_once(
    strategy: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "DUE_PORTION", portion)
    bench = Bench(strategy, policy(deadline_s=10))
    hung = bench.join(1000)
    bench.send_all("ab c" * 10)
    bench.pump()
    bench.now += 10
    pumps = 0
    while len(hung.overdue) < 40:
        before = len(hung.overdue)
        bench.queue.pump(bench.now, bench.wall_ms, 1000)
        assert before < len(hung.overdue) <= before + portion
        pumps += 1
    assert pumps == -(-40 // portion)
    assert (hung.held(), hung.overdue) == ([], list(range(1, 41)))
    other = bench.join(1000)
    bench.pump()
    assert other.got == list(range(1, 41))
