"""Admission: lending, setting aside, strict selectors."""

from __future__ import annotations

from covey.core.dispatch.admission import ASIDE_PORTION
from covey.core.dispatch.lane import HELD
from tests.core.support import Bench, policy


def test_a_head_the_owner_refuses_is_lent_and_the_group_stays_with_its_owner() -> None:
    bench = Bench()
    owner = bench.join(selector="colour = 'red'")
    bench.send("a", colour="red")
    bench.pump()
    other = bench.join(selector="colour = 'blue'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.pump()
    assert (owner.got, other.got) == ([1], [])
    bench.settle(owner)
    assert (owner.got, other.got) == ([1], [2])
    bench.settle(other)
    assert owner.got == [1, 3]
    assert bench.owner("a") is owner
    assert owner.firsts == [1] and other.firsts == []


def test_whoever_was_lent_messages_gets_the_next_ones_up_to_its_credit() -> None:
    bench = Bench()
    owner = bench.join(selector="colour = 'red'")
    bench.send("a", colour="red")
    bench.pump()
    bench.settle(owner)
    borrower = bench.join(2, selector="colour = 'blue'")
    other = bench.join(0, selector="colour = 'blue'")
    for colour in ("blue", "blue", "blue", "red"):
        bench.send("a", colour=colour)
    bench.pump()
    assert (borrower.got, other.got, owner.got) == ([2, 3], [], [1])
    other.window.grant(5, 0)
    bench.pump()
    assert other.got == []  # the gate
    bench.settle(borrower)
    assert (borrower.got, other.got, owner.got) == ([2, 3], [4], [1])
    bench.settle(other)
    assert owner.got == [1, 5]


def test_the_ring_lends_to_the_next_consumer_clockwise_that_is_there() -> None:
    bench = Bench("consistent-hash", policy(sticky_return_s=60.0))
    bench.join(selector="colour = 'red'")
    away = bench.join(selector="colour = 'blue'", client_id="x")
    here = bench.join(selector="colour = 'blue'")
    bench.leave(away)
    for i in range(20):
        bench.send(f"g{i}", colour="blue")
    bench.pump()
    waiting = [lane for lane in bench.queue.state.lanes.values() if lane.owner is away]
    assert len(here.got) == 20 - len(waiting)
    assert all(lane.where == HELD for lane in waiting)


def test_a_head_nobody_admits_is_set_aside_and_comes_back_at_its_place() -> None:
    bench = Bench()
    red = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.pump()
    assert red.got == [2]
    bench.settle(red)
    bench.send("a", colour="red")
    anybody = bench.join()
    bench.queue.leave(red, bench.now)
    bench.pump()
    assert anybody.got == [1, 3]


def test_with_strict_selectors_such_a_head_holds_its_group_and_says_why() -> None:
    bench = Bench(settings=policy(strict=True))
    red = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.pump()
    lane = bench.queue.state.lanes["a"]
    assert (red.got, lane.where) == ([], HELD)
    assert lane.why == "no consumer's selector admits its next message"


def test_an_aside_message_that_expired_is_forgotten() -> None:
    bench = Bench()
    bench.join(selector="colour = 'red'")
    for _ in range(10):
        bench.send("a", colour="blue", ttl_ms=100)
    bench.send("a", colour="blue")
    bench.pump()
    bench.wait(2)
    aside = bench.queue.state.lanes["a"].aside
    assert aside is not None and (aside.count, aside.first()) == (1, 11)


def test_a_long_backlog_nobody_wants_is_set_aside_in_portions_and_comes_back_in_order() -> None:
    bench = Bench()
    for _ in range(2500):
        bench.send("a", colour="blue")
    bench.send("a", colour="red")
    bench.send("b", colour="red")
    red = bench.join(selector="colour = 'red'")
    assert bench.queue.pump(bench.now, bench.wall_ms, 1000)
    lane = bench.queue.state.lanes["a"]
    assert lane.aside is not None
    assert lane.aside.count == ASIDE_PORTION
    assert red.got == [2502]  # another group does not wait for that
    bench.pump()
    assert red.got == [2502, 2501]
    bench.settle(red)
    blue = bench.join(10_000, selector="colour = 'blue'")
    bench.pump()
    assert blue.got == list(range(1, 2501))
