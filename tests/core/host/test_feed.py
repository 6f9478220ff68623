"""A topic subscriber's feed: credit, order, what comes back, what waits and for how long."""

from __future__ import annotations

from covey.core.clock import Clock
from covey.core.host.feed import ENTRY_COST, Binding, Fan, Feed
from covey.core.model.consumer import Window
from covey.core.model.entry import Outcome
from covey.core.model.message import Message
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from tests.core.double import Room, letter, make_host
from tests.core.support import selector_of
from tests.doubles import Reader


class Bench:
    """A feed with its reader and its clock."""

    def __init__(self, credit: int = 100, buffer_size: int = 10_000) -> None:
        self.person = Room().enter()
        self.clock = Clock()
        self.reader = Reader(Window(credit), self.person.session)
        self.feed = Feed("s", self.reader, buffer_size, self.clock)

    def offer(self, *names: str, size: int = 1, **options: int) -> None:
        for name in names:
            message = letter(name, size=size, **options)
            self.feed.offer(message)


def fan_of(*names: str, **options: int) -> Fan:
    fan = Fan()
    for name in names:
        fan.add(letter(name, **options))
    return fan


def test_a_message_is_handed_on_at_once_while_there_is_credit() -> None:
    bench = Bench(credit=2)
    bench.offer("1", "2", "3")
    assert bench.reader.names == ["1", "2"]
    bench.reader.window.grant(1, 0)
    assert bench.reader.names == ["1", "2", "3"]


def test_both_windows_are_lowered() -> None:
    bench = Bench(credit=5)
    bench.offer("1", size=7)
    assert (bench.reader.window.count, bench.reader.window.size) == (4, -7)


def test_a_returned_message_is_first_in_line_again() -> None:
    bench = Bench(credit=2)
    bench.offer("1", "2", "3")
    bench.feed.settle(bench.reader.entries[0], Outcome.FAILED, 0.0)
    bench.reader.window.grant(2, 0)
    assert bench.reader.names == ["1", "2", "1", "3"]
    assert bench.reader.entries[2].deliveries == 1


def test_a_release_is_not_counted() -> None:
    bench = Bench(credit=1)
    bench.offer("1")
    bench.feed.settle(bench.reader.entries[0], Outcome.RELEASED, 0.0)
    bench.reader.window.grant(1, 0)
    assert bench.reader.entries[1].deliveries == 0


def test_a_second_settle_is_ignored() -> None:
    bench = Bench()
    bench.offer("1")
    for outcome in (Outcome.ACCEPTED, Outcome.FAILED):
        bench.feed.settle(bench.reader.entries[0], outcome, 0.0)
    assert bench.reader.names == ["1"]


def test_subscribers_that_settle_as_they_are_sent_share_the_entries_of_a_fan() -> None:
    benches = [Bench(credit=2), Bench(credit=3)]
    fan = fan_of("1", "2", size=7)
    for bench in benches:
        bench.reader.is_presettled = True
        bench.feed.take(fan)
        assert bench.reader.names == ["1", "2"]
        assert bench.reader.unsettled == {}
    assert benches[0].reader.entries == benches[1].reader.entries
    assert (benches[1].reader.window.count, benches[1].reader.window.size) == (1, -14)


def test_of_a_fan_beyond_the_credit_the_rest_waits() -> None:
    bench = Bench(credit=1)
    bench.reader.is_presettled = True
    bench.feed.take(fan_of("1", "2"))
    assert bench.reader.names == ["1"]
    bench.feed.take(fan_of("3"))
    bench.reader.window.grant(2, 0)
    assert bench.reader.names == ["1", "2", "3"]


def test_a_fan_is_looked_through_where_a_message_may_be_unwanted() -> None:
    bench = Bench()
    bench.reader.is_presettled = True
    bench.clock.wall_ms = 1000
    bench.feed.take(fan_of("over", expires_ms=1000))
    bench.reader.selector = selector_of("name <> '2'")
    bench.feed.take(fan_of("1", "2"))
    bench.reader.selector = None
    bench.reader.is_no_local = True
    bench.feed.take(fan_of("own", sender=bench.person.session.id))
    assert bench.reader.names == ["1"]


def test_what_waits_is_counted_with_its_cost_and_marks_the_feed_as_over() -> None:
    bench = Bench(credit=0, buffer_size=2 * ENTRY_COST)
    bench.offer("1", "2", size=0)
    assert not bench.feed.is_over
    bench.offer("3", size=0)
    assert bench.feed.is_over


def test_producers_go_on_when_half_of_the_buffer_is_free() -> None:
    bench = Bench(credit=0, buffer_size=2 * ENTRY_COST)
    bench.offer("1", "2", "3", size=0)
    session = bench.person.session
    session.block("slow", 0.0)
    bench.feed.waited_for_by.append(session)
    bench.reader.window.grant(1, 0)
    assert session.is_blocked
    bench.reader.window.grant(1, 0)
    assert not session.is_blocked


def test_producers_go_on_when_the_subscriber_leaves() -> None:
    bench = Bench(credit=0, buffer_size=10)
    bench.offer("1", "2")
    session = bench.person.session
    session.block("slow", 0.0)
    bench.feed.waited_for_by.append(session)
    bench.feed.leave(bench.reader, 0.0)
    assert not session.is_blocked
    assert not bench.feed.waiting


def test_expired_messages_are_not_delivered() -> None:
    bench = Bench(credit=0)
    bench.clock.wall_ms = 1000
    bench.offer("over", expires_ms=1000)
    bench.offer("later", expires_ms=2000)
    bench.offer("never")
    bench.clock.wall_ms = 2000
    bench.reader.window.grant(5, 0)
    assert bench.reader.names == ["never"]
    assert bench.feed.size == 0


def test_a_selector_and_no_local_leave_messages_out() -> None:
    bench = Bench()
    bench.reader.selector = selector_of("name <> '2'")
    bench.reader.is_no_local = True
    bench.offer("1", "2")
    bench.offer("own", sender=bench.person.session.id)
    assert bench.reader.names == ["1"]


def test_a_consumer_that_holds_all_it_may_gets_more_as_it_settles() -> None:
    bench = Bench()
    bench.reader.unsettled_max = 1
    bench.offer("1", "2")
    assert bench.reader.names == ["1"]
    bench.feed.settle(bench.reader.entries[0], Outcome.ACCEPTED, 0.0)
    assert bench.reader.names == ["1", "2"]


def test_nothing_comes_back_to_a_feed_that_ended() -> None:
    bench = Bench()
    bench.offer("1")
    entry = bench.reader.entries[0]
    bench.feed.leave(bench.reader, 0.0)
    bench.feed.settle(entry, Outcome.FAILED, 0.0)
    assert not bench.feed.waiting


# A binding fills its queue from topics, through its selector.


class Taker(Unowned):
    """An owner that keeps what is meant for its queues."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[Queue, Message]] = []

    def put(self, queue: Queue, message: Message) -> None:
        self.taken.append((queue, message))


def test_a_binding_puts_what_its_selector_admits() -> None:
    owner = Taker()
    queue = make_host(owner=owner).queue("a")
    binding = Binding(queue)
    yes, no = letter("yes"), letter("no")
    binding.selector = selector_of("name = 'yes'")
    for message in (yes, no):
        binding.offer(message)
    assert owner.taken == [(queue, yes)]
