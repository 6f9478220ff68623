"""The engine: login, open, time and bad bytes (what it leaves behind: test_engine_leaks)."""

from __future__ import annotations

import random

import pytest
import structlog
from structlog.testing import capture_logs

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.engine import OUTGOING_MAX, AmqpEngine
from covey.protocols.amqp.login.sasl import AMQP_HEADER, SASL_HEADER
from covey.protocols.amqp.proton_wire import PEEK_SIZE
from tests.core.support import shown
from tests.e2e.amqp_bytes import attaching, beginning, opening
from tests.protocols.amqp.peer import OPEN_TO_ALL, Peer, make_broker
from tests.protocols.amqp.recording import feed, record_session

FUZZED_SESSIONS = 50_000
FUZZ_SEEDS = 10


@pytest.fixture
def broker() -> Broker:
    return make_broker()


# Login and open.


def test_a_good_password_opens_a_connection_of_that_user(broker: Broker) -> None:
    peer = Peer(broker, AmqpSettings(), login=("admin", "password"), container="me")
    session = peer.engine.session
    assert session is not None
    assert (session.identity.name, session.client_id, session.protocol) == (
        "admin",
        "me",
        "amqp 1.0",
    )
    assert session.remote == "test"


def test_a_bad_password_ends_the_connection(broker: Broker) -> None:
    peer = Peer(broker, AmqpSettings(), login=("admin", "wrong"))
    assert peer.conditions == ["amqp:unauthorized-access"]
    assert peer.engine.is_closed
    assert not broker.sessions


def test_nobody_enters_without_a_login_unless_that_is_allowed(broker: Broker) -> None:
    peer = Peer(broker, AmqpSettings())
    assert peer.engine.is_closed
    assert not broker.sessions


def test_the_broker_tells_what_it_can(broker: Broker) -> None:
    peer = Peer(broker)
    assert "ANONYMOUS-RELAY" in list(peer.connection.remote_offered_capabilities or [])
    assert peer.connection.remote_properties["product"] == "covey"
    assert peer.transport.remote_max_frame_size == OPEN_TO_ALL.max_frame_size


def test_an_unknown_virtual_host_is_not_found(broker: Broker) -> None:
    peer = Peer(broker, hostname="elsewhere.example")
    assert peer.conditions == ["amqp:not-found"]
    assert peer.engine.is_closed


def test_too_many_connections_are_refused() -> None:
    broker = make_broker(broker={"connections_max": 1})
    Peer(broker)
    assert Peer(broker).conditions == ["amqp:resource-limit-exceeded"]


def test_a_clean_close_ends_everything(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("q")
    peer.send(peer.sender("q"), "1")
    peer.connection.close()
    peer.pump()
    assert peer.engine.is_closed
    assert not broker.sessions
    again = Peer(broker)
    again.receiver("q")
    assert again.messages[0][1].delivery_count == 0  # a clean end is no failed try


def test_a_session_that_ends_takes_its_links_along(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("q")
    peer.session.close()
    peer.pump()
    assert not peer.engine.links.open
    assert shown(broker.host.queues["q"])["consumers"] == 0


def test_shutting_down_tells_the_peer_why(broker: Broker) -> None:
    peer = Peer(broker)
    peer.engine.shut_down("the broker stops", 2.0)
    peer.pump()
    assert peer.conditions == ["amqp:connection:forced"]
    assert str(peer.errors[0].description) == "the broker stops"


def test_the_log_tells_what_a_peer_did_wrong_and_not_that_the_broker_stops(broker: Broker) -> None:
    with capture_logs() as logs:
        for has_begun in (False, True):
            engine = AmqpEngine(broker, OPEN_TO_ALL, log=structlog.get_logger())
            if has_begun:
                engine.receive(AMQP_HEADER + beginning(), 1.0)
            else:
                engine.shut_down("the broker stops", 1.0)
            assert engine.is_closed
    (entry,) = logs
    assert (entry["event"], entry["code"]) == ("connection_refused", "illegal-state")


def test_bytes_may_come_one_at_a_time(broker: Broker) -> None:
    recorded = record_session()
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    for byte in b"".join(recorded):
        engine.receive(bytes((byte,)), 1.0)
        engine.outgoing()
    assert broker.host.queues["fuzz"].counters.enqueued == 1
    engine.lost(1.0)


# Bytes.


def test_much_is_given_in_pieces_and_each_asks_for_the_next(broker: Broker) -> None:
    consumer, producer = Peer(broker), Peer(broker)
    consumer.receiver("a")
    sender = producer.sender("a")
    for _ in range(50):
        producer.send(sender, "x" * 10_000)
    calls = [True]
    consumer.engine.wake = lambda: calls.append(True)
    sizes = []
    while calls:  # as the shell does
        calls.clear()
        sizes.append(len(consumer.engine.outgoing()))
    assert sum(sizes) > 500_000
    assert max(sizes) < OUTGOING_MAX + PEEK_SIZE


# Time.


def test_a_stranger_who_says_nothing_is_shown_out(broker: Broker) -> None:
    engine = AmqpEngine(broker, AmqpSettings(open_timeout_s=10), now=100.0)
    assert engine.tick(105.0) == 110.0
    assert engine.tick(110.0) is None
    assert engine.is_closed


def test_an_open_that_never_comes_is_not_waited_for(broker: Broker) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL, now=100.0)
    engine.receive(AMQP_HEADER, 101.0)
    assert engine.outgoing().startswith(AMQP_HEADER)
    engine.tick(110.0)
    assert engine.is_closed
    assert b"amqp:resource-limit-exceeded" in engine.outgoing()


def test_a_silent_peer_is_dead_after_the_idle_time(broker: Broker) -> None:
    peer = Peer(broker, AmqpSettings(allow_anonymous=True, idle_timeout_s=8))
    assert peer.transport.remote_idle_timeout == 4.0
    deadline = peer.engine.tick(2.0)
    assert deadline is not None
    assert deadline <= 10.0
    peer.engine.tick(30.0)
    assert peer.engine.is_closed
    assert not broker.sessions


def test_an_idle_connection_is_kept_alive_for_its_peer(broker: Broker) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    # open: container-id "c", idle-time-out 2000 ms in field 5
    body = b"\x00\x53\x10\xc0\x0c\x05\xa1\x01c\x40\x40\x40\x70\x00\x00\x07\xd0"
    engine.receive(AMQP_HEADER + frame(body), 1.0)
    engine.tick(1.0)
    engine.outgoing()
    assert engine.tick(1.1) == 2.1  # half of the peer's patience after the last byte
    engine.tick(2.2)
    assert engine.outgoing() == b"\x00\x00\x00\x08\x02\x00\x00\x00"


# Bad bytes.


def frame(body: bytes, channel: int = 0) -> bytes:
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x00" + channel.to_bytes(2, "big") + body


OPEN = frame(b"\x00\x53\x10\xc0\x04\x01\xa1\x01c")
BEGIN = frame(b"\x00\x53\x11\xc0\x0e\x04\x40\x43\x70\x7f\xff\xff\xff\x70\x7f\xff\xff\xff")


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x16\x03"])
def test_other_protocols_are_shown_the_header_and_the_door(broker: Broker, data: bytes) -> None:
    engine = AmqpEngine(broker, AmqpSettings())
    engine.receive(data + bytes(8), 1.0)
    assert engine.outgoing() == SASL_HEADER
    assert engine.is_closed


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x53\x10" + b"\xff" * 20,
        b"\x00\x53\x14\x45",
        b"junk",
        b"\x00\x53\x12\xc0\x05\x01\xa1\xff\xff\xff",
    ],
)
def test_a_malformed_frame_ends_the_connection_with_a_condition(
    broker: Broker, body: bytes
) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    engine.receive(AMQP_HEADER + OPEN + frame(body), 1.0)
    said = engine.outgoing()
    engine.tick(100.0)
    said += engine.outgoing()
    assert engine.is_closed
    assert b"amqp:" in said


def test_a_frame_larger_than_agreed_ends_the_connection(broker: Broker) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    engine.receive(AMQP_HEADER + OPEN + b"\x7f\xff\xff\xff\x02\x00\x00\x00", 1.0)
    assert b"amqp:connection:framing-error" in engine.outgoing()
    assert engine.is_closed


def test_deeply_nested_link_properties_end_the_connection(broker: Broker) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    nested = b"\x40"
    for _ in range(3000):
        nested = b"\xd0" + (len(nested) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + nested
    # attach: name, handle, role receiver, modes, source {address, ..., filter: nested}
    source = b"\x40" * 7 + b"\xd1" + (len(nested) + 8).to_bytes(4, "big")
    source += b"\x00\x00\x00\x02" + b"\xa3\x02ff" + nested
    source = b"\x00\x53\x28\xd0" + (len(source) + 4).to_bytes(4, "big") + b"\0\0\0\x08" + source
    fields = b"\xa1\x01l\x43\x41\x40\x40" + source
    attach = b"\x00\x53\x12\xd0" + (len(fields) + 4).to_bytes(4, "big") + b"\0\0\0\x06" + fields
    engine.receive(AMQP_HEADER + OPEN + BEGIN + frame(attach), 1.0)
    said = engine.outgoing()
    engine.lost(1.0)
    assert b"amqp:" in said or engine.is_closed
    assert Peer(broker).engine.session is not None


def test_nothing_begins_on_a_connection_that_has_just_ended(broker: Broker) -> None:
    engine = AmqpEngine(broker, OPEN_TO_ALL)
    attach = attaching("late", 0, "late", sends=False)
    engine.receive(AMQP_HEADER + opening() + beginning() + opening() + attach, 1.0)
    assert engine.is_closed
    assert not engine.links.open
    engine.lost(1.0)
    assert len(broker.claims) == 0
    assert "late" not in broker.host.queues


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Break a recorded session in one to four places."""
    broken = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(broken) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            broken[at : at + 1] = bytes((chance.randrange(256),))
        elif kind == 1:
            del broken[at : at + chance.randint(1, 40)]
        elif kind == 2:
            broken[at:at] = chance.randbytes(chance.randint(1, 12))
        elif kind == 3:
            broken[at:at] = broken[at : at + chance.randint(1, 60)]
        else:
            broken[at : at + 4] = chance.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
    return bytes(broken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FUZZ_SEEDS))
def test_mutated_sessions_leave_the_broker_serving(seed: int) -> None:
    broker = make_broker()
    recorded = record_session()
    chance = random.Random(seed)
    neighbour = Peer(broker, container="neighbour")
    neighbour.receiver("alive")
    sender = neighbour.sender("alive")
    for number in range(FUZZED_SESSIONS // FUZZ_SEEDS):
        engine = AmqpEngine(broker, OPEN_TO_ALL)
        pieces = list(recorded)
        place = chance.randrange(len(pieces))
        pieces[place] = mutated(pieces[place], chance)
        feed(engine, pieces)
        engine.lost(1.0)
        if number % 100 == 0:
            neighbour.send(sender, "1")
            for queue in list(broker.host.queues):
                if queue != "alive":
                    broker.host.delete_queue(queue, "start anew")
    assert len(neighbour.bodies()) == FUZZED_SESSIONS // FUZZ_SEEDS // 100
    assert len(broker.sessions) == 1
