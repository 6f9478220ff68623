"""Frames of one read that take long are handled in several turns, in order, and nobody starves."""

from __future__ import annotations

from covey.config.settings import AmqpSettings, Settings
from covey.core.broker.broker import Broker
from covey.core.jobs.turn_length import LOOK_EVERY
from covey.core.naming.destination import Destination, Kind
from covey.protocols.amqp.codec.decoder import Described
from covey.protocols.amqp.outcomes import ACCEPTED, REJECTED
from tests.doubles import SlowWatch
from tests.e2e.amqp_bytes import DISPOSITION, accepting, attaching, transferring
from tests.protocols.amqp.raw import READER, SENDER, Raw, enqueued, flow, only

COUNT = 3 * LOOK_EVERY


def slow_broker(**settings: object) -> Broker:
    return Broker(Settings.model_validate(settings), stopwatch=SlowWatch().look)


def sending(raw: Raw) -> Raw:
    """Attach a link that sends."""
    raw.say(SENDER)
    return raw


def transfers(count: int, first: int = 0) -> bytes:
    numbers = range(first, first + count)
    return b"".join(transferring(0, number, b"%d" % number) for number in numbers)


def accepted(raw: Raw, rounds: int = 20) -> list[int]:
    """Return the deliveries that the broker accepts in the next turns, in order."""
    found: list[int] = []
    for _ in range(rounds):
        for fields in only(DISPOSITION, raw.hear()):
            first, last = fields[1], fields[2]
            assert isinstance(first, int)
            found += range(first, (last if isinstance(last, int) else first) + 1)
    return found


def test_a_turn_ends_and_the_rest_of_the_read_comes_in_other_turns() -> None:
    broker = slow_broker()
    raw, other = sending(Raw(broker)), sending(Raw(broker))
    data = transfers(COUNT)
    raw.engine.receive(data, raw.now)
    assert 0 < enqueued(broker) <= LOOK_EVERY
    assert not raw.engine.reading
    before = enqueued(broker)
    other.engine.receive(transfers(1), other.now)
    assert enqueued(broker) == before + 1
    assert accepted(raw) == list(range(COUNT))
    assert raw.engine.reading
    assert enqueued(broker) == COUNT + 1


def test_a_frame_that_is_not_complete_waits_for_its_end() -> None:
    broker = slow_broker()
    raw = sending(Raw(broker))
    data = transfers(COUNT)
    raw.engine.receive(data[:-5], raw.now)
    assert accepted(raw) == list(range(COUNT - 1))
    assert raw.engine.reading
    raw.engine.receive(data[-5:], raw.now)
    assert accepted(raw) == [COUNT - 1]


def test_a_turn_that_was_short_goes_on_to_the_end_of_the_read() -> None:
    broker = Broker(Settings(), stopwatch=lambda: 1.0)
    raw = sending(Raw(broker))
    raw.engine.receive(transfers(90), raw.now)
    assert enqueued(broker) == 90
    assert raw.engine.reading


def test_a_peer_is_not_taken_for_dead_while_its_frames_wait_for_a_turn() -> None:
    broker = slow_broker()
    raw = sending(Raw(broker, AmqpSettings(allow_anonymous=True, idle_timeout_s=8)))
    raw.engine.receive(transfers(90), raw.now)
    for _ in range(3):
        raw.now += 5
        raw.hear()
        assert not raw.engine.is_closed
    raw.now += 9
    raw.hear()
    assert raw.engine.is_closed


def test_messages_that_were_held_back_go_in_several_turns_before_what_came_later() -> None:
    broker = slow_broker(queue=[{"id": "**", "quota_messages": 1000}])
    raw = sending(Raw(broker))
    raw.say(attaching("elsewhere", 2, "p", sends=True))
    session = raw.engine.session
    assert session is not None
    session.block("a test", raw.now)
    raw.engine.receive(transfers(90) + transferring(2, 90, b"later"), raw.now)
    for _ in range(10):
        raw.hear()
    assert "q" not in broker.host.queues
    assert raw.engine.backpressure.held_size > 0
    session.unblock()
    raw.engine.tick(raw.now)
    assert 0 < enqueued(broker) <= LOOK_EVERY
    assert "p" not in broker.host.queues
    assert not raw.engine.reading
    for _ in range(10):
        raw.hear()
    assert enqueued(broker) == 90
    assert broker.host.queues["p"].counters.enqueued == 1
    assert raw.engine.reading


def test_dispositions_and_flows_count_too() -> None:
    broker = slow_broker()
    raw = sending(Raw(broker))
    raw.engine.receive(transfers(20), raw.now)
    for _ in range(5):
        raw.hear()
    raw.say(READER, flow(1000, credit=20))
    for _ in range(3):
        raw.hear()
    queue = broker.host.queues["q"]
    raw.engine.receive(b"".join(accepting(each, each) for each in range(20)), raw.now)
    assert 0 < queue.counters.acked < 20
    assert not raw.engine.reading
    for _ in range(10):
        raw.hear()
    assert queue.counters.acked == 20


def test_a_message_that_was_refused_in_a_later_portion_is_rejected_and_its_link_stays() -> None:
    small = {"id": "dsub:small.**", "quota_messages": 1, "full_policy": "reject"}
    broker = Broker(Settings.model_validate({"queue": [{"id": "t", "mirrored": True}, small]}))
    raw = Raw(broker)
    raw.say(attaching("in", 0, "t", sends=True))
    session = raw.engine.session
    assert session is not None
    for number in range(9):
        place = (Destination(Kind.TOPIC, "t"),)
        broker.make_durable(session, f"small.{number}", place, None, raw.now)
    broker.jobs.allow(3, 5.0, 1000)
    outcomes: list[object] = []
    for number in range(2):
        raw.engine.receive(transferring(0, number, b"x"), raw.now)
        for _ in range(20):
            broker.go_on(raw.now)
            for fields in only(DISPOSITION, raw.hear()):
                assert isinstance(fields[4], Described)
                outcomes.append(fields[4].descriptor)
    assert outcomes == [ACCEPTED, REJECTED]
    assert not raw.engine.is_closed
