"""Every way a group can wait has its sentence, and one that can go has none."""

from __future__ import annotations

from pathlib import Path

from covey.core.dispatch.lane import Lane
from covey.core.management.waiting import longest_waits, why_waits
from covey.core.model.entry import Outcome
from covey.core.publishing.transactions import Transaction
from covey.core.queue.policy import close_group, park, retire
from tests.core.storage.sqlite.support import House
from tests.core.support import Bench, policy


def waits_of(bench: Bench, now: float, most: int) -> tuple[list[tuple[float, Lane]], int]:
    return longest_waits(bench.queue, list(bench.queue.state.lanes.values()), now, most)


def _why(bench: Bench, group: str = "A") -> str:
    lane = bench.queue.state.lanes[group]
    why = why_waits(bench.queue, lane)
    listed = [lane for _, lane in waits_of(bench, bench.now, 10)[0]]
    assert (lane in listed) == bool(why)
    return why


def test_a_group_without_any_consumer_says_so() -> None:
    bench = Bench()
    bench.send("A")
    bench.pump()
    assert _why(bench) == "no consumer reads this queue"


def test_a_group_that_is_out_of_memory_waits_for_a_consumer_not_for_the_store(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.send("q", b"x", "A")
    house.rest()
    house = house.restart()
    house.rest()
    queue = house.host.queues["q"]
    assert why_waits(queue, queue.state.lanes["A"]) == "no consumer reads this queue"
    house.store.close()


def test_a_group_behind_consumers_without_credit_says_so() -> None:
    bench = Bench()
    bench.join(0)
    bench.send("A")
    bench.pump()
    assert _why(bench) == "none of 1 consumers has credit"


def test_a_group_whose_owner_has_no_credit_names_the_owner() -> None:
    bench = Bench()
    owner = bench.join(1)
    owner.name = "mine"
    bench.send_all("AA")
    bench.pump()
    assert _why(bench) == "consumer 1 (mine) has no credit; it holds 1 messages"


def test_a_group_whose_owner_does_not_read_says_so() -> None:
    bench = Bench()
    owner = bench.join(1)
    bench.send_all("AA")
    bench.pump()
    owner.window.is_paused = True
    assert _why(bench) == "consumer 1 does not read what was sent to it"


def test_a_draining_group_names_who_has_to_settle() -> None:
    bench = Bench()
    bench.join(1)
    bench.send_all("AA")
    bench.pump()
    bench.join()
    close_group(bench.queue, "A", bench.now)
    bench.pump()
    assert _why(bench) == "waiting for consumer 1 to settle 1 messages"


def test_a_parked_group_says_so() -> None:
    bench = Bench()
    bench.send("A")
    park(bench.queue, "A", bench.now, parked=True)
    assert _why(bench) == "parked"


def test_a_group_that_waits_for_more_consumers_says_so() -> None:
    bench = Bench("simple", policy(consumers_before=2, time_before_ms=1000))
    bench.join()
    bench.send("A")
    bench.pump()
    assert _why(bench) == "waiting for more consumers before the first dispatch"


def test_a_group_that_has_its_owner_waits_for_more_consumers_too() -> None:
    bench = Bench("consistent-hash", policy(consumers_before=2, time_before_ms=60_000))
    bench.join()
    bench.send("A")
    bench.pump()
    assert _why(bench) == "waiting for more consumers before the first dispatch"
    bench.queue.apply(policy(time_before_ms=60_000))
    assert _why(bench) == "waiting for time_before_dispatch_ms to pass before the first dispatch"


def test_a_group_that_failures_parked_says_so() -> None:
    bench = Bench(settings=policy(park_after_failures=1))
    reader = bench.join()
    bench.send("A")
    bench.pump()
    bench.settle(reader, outcome=Outcome.FAILED)
    assert _why(bench) == "parked: its messages failed too often in a row"


def test_a_free_group_whose_consumers_retire_says_so() -> None:
    bench = Bench()
    reader = bench.join()
    retire(bench.queue, reader, bench.now)
    bench.send("A")
    bench.pump()
    assert _why(bench) == "all 1 consumers retire and take no new groups"


def test_a_free_group_names_the_one_consumer_whose_selector_admits_it() -> None:
    bench = Bench()
    bench.join(selector="colour = 'blue'")
    wanting = bench.join(0, selector="colour = 'red'")
    bench.send("A", colour="red")
    bench.pump()
    assert _why(bench) == "consumer 2 has no credit; it holds 0 messages"
    bench.join(0, selector="colour = 'red'")
    bench.pump()
    expected = "none of the 2 consumers that may take its next message has credit"
    assert _why(bench) == expected
    for each in list(bench.queue.state.consumers.values())[1:]:
        retire(bench.queue, each, bench.now)
    bench.pump()
    assert _why(bench) == "only consumers that retire may take its next message"
    assert wanting.got == []


def test_a_group_in_the_open_transaction_of_one_that_left_says_so() -> None:
    bench = Bench()
    leaver = bench.join()
    bench.send_all("AA")
    bench.pump()
    transaction = Transaction(10, 10)
    transaction.settle(leaver.unsettled[1], Outcome.ACCEPTED, 1.0)
    bench.leave(leaver)
    reader = bench.join()
    bench.pump()
    assert _why(bench) == "consumer 1 left 1 messages in a transaction that is open"
    transaction.commit_settlements(bench.now)
    bench.pump()
    assert reader.got == [2]


def test_a_group_that_can_go_has_no_reason_to_wait() -> None:
    bench = Bench()
    bench.join(1)
    bench.send_all("AA")
    assert _why(bench) == ""


def test_groups_that_wait_are_found_blocked_ones_first_then_the_longest() -> None:
    bench = Bench()
    owner = bench.join(1)
    for group in ("A", "A", "B", "C"):
        bench.send(group)
        bench.pump()
        bench.now += 2.0
        bench.queue.ages.note(bench.queue.next_seq, bench.now)
    park(bench.queue, "C", bench.now, parked=True)
    waits, count = waits_of(bench, bench.now + 1.0, 10)
    assert [lane.name for _, lane in waits] == ["C", "A", "B"]
    assert count == 3
    assert all(why_waits(bench.queue, lane) for _, lane in waits)
    assert waits[0][0] == 1.0
    assert waits[1][0] > waits[2][0]
    assert waits_of(bench, bench.now + 1.0, 2)[0] == waits[:2]
    owner.window.grant(3, 0)
    bench.pump()
    assert [lane.name for _, lane in waits_of(bench, bench.now, 10)[0]] == ["C"]
