"""The view: what a selector and a from-seq let through, each message looked at once."""

from __future__ import annotations

from covey.core.dispatch.lane import Lane
from covey.core.dispatch.ungrouped import TRIM_MIN
from covey.core.dispatch.view import View
from covey.core.model.entry import ACQUIRED, AWAY, GONE, PENDING, Entry, Outcome
from tests.core.support import Bench, Letter, policy, selector_of

PLAIN = Lane("", is_grouped=False)


def entry(seq: int, colour: str = "red", state: int = PENDING) -> Entry:
    return Entry(seq, Letter(colour=colour), PLAIN, state)


def test_a_view_matches_by_selector_and_from_seq() -> None:
    view = View(selector_of("colour = 'red'"), 5)
    assert view.matches(entry(5))
    assert not view.matches(entry(4))
    assert not view.matches(entry(5, "blue"))


def test_trim_drops_gone_entries_only() -> None:
    view = View(None, 0)
    view.restart([entry(1, state=GONE), entry(2), entry(3, state=ACQUIRED), entry(4, state=AWAY)])
    view.trim()
    assert [one.seq for one in view.todo] == [2, 3, 4]


def test_consumers_with_the_same_wish_share_a_view() -> None:
    bench = Bench()
    readers = [bench.join(selector="colour = 'red'") for _ in range(2)]
    assert readers[0].view is readers[1].view
    assert bench.join(selector="colour = 'red'", from_seq=9).view is not readers[0].view
    assert bench.join(selector="colour = 'red'", exclusive=True).view is not readers[0].view


def test_each_message_is_tested_once_per_distinct_selector() -> None:
    bench = Bench()
    lookups: list[int] = []

    class Counted(Letter):
        def lookup(self, name: str) -> str:
            lookups.append(1)
            return "red"

    for _ in range(5):
        bench.join(selector="colour = 'blue'")
    for _ in range(10):
        bench.queue.enqueue(Counted())
    bench.pump()
    bench.pump()
    assert len(lookups) == 10


def test_a_view_without_credit_does_not_keep_what_others_consumed() -> None:
    bench = Bench()
    dry = bench.join(0, selector="colour = 'red'")
    busy = bench.join(10_000)
    for _ in range(1000):
        bench.send(colour="red")
        bench.pump()
        bench.settle(busy)
    assert dry.view is not None
    assert len(dry.view.todo) <= TRIM_MIN + 1


def test_a_view_without_credit_does_not_keep_every_return() -> None:
    bench = Bench()
    busy = bench.join(0)
    dry = bench.join(1, selector="colour = 'red'")
    bench.send(colour="red")
    bench.pump()
    bench.settle(dry, outcome=Outcome.RELEASED)
    busy.window.grant(10_000, 0)
    bench.pump()
    for _ in range(500):
        bench.settle(busy, outcome=Outcome.RELEASED)
    assert dry.view is not None
    assert len(dry.view.back) <= TRIM_MIN + 3


def test_a_message_that_waits_for_its_retry_survives_a_trim() -> None:
    bench = Bench(settings=policy(delay_ms=1000))
    reader = bench.join(1)
    bench.send(colour="red")
    bench.pump()
    bench.settle(reader, outcome=Outcome.FAILED)
    other = bench.join(0, selector="colour = 'red'")
    for view in bench.queue.state.views:
        view.trim()
    reader.window.grant(1, 0)
    bench.wait(1.0)
    assert reader.got == [1, 1]
    assert other.got == []
