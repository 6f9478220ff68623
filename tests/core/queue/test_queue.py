"""The queue: numbers, limits, settling, and what it counts."""

from __future__ import annotations

import pytest

from covey.core.events.event import EventKind
from covey.core.model.entry import STORING, Outcome
from covey.core.queue.quota import oldest_available
from tests.core.support import Bench, policy


def test_numbers_ascend_and_are_never_used_twice() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send("a")
    bench.pump()
    bench.settle(reader)
    assert [bench.send().seq, bench.send("a").seq] == [2, 3]


def test_a_message_is_seen_only_after_its_commit() -> None:
    bench = Bench()
    reader = bench.join()
    grouped = bench.send("a", state=STORING)
    plain = bench.send(state=STORING)
    bench.send("a")
    bench.send()
    bench.pump()
    assert reader.got == []
    bench.queue.committed(plain)
    bench.queue.committed(grouped)
    bench.pump()
    assert reader.got == [1, 2, 3, 4]


def test_a_second_settle_is_ignored() -> None:
    bench = Bench()
    reader = bench.join(1)
    entry = bench.send("a")
    bench.pump()
    bench.settle(reader)
    bench.queue.settle(entry, Outcome.RELEASED, bench.now)
    assert bench.queue.counters.acked == 1
    assert bench.queue.counters.returned == 0


def test_what_a_consumer_accepts_in_one_go_is_settled_like_one_by_one() -> None:
    bench = Bench()
    reader = bench.join(3)
    bench.send_all("aab")
    bench.send_all("ab")
    bench.pump()
    row = [*reader.entries, reader.entries[0]]
    bench.queue.accept(reader, row, bench.now)
    assert bench.queue.counters.acked == 3
    assert reader.held() == []
    reader.window.grant(3, 0)
    bench.pump()
    assert reader.got == [1, 2, 3, 4, 5]


def test_an_accept_of_what_another_has_meanwhile_leaves_it_there() -> None:
    bench = Bench()
    first, second = bench.join(1), bench.join(0)
    bench.send_all("a")
    bench.pump()
    entry = first.entries[0]
    bench.queue.leave(first, bench.now)
    second.window.grant(1, 0)
    bench.pump()
    bench.queue.accept(first, [entry], bench.now)
    assert second.held() == [1]
    assert bench.queue.counters.acked == 0


def test_a_group_its_policy_held_goes_on_once_the_policy_lets_it() -> None:
    bench = Bench(settings=policy(unsettled_max=1))
    reader = bench.join()
    bench.send_all("aaa")
    bench.pump()
    assert reader.got == [1]
    bench.queue.apply(policy(unsettled_max=2))
    bench.pump()
    assert reader.got == [1, 2]


def test_a_head_nobody_wants_is_set_aside_once_the_policy_says_so() -> None:
    bench = Bench(settings=policy(strict=True))
    reader = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.pump()
    assert reader.got == []
    bench.queue.apply(policy())
    bench.pump()
    assert reader.got == [2]
    bench.queue.apply(policy(strict=True))
    bench.send("a", colour="red")
    bench.pump()
    assert reader.got == [2]  # 1 holds its group again


def test_too_many_failures_bury_a_message_with_the_reason() -> None:
    bench = Bench(settings=policy(nak_limit=2))
    reader = bench.join()
    bench.send("a")
    bench.pump()
    bench.settle(reader, outcome=Outcome.FAILED)
    assert bench.dead == []
    bench.settle(reader, outcome=Outcome.FAILED)
    assert [reason for _, reason in bench.dead] == ["failed 2 times"]
    assert bench.groups() == {}


def test_a_failed_group_waits_as_a_whole_and_a_plain_message_alone() -> None:
    bench = Bench(settings=policy(delay_ms=1000, backoff=2.0))
    reader = bench.join(2)
    bench.send_all("aa")
    bench.send()
    bench.send()
    bench.pump()
    assert reader.got == [1, 2]
    bench.settle(reader, outcome=Outcome.FAILED)
    reader.window.grant(10, 0)
    bench.pump()
    assert reader.got == [1, 2, 3, 4]
    assert bench.queue.next_deadline(bench.now, bench.wall_ms) == bench.now + 1
    bench.settle(reader, 3, outcome=Outcome.FAILED)
    bench.wait(1)
    assert reader.got == [1, 2, 3, 4, 1, 2, 3]


def test_a_shorter_back_off_does_not_cut_a_longer_one() -> None:
    bench = Bench(settings=policy(delay_ms=1000, backoff=4.0))
    reader = bench.join(3)
    bench.send_all("aa")
    bench.pump()
    bench.settle(reader, 1, outcome=Outcome.FAILED)
    bench.wait(1)
    bench.queue.settle(reader.unsettled[1], Outcome.FAILED, bench.now)  # now for four seconds
    bench.queue.settle(reader.unsettled[2], Outcome.FAILED, bench.now)  # now for one
    reader.window.grant(9, 0)
    bench.wait(3.9)
    assert reader.got == [1, 2, 1]
    bench.wait(0.1)
    assert reader.got == [1, 2, 1, 1, 2]


def test_repeated_failures_park_the_group_once_and_keep_its_order() -> None:
    bench = Bench(settings=policy(park_after_failures=2))
    reader = bench.join()
    bench.send_all("aab")
    bench.pump()
    for _ in range(2):
        bench.queue.settle(reader.unsettled[1], Outcome.FAILED, bench.now)
        bench.pump()
    bench.settle(reader, 2, outcome=Outcome.FAILED)
    assert reader.held() == [3]
    assert len(bench.events.kinds(EventKind.PARK)) == 1
    assert bench.groups()["a"]["why"] == "parked: its messages failed too often in a row"


def test_a_success_between_failures_ends_their_row() -> None:
    bench = Bench(settings=policy(park_after_failures=2))
    reader = bench.join()
    bench.send_all("aaaaa")
    bench.pump()
    bench.settle(reader, 1, outcome=Outcome.FAILED)
    bench.settle(reader, 2)  # others are still out
    bench.settle(reader, 3, outcome=Outcome.FAILED)
    assert not bench.groups()["a"]["parked"]
    bench.settle(reader, 3, outcome=Outcome.FAILED)
    assert bench.groups()["a"]["parked"]


def test_messages_that_die_of_their_failures_do_not_end_the_row() -> None:
    bench = Bench(settings=policy(park_after_failures=2, nak_limit=1))
    reader = bench.join(1)
    bench.send_all("aaab")
    bench.pump()
    bench.settle(reader, 1, outcome=Outcome.FAILED)
    reader.window.grant(1, 0)
    bench.pump()
    bench.settle(reader, 2, outcome=Outcome.FAILED)
    reader.window.grant(2, 0)
    bench.pump()
    assert reader.got == [1, 2, 4]  # 3 waits for an operator
    assert bench.queue.counters.dead == 2
    assert len(bench.events.kinds(EventKind.PARK)) == 1


def test_nothing_is_lost_and_nothing_counted_twice() -> None:
    bench = Bench()
    reader = bench.join(3, presettled=True)
    bench.send_all("ab")
    bench.send()
    bench.send(ttl_ms=10)
    bench.pump()
    bench.wait(5)
    counts = bench.queue.counters
    assert (counts.enqueued, counts.acked, counts.expired) == (4, 3, 1)
    assert reader.unsettled == {}
    assert (bench.queue.size, bench.shown()["messages"]) == (0, 0)


def test_a_presettled_delivery_is_reported_as_acknowledged() -> None:
    bench = Bench()
    bench.join(1, presettled=True)
    bench.send("a")
    bench.pump()
    assert bench.events.kinds(EventKind.ACK) == [(EventKind.ACK, "a", 1, 1)]


@pytest.mark.parametrize("strategy", ["shared", "simple", "consistent-hash"])
def test_the_oldest_available_may_be_uncommitted_but_is_never_acquired(strategy: str) -> None:
    bench = Bench(strategy)
    reader = bench.join(1)
    storing = bench.send(state=STORING)
    bench.send("a")
    bench.send("b")
    bench.pump()
    assert reader.held() == [2] and oldest_available(bench.queue) is storing
    bench.queue.drop(storing, EventKind.DROP)
    bench.queue.committed(storing)
    oldest = oldest_available(bench.queue)
    assert oldest is not None and oldest.seq == 3


def test_a_refused_consumer_leaves_no_trace() -> None:
    bench = Bench()
    bench.queue.membership.selectors_max = 1
    bench.join(selector="colour = 'red'")
    with pytest.raises(Exception, match="1 distinct selectors"):
        bench.join(selector="colour = 'blue'")
    assert bench.shown()["consumers"] == 1
    assert len(bench.queue.state.views) == 2


def test_a_draining_link_hears_only_when_nothing_more_can_come() -> None:
    bench = Bench()
    reader = bench.join(5)
    for _ in range(3):
        bench.send()
    bench.queue.draining.append(reader)
    assert bench.queue.pump(bench.now, bench.wall_ms, 2)
    assert reader.drains == 0
    assert not bench.queue.pump(bench.now, bench.wall_ms, 2)
    assert reader.drains == 1
