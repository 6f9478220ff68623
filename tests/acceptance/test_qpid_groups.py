"""Shared groups, rule by rule (S-n): what the Qpid page promises and Qpid's broker does.

S-14, S-15 are transactions', S-23 is the settings', S-24 the admin view's business. Where this
broker does better than its model the test says so.
"""

from __future__ import annotations

from covey.core.model.consumer import Window
from covey.core.model.entry import Outcome
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from covey.core.queue.quota import oldest_available
from covey.groups import make
from covey.groups.key import GroupKey
from tests.core.support import Bench, policy
from tests.doubles import Letter, Reader


def bench() -> Bench:
    return Bench("shared")


def keyed(header: str, default: str) -> Queue:
    return Queue("keyed", policy(), make("shared"), GroupKey(header, default), Unowned())


def test_s1_the_configured_header_alone_is_the_group() -> None:
    queue = keyed("order", "qpid.no-group")
    message = Letter(order=7)
    message.group = "the protocol's own"
    assert queue.enqueue(message).lane.name == "7"


def test_s2_messages_without_the_header_are_one_group_of_their_own() -> None:
    queue = keyed("order", "qpid.no-group")
    lanes = {queue.enqueue(Letter()).lane, queue.enqueue(Letter(order="")).lane}
    assert [lane.name for lane in lanes] == ["qpid.no-group"]


def test_s3_an_empty_group_does_not_exist() -> None:
    work = bench()
    reader = work.join()
    work.send("a")
    assert work.owner("a") is None
    work.pump()
    work.settle(reader)
    assert work.groups() == {}
    assert work.shown()["groups_tracked"] == 0


def test_s4_an_owner_is_an_object_whatever_its_name() -> None:
    work = bench()
    first, second = work.join(1), work.join(1)
    first.name = second.name = "same link"
    work.send_all("aa")
    work.pump()
    assert (first.got, second.got) == ([1], [])


def test_s5_messages_of_groups_owned_by_others_are_stepped_over() -> None:
    work = bench()
    first = work.join(1)
    work.send_all("aaab")
    work.pump()
    second = work.join()
    work.pump()
    assert (first.got, second.got) == ([1], [4])


def test_s6_taking_a_message_of_a_free_group_takes_the_group() -> None:
    work = bench()
    reader = work.join(1)
    work.send("a")
    work.pump()
    assert work.owner("a") is reader


def test_s7_the_owner_may_have_as_many_as_its_credit_allows() -> None:
    work = bench()
    owner, other = work.join(3), work.join(3)
    work.send_all("aaaa")
    work.pump()
    assert (owner.got, other.got) == ([1, 2, 3], [])


def test_s8_the_last_accept_frees_the_group() -> None:
    work = bench()
    first = work.join(2)
    work.send_all("aaa")
    work.pump()
    second = work.join()
    work.settle(first, 1)
    assert second.got == []
    work.settle(first, 2)
    assert second.got == [3]


def test_s9_a_reject_frees_the_group_and_buries_the_message() -> None:
    work = bench()
    first = work.join(1)
    work.send_all("aa")
    work.pump()
    second = work.join()
    work.settle(first, outcome=Outcome.REJECTED)
    assert second.got == [2]
    assert [reason for _, reason in work.dead] == ["rejected"]


def test_s10_a_release_returns_the_message_to_its_place_and_frees_the_group() -> None:
    work = bench()
    first = work.join(1)
    work.send_all("aa")
    work.pump()
    second = work.join()
    work.settle(first, outcome=Outcome.RELEASED)
    assert second.got == [1, 2]
    assert second.entries[0].deliveries == 0


def test_s10_a_failure_counts_and_a_release_does_not() -> None:
    work = bench()
    reader = work.join(1)
    entry = work.send("a")
    work.pump()
    work.settle(reader, outcome=Outcome.FAILED)
    assert entry.deliveries == 1


def test_s11_releasing_one_of_two_keeps_the_group() -> None:
    work = bench()
    owner, other = work.join(2), work.join(2)
    work.send_all("aa")
    work.pump()
    work.settle(owner, 1, outcome=Outcome.RELEASED)
    assert other.got == []
    owner.window.grant(1, 0)
    work.pump()
    assert owner.got == [1, 2, 1]


def test_s12_a_presettled_delivery_frees_the_group_at_once() -> None:
    work = bench()
    first, second = work.join(1, presettled=True), work.join(1)
    work.send_all("aa")
    work.pump()
    assert (first.got, second.got) == ([1], [2])


def test_s13_a_detach_returns_everything_counted_and_frees_its_groups() -> None:
    work = bench()
    first = work.join(2)
    work.send_all("ab")
    work.pump()
    second = work.join()
    work.leave(first)
    assert second.got == [1, 2]
    assert [entry.deliveries for entry in second.entries] == [1, 1]


def test_s16_a_browser_owns_nothing_and_need_not_see_what_is_acquired() -> None:
    work = bench()
    work.join(1)
    work.send_all("ab")
    work.pump()
    browser = work.browse()
    browser.sees_acquired = False
    work.pump()
    assert browser.got == [2]
    assert work.owner("b") is None


def test_s16_one_that_heeds_holders_sees_what_is_acquired_on_other_queues_only() -> None:
    for strategy, seen in (("shared", [2]), ("simple", [1, 2])):
        work = Bench(strategy)
        work.join(1)
        work.send_all("ab")
        work.pump()
        browser = Reader(Window(9))
        browser.is_browser = browser.heeds_holders = True
        work.queue.join(browser, work.now)
        work.pump()
        assert browser.got == seen


def test_s17_expired_messages_go_whoever_owns_the_group() -> None:
    work = bench()
    owner = work.join(1)
    work.send("a")
    work.send("a", ttl_ms=100)
    work.send("a")
    work.pump()
    work.wait(5)
    work.settle(owner)
    owner.window.grant(9, 0)
    work.pump()
    assert owner.got == [1, 3]


def test_s18_an_acquired_message_still_counts_in_the_depth() -> None:
    work = bench()
    work.join(1)
    work.send_all("aa")
    work.pump()
    assert work.groups()["a"]["messages"] == 2


def test_s19_nobody_owns_a_group_through_a_message_it_does_not_match() -> None:
    work = bench()
    picky, other = work.join(selector="colour = 'red'"), work.join(0)
    work.send("a", colour="blue")
    work.send("a", colour="red")
    work.pump()
    assert picky.got == [] and work.owner("a") is None
    other.window.grant(1, 0)
    work.pump()
    assert other.got == [1]


def test_s20_everybody_who_could_take_the_freed_group_is_considered() -> None:
    work = bench()
    first = work.join(1)
    work.send_all("aa")
    work.pump()
    picky = work.join(selector="colour = 'red'")
    idle = work.join()
    work.settle(first)
    assert (picky.got, idle.got) == ([], [2])


def test_s21_the_oldest_free_message_goes_first() -> None:
    work = bench()
    first = work.join(2)
    work.send_all("abba")
    work.pump()
    second = work.join(1)
    work.settle(first)
    assert second.got == [3]


def test_s22_groups_never_block_each_other() -> None:
    work = bench()
    work.join(1)
    work.send_all("a" * 50 + "b")
    work.pump()
    other = work.join()
    work.pump()
    assert other.got == [51]


def test_s25_a_new_queue_knows_no_owner() -> None:
    work = bench()
    work.send_all("ab")
    assert [work.owner(group) for group in "ab"] == [None, None]


def test_s26_an_acquired_message_is_never_dropped_for_room() -> None:
    work = bench()
    work.join(1)
    work.send_all("ab")
    work.pump()
    oldest = oldest_available(work.queue)
    assert oldest is not None and oldest.seq == 2
