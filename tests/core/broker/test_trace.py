"""Trace: what happens on a queue, told to whoever asks, and to nobody else."""

from __future__ import annotations

import pytest

from covey.config.settings import BrokerSettings, Settings
from covey.core.broker.broker import Broker
from covey.core.broker.trace import EVENTS_PER_ANSWER, Trace
from covey.core.clock import Clock
from covey.core.dispatch.state import DispatchState
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind, QueueEvents
from covey.core.host.subscription import Subscription
from covey.core.management.admin import Admin
from covey.core.model.consumer import Window
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Identity, Principal
from tests.core.support import Bench
from tests.doubles import Events, Letter, OneForAll, Reader

NOW = 5.0
OPERATOR = Identity("admin", (Principal("role", "admin"),))


class World:
    """A broker with a queue `work`, and an operator."""

    def __init__(self, **limits: object) -> None:
        broker = BrokerSettings.model_validate(limits)
        self.broker = Broker(Settings(broker=broker))
        self.broker.clock.offset = 1000.0
        self.host = self.broker.host
        self.admin = Admin(self.broker, self.host, OPERATOR)
        self.session = self.broker.open(self.host, Identity("guest"), NOW)
        self.state: DispatchState = self.host.queue("work").state

    @property
    def sink(self) -> QueueEvents | None:
        """Where the queue's events go at present."""
        return self.state.events

    def send(self, group: str = "", now: float = NOW) -> None:
        message = Letter()
        message.group = group
        self.broker.turn(now)
        self.broker.publishing.publish(self.session, (Destination(Kind.QUEUE, "work"),), message)
        self.broker.run(now)

    def read(self) -> None:
        window = Window(10)
        reader = Subscription(self.session, "r", window, lambda: Reader(window))
        self.broker.subscribe(self.session, reader, (Destination(Kind.QUEUE, "work"),), NOW)
        self.broker.run(NOW)

    def trace(self, after: int = 0, now: float = NOW) -> list[tuple[object, ...]]:
        """Ask for events; kind, sequence number, group and consumer of each."""
        fields = ("event", "seq", "group", "consumer")
        told = self.admin.trace("work", after, now)["events"]
        assert isinstance(told, list)
        return [tuple([event[field] for field in fields]) for event in told]


def make_trace(size: int = 100) -> tuple[Bench, Trace]:
    bench = Bench()
    return bench, Trace(bench.queue.state, Clock(), size)


def numbers(trace: Trace, after: int) -> list[int]:
    return [event[0] for event in trace.after(after).events]


def test_a_queue_that_nobody_traces_has_no_sink() -> None:
    world = World()
    world.send()
    assert world.sink is None


def test_asking_starts_a_trace_and_tells_what_happens_from_then_on() -> None:
    world = World()
    world.send("before")
    assert world.trace() == []
    world.send("g", now=7.25)
    world.read()
    told = world.trace()
    assert told[0] == ("enqueue", 2, "g", 0)
    assert ("join", 0, "", 1) in told
    assert ("assign", 0, "g", 1) in told
    assert ("deliver", 2, "g", 1) in told
    events = world.admin.trace("work", 0, NOW)["events"]
    assert isinstance(events, list)
    assert (events[0]["number"], events[0]["time_ms"]) == (1, 1_007_250)


def test_only_what_is_new_is_told() -> None:
    world = World()
    world.trace()
    world.send("a")
    world.send("b")
    answer = world.admin.trace("work", 1, NOW)
    assert (answer["last"], answer["missed"]) == (2, 0)
    assert world.trace(after=1) == [("enqueue", 2, "b", 0)]
    assert world.trace(after=2) == []


def test_a_full_ring_says_how_much_was_missed() -> None:
    bench, trace = make_trace(size=3)
    bench.send_all("abcde")
    page = trace.after(1)
    assert ([event[4] for event in page.events], page.last, page.missed) == (["c", "d", "e"], 5, 1)
    assert trace.after(3).missed == 0


def test_who_begins_or_comes_from_another_trace_has_missed_nothing() -> None:
    bench, trace = make_trace(size=3)
    bench.send_all("abcde")
    for number in (0, 900):
        assert (numbers(trace, number), trace.after(number).missed) == ([3, 4, 5], 0)


def test_a_long_trace_is_told_in_parts() -> None:
    bench, trace = make_trace(size=2 * EVENTS_PER_ANSWER)
    bench.send_all("a" * (EVENTS_PER_ANSWER + 1))
    assert trace.after(0).last == EVENTS_PER_ANSWER
    assert numbers(trace, EVENTS_PER_ANSWER) == [EVENTS_PER_ANSWER + 1]


def test_an_event_log_hears_a_traced_queue_too() -> None:
    world = World()
    log = Events()
    world.broker.listen(OneForAll(log))
    world.trace()
    world.send("g")
    policy, *events = log.all  # a queue that is made tells its policy first
    assert policy[0] is EventKind.POLICY
    assert events == [(EventKind.ENQUEUE, "g", 0, 1)]
    assert world.trace() == [("enqueue", 1, "g", 0)]


def test_an_event_log_that_comes_or_goes_leaves_the_trace() -> None:
    world = World()
    world.trace()
    log = Events()
    world.broker.listen(OneForAll(log))
    world.send("a")
    world.broker.listen(None)
    world.send("b")
    assert [event[1] for event in log.all if event[0] is not EventKind.POLICY] == ["a"]
    assert [event[2] for event in world.trace()] == ["a", "b"]


@pytest.mark.parametrize("log", [None, Events()])
def test_a_trace_ends_when_nobody_asks(log: Events | None) -> None:
    world = World(trace_idle_s=30)
    world.broker.listen(None if log is None else OneForAll(log))
    world.trace(now=10.0)
    world.trace(now=20.0)
    world.broker.tick(49.0)
    assert world.sink is not log
    world.broker.tick(55.0)
    assert world.sink is log
    world.send("unseen")
    assert world.trace(now=60.0) == []


def test_no_more_queues_are_traced_than_allowed() -> None:
    world = World(traces_max=1)
    world.host.queue("other")
    world.trace()
    with pytest.raises(RefusedError, match="1 queues are traced already") as error:
        world.admin.trace("other", 0, NOW)
    assert error.value.code == "limit"
    world.trace()


def test_a_deleted_queue_is_traced_to_its_end_and_again_when_it_is_back() -> None:
    world = World()
    world.trace()
    world.admin.delete("queue", "work", NOW)
    assert world.trace() == [("delete", 0, "", 0)]
    with pytest.raises(RefusedError, match="there is no queue work"):
        world.trace(after=1)
    world.state = world.host.queue("work").state
    assert world.trace(after=1) == []
    world.send("g")
    assert world.trace(after=1) == [("enqueue", 1, "g", 0)]


def test_a_trace_is_for_those_who_may_manage_the_queue() -> None:
    world = World()
    guest = Admin(world.broker, world.host, Identity("guest"))
    with pytest.raises(RefusedError) as error:
        guest.trace("work", 0, NOW)
    assert error.value.code == "denied"
    assert world.sink is None
    with pytest.raises(RefusedError, match="there is no queue none"):
        world.admin.trace("none", 0, NOW)
