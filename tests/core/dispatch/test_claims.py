"""Consumers of one group: only that group, exclusively, and the next free one until it is done."""

from __future__ import annotations

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.dispatch.claims import NEXT
from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.queue.policy import change_strategy, close_group, park, rebalance, retire
from covey.groups import make
from tests.core.support import Bench, policy

STRATEGIES = ("shared", "simple", "lru", "hash-buckets", "consistent-hash")
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@each_strategy
def test_a_named_group_goes_to_whoever_asks_for_it_and_nothing_else_does(strategy: str) -> None:
    bench = Bench(strategy)
    other = bench.join()
    mine = bench.join(group="b")
    bench.send_all("abab")
    bench.send()
    bench.pump()
    assert (other.got, mine.got) == ([1, 3, 5], [2, 4])
    assert not mine.done


@each_strategy
def test_what_others_hold_of_the_group_they_settle_first(strategy: str) -> None:
    bench = Bench(strategy)
    other = bench.join(1)
    bench.send_all("aa")
    bench.pump()
    mine = bench.join(group="a")
    bench.pump()
    assert (other.got, mine.got) == ([1], [])
    bench.settle(other, 1)
    bench.pump()
    assert mine.got == [2]


@each_strategy
def test_after_the_claim_the_group_is_again_whose_it_was(strategy: str) -> None:
    bench = Bench(strategy)
    other = bench.join()
    bench.send("a")
    bench.pump()
    bench.settle(other, 1)
    mine = bench.join(group="a")
    bench.send_all("aa")
    bench.pump()
    assert mine.got == [2, 3]
    bench.leave(mine)
    bench.pump()
    assert other.got == [1, 2, 3]
    assert other.firsts == [1, 2]  # another one had it in between


def test_who_names_a_group_that_is_claimed_waits_in_line() -> None:
    bench = Bench()
    first, second, third = (bench.join(group="a") for _ in range(3))
    bench.send("a")
    bench.pump()
    bench.leave(second)
    bench.leave(first)
    bench.pump()
    assert (first.got, second.got, third.got) == ([1], [], [1])


@each_strategy
def test_next_takes_one_free_group_and_is_done_when_all_of_it_is_settled(strategy: str) -> None:
    bench = Bench(strategy)
    bench.send_all("abab")
    mine = bench.join(group=NEXT)
    bench.pump()
    assert mine.got == [1, 3]
    bench.settle(mine, 3)
    bench.pump()
    assert mine.done == []
    bench.settle(mine, 1)
    bench.pump()
    assert mine.done == ["a"]
    bench.send("a")
    bench.pump()
    assert mine.got == [1, 3]  # whatever comes now is for others
    bench.leave(mine)
    after = bench.join(group=NEXT)
    bench.pump()
    assert after.got == [2, 4]


def test_a_message_that_fails_or_waits_for_its_next_try_keeps_the_group() -> None:
    bench = Bench("shared", policy(delay_ms=1000))
    mine = bench.join(group=NEXT)
    bench.send("a")
    bench.pump()
    bench.settle(mine, 1, outcome=Outcome.FAILED)
    bench.pump()
    assert (mine.got, mine.done) == ([1], [])
    bench.wait(1)
    assert mine.got == [1, 1]
    bench.settle(mine, 1)
    bench.pump()
    assert mine.done == ["a"]


def test_a_group_that_is_settled_as_it_is_sent_is_done_at_once() -> None:
    bench = Bench("consistent-hash")
    bench.send_all("aab")
    mine = bench.join(group=NEXT, presettled=True)
    bench.pump()
    assert (mine.got, mine.done) == ([1, 2], ["a"])


def test_next_takes_no_message_without_a_group_and_no_group_that_is_owned() -> None:
    bench = Bench("simple")
    owner = bench.join(1)
    bench.send_all("aa")
    bench.pump()
    mine = bench.join(group=NEXT)
    bench.send()
    bench.pump()
    assert (owner.got, mine.got) == ([1], [])
    bench.leave(owner)
    bench.pump()
    assert mine.got == [1, 2]


@each_strategy
def test_close_rebalance_and_another_strategy_leave_a_claim_alone(strategy: str) -> None:
    bench = Bench(strategy)
    bench.join(), bench.join()
    mine = bench.join(1, group="a")
    bench.send_all("aab")
    bench.pump()
    close_group(bench.queue, "a", bench.now)
    rebalance(bench.queue, bench.now)
    change_strategy(bench.queue, make("shared"), bench.now)
    bench.settle(mine, 1)
    mine.window.grant(1, 0)
    bench.pump()
    assert mine.got == [1, 2]


def test_a_claimed_group_does_not_spill_and_waits_parked() -> None:
    bench = Bench("simple", QueueSettings(groups=GroupSettings(spill_after_ms=100)))
    bench.join()
    mine = bench.join(0, group="a")
    bench.send("a")
    bench.wait(5)
    assert "no credit" in str(bench.groups()["a"]["why"])
    park(bench.queue, "a", bench.now, parked=True)
    mine.window.grant(5, 0)
    bench.pump()
    assert mine.got == []
    park(bench.queue, "a", bench.now, parked=False)
    bench.pump()
    assert mine.got == [1]


def test_a_claim_takes_what_no_selector_admits_beside_selectors_and_exclusive_consumers() -> None:
    bench = Bench("simple")
    red = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.pump()
    assert red.got == [2]
    all_else = bench.join(exclusive=True)
    mine = bench.join(group="a")
    bench.settle(red, 2)
    bench.send("a", colour="blue")
    bench.send("b", colour="blue")
    bench.pump()
    assert (mine.got, all_else.got) == ([1, 3], [4])


def test_a_hung_claimant_loses_its_group_and_gets_in_line_again_when_it_is_heard() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    mine = bench.join(group="a")
    other = bench.join()
    bench.send("a")
    bench.pump()
    bench.wait(10)
    assert (mine.held(), other.held()) == ([], [1])
    bench.queue.heard_late(mine, 1, bench.now)
    bench.pump()
    assert (mine.held(), other.held()) == ([], [1])  # until the other has settled it
    bench.settle(other, 1)
    bench.send("a")
    bench.pump()
    assert mine.held() == [2]


def test_one_that_took_the_next_group_and_hangs_takes_another_when_it_is_heard() -> None:
    bench = Bench("simple", policy(deadline_s=10))
    mine = bench.join(1, group=NEXT)
    bench.send_all("ab")
    bench.pump()
    assert bench.groups()["b"]["why"] == (
        "all consumers here work on one group each, and take no other until it is done"
    )
    bench.wait(10)
    rival = bench.join(group="a")
    bench.queue.heard_late(mine, 1, bench.now)
    mine.window.grant(1, 0)
    bench.pump()
    assert (rival.got, mine.got) == ([1], [1, 2])


def test_one_that_retires_ends_with_its_group() -> None:
    bench = Bench("simple")
    mine = bench.join(group="a")
    following = bench.join(group="a")
    bench.send("a")
    bench.pump()
    retire(bench.queue, mine, bench.now)
    bench.send("a")
    bench.pump()
    bench.settle(mine, 1, 2)
    bench.send("a")
    bench.pump()
    assert (mine.got, following.got) == ([1, 2], [3])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"selector": "a = 1"}, "a selector does not go with it"),
        ({"exclusive": True}, "exclusive does not go with it"),
        ({"from_seq": 5}, "from-seq does not go with it"),
        ({"group": "x" * 1025}, "more than 1024 bytes"),
    ],
)
def test_what_does_not_go_with_one_group_is_refused_by_name(
    asked: dict[str, object], told: str
) -> None:
    bench = Bench()
    with pytest.raises(RefusedError, match=told):
        bench.join(**{"group": "a", **asked})  # type: ignore[arg-type]


def test_a_queue_without_groups_has_none_to_ask_for() -> None:
    bench = Bench("simple", QueueSettings(priorities=3))
    with pytest.raises(RefusedError, match="has no groups"):
        bench.join(group="a")
