"""Spans: which messages are followed, what is told of them, and that nothing else is touched."""

from __future__ import annotations

from covey.config.settings import Settings, StoreSettings, TelemetrySettings
from covey.core.broker.broker import Broker
from covey.core.clock import Clock
from covey.core.events.event import EventKind
from covey.core.host.subscription import Subscription
from covey.core.model.consumer import Window
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Identity
from covey.server.spans import Follower, Span, Spans, follower
from tests.doubles import Events, Letter, OneForAll, Reader

NOW = 5.0
TRACE = "0af7651916cd43dd8448eb211c80319c"
SENDER = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SENDER}-01"
UNSAMPLED = f"00-{TRACE}-{SENDER}-00"


class World:
    """A broker whose messages are followed, and a reader of the queue `work`."""

    def __init__(self, log: Events | None = None, **telemetry: object) -> None:
        self.broker = Broker(Settings(store=StoreSettings(kind="memory")))
        self.spans: list[Span] = []
        self.follower: Follower = follower(
            TelemetrySettings.model_validate(telemetry), self.broker.clock, self.spans.append
        )
        self.broker.listen(Spans(self.follower, None if log is None else OneForAll(log)))
        self.session = self.broker.open(self.broker.host, Identity("guest"), NOW)
        self.reader = Reader(Window(10))

    def send(self, traceparent: str = "", queue: str = "work", group: str = "") -> None:
        message = Letter(3, **({"traceparent": traceparent} if traceparent else {}))
        message.group = group
        self.broker.turn(NOW)
        self.broker.publishing.publish(self.session, (Destination(Kind.QUEUE, queue),), message)
        self.broker.run(NOW)

    def read(self) -> None:
        window = self.reader.window
        reader = Subscription(self.session, "r", window, lambda: self.reader)
        self.broker.subscribe(self.session, reader, (Destination(Kind.QUEUE, "work"),), NOW)
        self.broker.run(NOW)

    def settle(self, outcome: Outcome) -> None:
        queue = self.reader.queue
        assert queue is not None
        queue.settle(self.reader.entries.pop(0), outcome, NOW)
        self.broker.run(NOW)

    def told(self) -> list[tuple[str, object]]:
        return [(span.name, span.attributes.get("covey.outcome")) for span in self.spans]


def test_a_followed_message_is_received_queued_and_delivered_in_its_senders_trace() -> None:
    world = World()
    world.send(SAMPLED, group="g1")
    world.read()
    world.settle(Outcome.ACCEPTED)
    assert world.told() == [("receive", None), ("queue", None), ("deliver", "accepted")]
    receive, queue, deliver = world.spans
    assert {span.trace for span in world.spans} == {int(TRACE, 16)}
    assert (receive.parent, receive.is_parent_remote) == (int(SENDER, 16), True)
    assert queue.parent == deliver.parent == receive.id
    assert len({span.id for span in world.spans}) == 3
    assert receive.end_ns == queue.start_ns and queue.end_ns == deliver.start_ns
    assert all(span.start_ns <= span.end_ns for span in world.spans)
    assert deliver.attributes == {
        "messaging.system": "covey",
        "messaging.destination.name": "work",
        "messaging.message.body.size": 3,
        "covey.virtual_host": "default",
        "covey.group": "g1",
        "covey.seq": 1,
        "covey.consumer": world.reader.id,
        "covey.outcome": "accepted",
    }
    assert not world.follower.journeys


def test_a_message_that_comes_back_waits_and_is_delivered_once_more() -> None:
    world = World()
    world.send(SAMPLED)
    world.read()
    world.settle(Outcome.RELEASED)
    world.settle(Outcome.ACCEPTED)
    assert world.told()[1:] == [
        ("queue", None), ("deliver", "released"), ("queue", None), ("deliver", "accepted"),
    ]  # fmt: skip


def test_a_message_that_goes_undelivered_says_why_it_waited() -> None:
    world = World()
    world.send(SAMPLED)
    queue = world.broker.host.queue("work")
    for entry in list(queue.state.index):
        queue.drop(entry, EventKind.EXPIRE)
    assert world.told() == [("receive", None), ("queue", "expired")]


def test_the_senders_decision_holds_and_sample_is_for_messages_without_a_trace() -> None:
    world = World(sample=1.0)
    world.send(UNSAMPLED)
    assert not world.spans
    world.send()
    (receive,) = world.spans
    assert receive.trace and receive.parent == 0
    unsampled = World()
    unsampled.send()
    assert not unsampled.spans


def test_a_trace_context_that_is_none_is_as_if_there_were_none() -> None:
    zeros = f"00-{'0' * 32}-{SENDER}-01"
    for text in (
        "",
        "x",
        f"ff-{TRACE}-{SENDER}-01",
        zeros,
        f"00-{TRACE}-{'0' * 16}-01",
        SAMPLED[1:],
    ):
        world = World()
        world.send(text)
        assert not world.spans, text
    world = World()
    world.send(f"01-{TRACE}-{SENDER}-01-later")
    assert world.spans


def test_a_queue_that_no_pattern_matches_has_no_listener() -> None:
    world = World(queues=("orders.**",))
    world.send(SAMPLED)
    assert world.broker.host.queue("work").state.events is None
    assert not world.spans


def test_the_oldest_is_given_up_for_a_new_message_when_many_are_followed() -> None:
    world = World(open_max=2)
    for _ in range(3):
        world.send(SAMPLED)
    world.read()
    for _ in range(3):
        world.settle(Outcome.ACCEPTED)
    delivered = [span.attributes["covey.seq"] for span in world.spans if span.name == "deliver"]
    assert delivered == [2, 3]


def test_the_event_log_gets_every_event_of_every_queue() -> None:
    log = Events()
    world = World(log, queues=("orders.**",))
    world.send(SAMPLED, queue="orders.a")
    world.send(SAMPLED, queue="other")
    assert len(log.kinds(EventKind.ENQUEUE)) == 2


def test_without_an_event_log_the_next_runs_log_does_not_seem_to_follow() -> None:
    found = follower(TelemetrySettings(), Clock(), lambda span: None)
    assert not Spans(found, None).is_log()
    assert Spans(found, OneForAll(Events())).is_log()
