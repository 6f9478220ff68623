"""Exclusions: a message that one consumer must not get again, and another may."""

from __future__ import annotations

import pytest

from covey.core.model.entry import ASIDE, PENDING, Outcome
from tests.core.support import Bench, policy


@pytest.mark.parametrize(("outcome", "deliveries"), [(Outcome.DECLINED, 0), (Outcome.UNFIT, 1)])
@pytest.mark.parametrize("group", ["", "g"])
def test_another_consumer_gets_what_one_refused(
    group: str, outcome: Outcome, deliveries: int
) -> None:
    bench = Bench()
    first = bench.join()
    bench.send(group)
    bench.pump()
    bench.settle(first, 1, outcome=outcome)
    assert first.got == [1]
    second = bench.join()
    bench.pump()
    assert (second.got, first.got) == ([1], [1])
    assert second.entries[0].deliveries == deliveries


@pytest.mark.parametrize("strategy", ["simple", "lru", "shared", "hash-buckets", "consistent-hash"])
def test_a_refused_message_is_lent_and_its_group_goes_on_in_order(strategy: str) -> None:
    bench = Bench(strategy)
    readers = [bench.join(credit=1), bench.join(credit=1)]
    bench.send_all("gg")
    bench.pump()
    (owner,) = [reader for reader in readers if reader.got]
    (other,) = [reader for reader in readers if not reader.got]
    bench.settle(owner, 1, outcome=Outcome.DECLINED)
    owner.window.grant(1, 0)
    bench.pump()
    assert (owner.got, other.got) == ([1], [1])  # 2 waits behind 1
    bench.settle(other, 1)
    for reader in readers:
        reader.window.grant(1, 0)
    bench.pump()
    assert sorted(owner.got + other.got) == [1, 1, 2]


def test_what_nobody_is_left_for_is_set_aside_and_says_so() -> None:
    bench = Bench()
    only = bench.join()
    entry = bench.send("g")
    bench.pump()
    bench.settle(only, 1, outcome=Outcome.DECLINED)
    assert (only.got, entry.state) == ([1], ASIDE)
    assert "set aside" in str(bench.groups()["g"]["why"])
    bench.send("g")
    bench.pump()
    assert only.got == [1, 2]  # the group itself goes on


def test_with_strict_order_the_group_waits_and_says_so() -> None:
    bench = Bench(settings=policy(strict=True))
    only = bench.join()
    bench.send_all("gg")
    bench.pump()
    bench.settle(only, 1, 2, outcome=Outcome.DECLINED)
    assert only.got == [1, 2]
    assert "admits" in str(bench.groups()["g"]["why"])


def test_a_consumer_that_joins_later_gets_what_was_set_aside() -> None:
    bench = Bench()
    first = bench.join()
    bench.send_all("gg")
    bench.pump()
    bench.settle(first, outcome=Outcome.DECLINED)
    second = bench.join()
    bench.pump()
    assert second.got == [1, 2]
    bench.settle(second, 1, outcome=Outcome.DECLINED)
    third = bench.join()
    bench.pump()
    for reader in (second, third):
        bench.settle(reader)
    assert (first.got, third.got[0]) == ([1, 2], 1)
    assert sorted(second.got + third.got) == [1, 1, 2]
    assert bench.shown()["messages"] == 0


def test_the_others_of_a_selector_still_get_it() -> None:
    bench = Bench()
    first = bench.join(selector="colour = 'red'", credit=1)
    second = bench.join(selector="colour = 'red'", credit=0)
    bench.send(colour="red")
    bench.pump()
    bench.settle(first, 1, outcome=Outcome.DECLINED)
    first.window.grant(9, 0)
    second.window.grant(9, 0)
    bench.send(colour="red")
    bench.send(colour="blue")
    bench.pump()
    assert first.got[0] == 1
    assert 1 in second.got
    assert sorted(first.got + second.got) == [1, 1, 2]


def test_what_an_exclusive_consumer_refused_falls_to_the_others() -> None:
    bench = Bench()
    exclusive = bench.join(exclusive=True)
    other = bench.join()
    bench.send_all("ab")
    bench.pump()
    assert other.got == []
    bench.settle(exclusive, 1, outcome=Outcome.DECLINED)
    assert (other.got, exclusive.got) == ([1], [1, 2])


def test_a_message_returned_before_is_not_given_back_by_an_old_place() -> None:
    bench = Bench()
    first, second = bench.join(credit=1), bench.join(credit=1)
    bench.send()
    bench.send()
    bench.pump()
    bench.settle(first, 1, outcome=Outcome.DECLINED)  # first has a view of its own from now on
    bench.settle(second, 2, outcome=Outcome.RELEASED)
    for _ in range(3):
        first.window.count = 9
        bench.pump()
        bench.settle(first, outcome=Outcome.RELEASED)
    first.window.count = 9
    bench.queue.credit_changed(first)
    bench.pump()
    bench.settle(first, 2, outcome=Outcome.DECLINED)
    bench.pump()
    assert first.got.count(1) == 1
    assert 2 not in first.unsettled
    second.window.grant(9, 0)
    bench.pump()
    assert sorted(second.held()) == [1, 2]


def test_refusals_count_against_the_limit_of_selectors() -> None:
    bench = Bench(settings=policy(nak_limit=0))
    bench.queue.membership.selectors_max = 1
    readers = [bench.join(credit=1) for _ in range(3)]
    for _ in readers:
        bench.send()
    bench.pump()
    for reader in readers:
        bench.settle(reader, outcome=Outcome.DECLINED)
    assert len(bench.queue.state.views) == 2
    assert bench.dead == []
    assert bench.shown()["messages"] == 3  # without a dead-letter queue nothing is lost


def test_numbers_of_messages_that_are_gone_are_forgotten() -> None:
    bench = Bench()
    first = bench.join(1000)
    bench.send("g")
    bench.pump()
    bench.settle(first, outcome=Outcome.DECLINED)
    second = bench.join(1000)
    for _ in range(200):
        bench.send()
        bench.pump()
        if first.held():
            bench.settle(first, outcome=Outcome.DECLINED)
        bench.settle(second)
    assert first.view is not None
    assert first.view.refused is not None
    assert len(first.view.refused) <= 70
    assert all(entry.state == PENDING for entry in bench.queue.state.index)
