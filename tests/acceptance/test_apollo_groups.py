"""The ring, rule by rule (P-n): message groups of the Apollo STOMP manual.

P-1's header and P-8's buffers are the protocol's, P-12 is the ring's own test, P-14's covering
NACK the STOMP engine's. Where this broker does better than its model the test says so.
"""

from __future__ import annotations

from covey.core.dispatch.state import INTRODUCED_MAX
from covey.core.model.entry import Outcome
from tests.core.support import Bench, policy
from tests.doubles import Reader

GROUPS = "abcdefghijklmnopqrstuvwxyz"


def bench() -> Bench:
    return Bench("consistent-hash")


def owners(work: Bench) -> dict[str, object]:
    return {group: work.owner(group) for group in work.groups()}


def test_p1_there_is_no_close_on_a_ring() -> None:
    work = bench()
    reader = work.join()
    work.join()
    for sequence in (0, -1, 0):
        work.send("a", sequence=sequence)
    work.pump()
    owner = work.owner("a")
    assert isinstance(owner, Reader) and owner.got == [1, 2, 3]
    assert reader.lost == []


def test_p2_an_exclusive_consumer_that_matches_comes_before_the_ring() -> None:
    work = bench()
    chosen = work.join(exclusive=True, selector="colour = 'red'")
    other = work.join()
    for group in GROUPS:
        work.send(group, colour="red" if group < "n" else "blue")
    work.pump()
    assert chosen.got == list(range(1, 14))
    assert other.got == list(range(14, 27))


def test_p2_what_nobody_matches_stays_queued_and_blocks_nothing() -> None:
    work = bench()
    reader = work.join(selector="colour = 'red'")
    work.send("a", colour="blue")
    work.send("a", colour="red")
    work.pump()
    assert reader.got == [2]
    assert work.shown()["messages"] == 2


def test_p3_a_full_target_stops_only_its_own_groups() -> None:
    work = bench()
    full, other = work.join(1), work.join()
    work.send_all(GROUPS)
    work.pump()
    assert len(full.got) == 1
    mine = sum(owner is other for owner in owners(work).values())
    assert len(other.got) == mine > 0


def test_p4_ungrouped_messages_go_in_turn() -> None:
    work = bench()
    readers = [work.join() for _ in range(3)]
    for _ in range(9):
        work.send()
    work.pump()
    assert [reader.got for reader in readers] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


def test_p5_browsers_are_not_on_the_ring() -> None:
    work = bench()
    browser = work.browse()
    reader = work.join()
    work.send_all(GROUPS)
    work.pump()
    assert len(browser.got) == len(reader.got) == 26


def test_p6_p7_a_join_makes_only_the_moved_groups_wait_for_their_drain() -> None:
    """Unlike Apollo, where both consumers fall silent until all is drained."""
    work = bench()
    old = work.join(26)
    work.send_all(GROUPS)
    work.pump()
    new = work.join()
    work.send_all(GROUPS)
    old.window.grant(100, 0)
    work.pump()
    moved = [group for group, owner in owners(work).items() if owner is new]
    assert 0 < len(moved) < 26
    assert new.got == []
    assert len(old.got) == 26 + 26 - len(moved)
    work.settle(old)
    assert len(new.got) == len(moved)


def test_p9_a_join_before_any_message_waits_for_nothing() -> None:
    work = bench()
    readers = [work.join() for _ in range(3)]
    work.send_all(GROUPS)
    work.pump()
    assert sum(len(reader.got) for reader in readers) == 26


def test_p10_p11_a_leaver_s_groups_go_on_at_once_with_nothing_left_behind() -> None:
    work = bench()
    stays, goes = work.join(), work.join(0)
    work.send_all(GROUPS)
    work.pump()
    assert len(stays.got) < 26
    work.leave(goes)
    assert sorted(stays.got) == list(range(1, 27))


def test_p13_a_join_moves_groups_to_the_newcomer_only_and_a_leave_the_leaver_s_only() -> None:
    work = bench()
    for _ in range(2):
        work.join(0)
    work.send_all(GROUPS)
    work.pump()
    before = owners(work)
    third = work.join(0)
    work.pump()
    after = owners(work)
    moved = [group for group in GROUPS if before[group] is not after[group]]
    assert 0 < len(moved) < 26
    assert all(after[group] is third for group in moved)
    work.leave(third)
    assert owners(work) == before


def test_p14_a_nack_counts_and_returns_in_place_until_the_limit() -> None:
    work = Bench("consistent-hash", policy(nak_limit=2))
    reader = work.join()
    work.send_all("aa")
    work.pump()
    work.settle(reader, 1, outcome=Outcome.FAILED)
    assert reader.got == [1, 2, 1]
    work.settle(reader, 1, outcome=Outcome.FAILED)
    assert len(work.dead) == 1
    assert reader.got == [1, 2, 1]


def test_p15_when_an_exclusive_consumer_leaves_the_others_get_what_it_left() -> None:
    work = bench()
    other, chosen = work.join(), work.join(0, exclusive=True)
    work.send_all("abc")
    work.send()
    work.pump()
    assert other.got == []
    work.leave(chosen)
    assert other.got == [1, 2, 3, 4]


def test_the_first_message_of_each_ownership_is_flagged() -> None:
    work = bench()
    first = work.join(0)
    work.send_all("aa")
    second = work.join(0)
    work.pump()
    for reader in (first, second):
        reader.window.grant(5, 0)
    work.pump()
    assert first.firsts + second.firsts == [1]


def test_on_the_ring_too_a_group_that_was_empty_is_not_flagged_as_new_again() -> None:
    bench = Bench("consistent-hash")
    reader = bench.join()
    for _ in range(3):
        bench.send("a")
        bench.pump()
        bench.settle(reader)
    assert (reader.got, reader.firsts) == ([1, 2, 3], [1])
    bench.leave(reader)
    other = bench.join()
    bench.send("a")
    bench.pump()
    assert other.firsts == [4]


def test_what_the_ring_was_told_of_so_many_groups_is_forgotten_at_some_time() -> None:
    bench = Bench("consistent-hash")
    reader = bench.join(100_000, presettled=True)
    for group in ("a", *[f"other-{i}" for i in range(INTRODUCED_MAX)], "a"):
        bench.send(group)
        bench.pump()
    assert len(reader.got) == len(reader.firsts)  # once too often, never once too few
    assert len(bench.queue.state.introduced) <= INTRODUCED_MAX
