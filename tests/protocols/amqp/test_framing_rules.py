"""What every open, begin, attach and transfer must have, and what must not be said."""

from __future__ import annotations

import pytest

from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.encoder import (
    FALSE,
    NULL,
    TRUE,
    binary,
    compound,
    section,
    string,
    uint,
)
from covey.protocols.amqp.engine import AmqpEngine
from tests.e2e.amqp_bytes import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    WINDOW,
    Heard,
    attaching,
    beginning,
    opening,
    says,
    transferring,
)
from tests.protocols.amqp.peer import OPEN_TO_ALL
from tests.protocols.amqp.raw import READER, SENDER, Raw, enqueued, only

FIRST, SECOND = b"\x50\x00", b"\x50\x01"


class Unopened(Raw):
    """A connection that has said no more than its header."""

    def __init__(self, broker: Broker) -> None:
        self.now = 1.0
        self.engine = AmqpEngine(broker, OPEN_TO_ALL, now=self.now)
        self.say(AMQP_HEADER)


@pytest.fixture
def unopened(broker: Broker) -> Unopened:
    return Unopened(broker)


def conditions(heard: list[Heard]) -> list[tuple[int, str]]:
    """Return what was ended, and why."""
    return [(each.code, each.condition) for each in heard if each.code in (DETACH, CLOSE)]


def part(
    number: bytes, tag: bytes, *, format: bytes = uint(0), more: bool = False, mode: bytes = NULL
) -> bytes:
    flags = (FALSE, TRUE if more else FALSE, mode)
    payload = section(DATA, binary(b"x"))
    return says(TRANSFER, uint(0), number, tag, format, *flags, payload=payload)


# Opening and beginning.


def test_an_open_without_a_container_id_is_refused(unopened: Unopened) -> None:
    heard = unopened.say(says(OPEN, NULL))
    assert [each.code for each in heard] == [OPEN, CLOSE]
    assert conditions(heard) == [(CLOSE, "amqp:decode-error")]


def test_an_open_on_another_channel_than_0_is_refused(unopened: Unopened) -> None:
    heard = unopened.say(says(OPEN, string("c"), channel=1))
    assert [each.code for each in heard] == [OPEN, CLOSE]
    assert conditions(heard) == [(CLOSE, "amqp:connection:framing-error")]


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_begin_without_its_windows_is_refused(unopened: Unopened, missing: int) -> None:
    fields = [NULL, uint(0), WINDOW, WINDOW]
    fields[missing] = NULL
    heard = unopened.say(opening(), says(BEGIN, *fields))
    assert conditions(heard) == [(CLOSE, "amqp:decode-error")]
    assert not only(BEGIN, heard)


def test_nothing_follows_a_begin_unasked(unopened: Unopened) -> None:
    heard = unopened.say(opening(), beginning(), beginning(channel=3))
    assert [each.code for each in heard] == [OPEN, BEGIN, BEGIN]
    assert unopened.hear() == []


def test_a_flow_that_is_asked_for_is_answered(raw: Raw) -> None:
    asked = (NULL, NULL, NULL, NULL, NULL, TRUE)
    assert len(only(FLOW, raw.say(says(FLOW, uint(0), WINDOW, uint(0), WINDOW, *asked)))) == 1


# Transfers.


def test_a_delivery_without_a_tag_is_refused(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER)
    assert conditions(raw.say(part(uint(0), NULL))) == [(DETACH, "amqp:invalid-field")]
    assert "q" not in broker.host.queues


def test_a_delivery_whose_tag_is_not_even_there_is_refused(raw: Raw) -> None:
    raw.say(SENDER)
    payload = section(DATA, binary(b"x"))
    heard = raw.say(transferring(0, 0, b"x"), says(TRANSFER, uint(0), uint(1), payload=payload))
    assert conditions(heard) == [(DETACH, "amqp:invalid-field")]


def test_later_transfers_of_a_delivery_need_no_tag_and_no_format(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER)
    heard = raw.say(part(uint(0), binary(b"t"), more=True), part(NULL, NULL, format=NULL))
    assert not conditions(heard)
    assert enqueued(broker) == 1


def test_a_delivery_of_two_formats_is_refused(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER)
    heard = raw.say(part(uint(0), binary(b"t"), more=True), part(NULL, NULL, format=uint(1)))
    assert conditions(heard) == [(DETACH, "amqp:invalid-field")]
    assert "q" not in broker.host.queues


def test_a_link_that_settles_first_takes_no_delivery_that_settles_second(
    broker: Broker, raw: Raw
) -> None:
    raw.say(SENDER)
    heard = raw.say(
        part(uint(0), binary(b"t"), mode=FIRST), part(uint(1), binary(b"u"), mode=SECOND)
    )
    assert conditions(heard) == [(DETACH, "amqp:invalid-field")]
    assert enqueued(broker) == 1


def test_a_link_that_settles_second_takes_such_a_delivery(broker: Broker, raw: Raw) -> None:
    ends = (NULL, section(TARGET, compound([string("q")])))
    modes = (b"\x50\x02", SECOND)
    raw.say(says(ATTACH, string("in"), uint(0), FALSE, *modes, *ends, NULL, NULL, uint(0)))
    heard = raw.say(part(uint(0), binary(b"t"), mode=SECOND))
    assert len(only(DISPOSITION, heard)) == 1 and not conditions(heard)


# Attaches.


def dynamic(properties: bytes, *, sends: bool) -> bytes:
    place = compound([NULL, NULL, NULL, NULL, TRUE, properties])
    ends = (NULL, section(TARGET, place)) if sends else (section(SOURCE, place), NULL)
    count = uint(0) if sends else NULL
    role = FALSE if sends else TRUE
    return says(ATTACH, string("d"), uint(0), role, NULL, NULL, *ends, NULL, NULL, count)


def properties_of(name: str, value: bytes) -> bytes:
    return compound([encoder.symbol(name), value], is_map=True)


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize(
    "properties",
    [
        properties_of("lifetime-policy", uint(2**32 - 1)),
        properties_of("lifetime-policy", section(0x24, compound([]))),
        properties_of("supported-dist-modes", uint(0)),
        string("nonsense"),
    ],
)
def test_a_dynamic_node_with_nonsense_for_properties_is_refused(
    raw: Raw, properties: bytes, sends: bool
) -> None:
    heard = raw.say(dynamic(properties, sends=sends))
    assert conditions(heard) == [(DETACH, "amqp:invalid-field")]


@pytest.mark.parametrize(
    "properties",
    [
        properties_of("lifetime-policy", section(0x2B, compound([]))),
        properties_of(
            "lifetime-policy", b"\x00" + encoder.symbol("amqp:delete-on-close:list") + b"\x45"
        ),
        properties_of("supported-dist-modes", encoder.symbol("move")),
        properties_of("supported-dist-modes", encoder.symbols(["move", "copy"])),
        properties_of("x-own", uint(1)),
        NULL,
    ],
)
def test_a_dynamic_node_with_sensible_properties_is_made(raw: Raw, properties: bytes) -> None:
    assert not conditions(raw.say(dynamic(properties, sends=False)))


def test_an_empty_source_of_a_sender_is_echoed(raw: Raw) -> None:
    ends = (section(SOURCE, compound([])), section(TARGET, compound([string("q")])))
    attach = says(ATTACH, string("in"), uint(0), FALSE, NULL, NULL, *ends, NULL, NULL, uint(0))
    (answer,) = only(ATTACH, raw.say(attach))
    source = answer[5]
    assert isinstance(source, decoder.Described) and source.descriptor == SOURCE


# One link of a name.


def test_a_link_that_is_attached_on_another_session_is_stolen(broker: Broker, raw: Raw) -> None:
    raw.say(beginning(channel=2), SENDER, READER)
    for again in (
        attaching("in", 5, "q", sends=True),
        attaching("out", 6, "q", sends=False),
    ):
        heard = raw.say(again[:6] + b"\x00\x02" + again[8:])
        assert conditions(heard) == [(DETACH, "amqp:link:stolen")]
        assert len(only(ATTACH, heard)) == 1


def test_links_of_one_name_and_two_directions_do_not_meet(raw: Raw) -> None:
    heard = raw.say(attaching("a", 0, "q", sends=True), attaching("a", 1, "q", sends=False))
    assert not conditions(heard)
    assert len(only(ATTACH, heard)) == 2
