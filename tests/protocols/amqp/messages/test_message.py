"""AmqpMessage: what is read of a producer's bytes, and what a consumer gets.

AmqpMessage in the store: restored as it was, dead letters, and forms it does not know.

Splice: what only the broker may say is taken out of what producers say.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import proton
import pytest
from proton import symbol, uint, ulong
from proton import timestamp as proton_timestamp

from covey.core.errors import ProtocolError, RefusedError, StoreError
from covey.core.model.message import Message
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.links.consumer import render
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import DATA, FOOTER, PROPERTIES, VALUE, scan
from covey.protocols.amqp.messages.splice import OWN_ANNOTATIONS, SEQ_ANNOTATION
from tests.protocols.amqp.messages.test_sections import full, mutated

NOW_MS = 1_700_000_000_000
FIRST = "x-opt-group-first-for-consumer"


def encoded(body: Any = b"body", **fields: object) -> bytes:
    return bytes(proton.Message(body=body, **fields).encode())


def made(body: object = b"body", **fields: object) -> AmqpMessage:
    return AmqpMessage.decode(encoded(body, **fields), NOW_MS)


def delivered(message: Message, **options: Any) -> proton.Message:
    """What proton makes of a delivery."""
    payload = render(message, wall_ms=NOW_MS + 1000, **options)
    scan(payload)
    received = proton.Message()
    received.decode(payload)
    return received


# Coming in.


def test_a_message_without_fields_has_the_defaults() -> None:
    message = made()
    assert (message.persistent, message.priority) == (False, 4)
    assert (message.expires_ms, message.due_ms) == (0, 0)
    assert (message.group, message.group_sequence, message.size) == ("", 0, 4)
    assert (message.message_id(), message.to(), message.user_id()) == ("", "", "")


def test_header_fields_are_read() -> None:
    message = made(durable=True, priority=200)
    assert (message.persistent, message.priority) == (True, 200)


@pytest.mark.parametrize(
    ("fields", "expires_ms"),
    [
        ({"ttl": 5}, NOW_MS + 5000),
        ({"expiry_time": 2_000_000}, 2_000_000_000),
        ({"ttl": 5, "expiry_time": 2_000_000}, 2_000_000_000),
        ({"expiry_time": 0}, 0),
    ],
)
def test_absolute_expiry_wins_over_time_to_live(fields: dict[str, object], expires_ms: int) -> None:
    assert made(**fields).expires_ms == expires_ms


def test_an_expiry_before_the_epoch_is_none() -> None:
    fields = [encoder.NULL] * 8 + [encoder.timestamp(-5)]
    data = encoder.section(PROPERTIES, encoder.compound(fields))
    assert AmqpMessage.decode(data, NOW_MS).expires_ms == 0


@pytest.mark.parametrize(
    ("fields", "group"),
    [
        ({"group_id": "a"}, "a"),
        ({"properties": {"message_group": "b"}}, "b"),
        ({"properties": {"JMSXGroupID": "c"}}, "c"),
        ({"properties": {"JMSXGroupId": "d"}}, "d"),
        ({"properties": {"JMSXGroupID": 7}}, "7"),
        ({"properties": {"JMSXGroupID": "c", "message_group": "b"}}, "b"),
        ({"group_id": "a", "properties": {"JMSXGroupID": "c"}}, "a"),
        ({"properties": {"other": "message_group"}}, ""),
    ],
)
def test_the_group_is_found_in_its_places(fields: dict[str, object], group: str) -> None:
    assert made(**fields).group == group


@pytest.mark.parametrize(
    "fields", [{"group_id": "g" * 2000}, {"properties": {"JMSXGroupID": b"x"}}]
)
def test_a_group_id_that_cannot_be_one_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(RefusedError) as caught:
        made(**fields)
    assert caught.value.code == "invalid"


@pytest.mark.parametrize(
    ("sequence", "signed"), [(1, 1), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (2**32 - 1, -1)]
)
def test_a_group_sequence_above_two_thousand_million_is_negative(
    sequence: int, signed: int
) -> None:
    assert made(group_id="a", group_sequence=sequence).group_sequence == signed


def test_a_group_named_by_property_may_be_closed_by_property() -> None:
    message = made(properties={"JMSXGroupID": "a", "JMSXGroupSeq": -1})
    assert (message.group, message.group_sequence) == ("a", -1)


@pytest.mark.parametrize(
    ("annotations", "due_ms"),
    [
        ({"x-opt-delivery-time": proton_timestamp(NOW_MS + 9)}, NOW_MS + 9),
        ({"x-opt-delivery-delay": uint(500)}, NOW_MS + 500),
        ({"x-opt-delivery-delay": 2**62}, 2**53),
        ({"x-opt-delivery-time": -1}, 0),
        ({"x-opt-other": "x-opt-delivery-time"}, 0),
    ],
)
def test_a_delay_is_read_from_the_annotations(annotations: dict[str, object], due_ms: int) -> None:
    symbols = {symbol(name): value for name, value in annotations.items()}
    assert made(annotations=symbols).due_ms == due_ms


def test_a_delay_that_is_no_number_is_refused() -> None:
    with pytest.raises(RefusedError, match="x-opt-delivery-delay"):
        made(annotations={symbol("x-opt-delivery-delay"): "soon"})


# Selectors.


def test_properties_are_looked_up_by_name() -> None:
    number = UUID(int=5)
    message = made(properties={"t": "x", "n": 5, "b": True, "f": 1.5, "r": b"r", "u": number})
    found = [message.lookup(name) for name in ("t", "n", "b", "f", "r", "u", "none")]
    assert found == ["x", 5, True, 1.5, b"r", str(number), None]


def test_lists_and_maps_are_no_values_for_a_selector() -> None:
    message = made(properties={"list": [1], "map": {"a": 1}})
    assert message.lookup("list") is None
    assert message.lookup("map") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JMSMessageID", "ulong:5"),
        ("JMSCorrelationID", "c-1"),
        ("JMSType", "subject"),
        ("JMSPriority", 7),
        ("JMSTimestamp", 1_000_000_000),
        ("JMSDeliveryMode", "PERSISTENT"),
        ("JMSReplyTo", "back"),
        ("JMSDestination", "queue"),
        ("JMSExpiration", 2_000_000_000),
        ("JMSXGroupID", "group"),
        ("JMSXGroupSeq", 3),
        ("JMSXUserID", "me"),
        ("amqp.message_id", "ulong:5"),
        ("amqp.content_type", "text/x"),
        ("amqp.reply_to_group_id", "other"),
        ("amqp.priority", 7),
        ("amqp.durable", True),
        ("amqp.nonsense", None),
        ("text", "t"),
    ],
)
def test_jms_and_amqp_names_are_known(name: str, value: object) -> None:
    assert AmqpMessage.decode(full(), NOW_MS).lookup(name) == value


def test_absent_fields_are_unknown_and_may_be_given_as_properties() -> None:
    names = ("JMSMessageID", "JMSType", "JMSTimestamp", "JMSXGroupID", "JMSXUserID", "amqp.to")
    assert [made().lookup(name) for name in names] == [None] * 6
    assert made(properties={"JMSType": "mine"}).lookup("JMSType") == "mine"


# Going out.


def test_the_bare_message_goes_out_bit_by_bit() -> None:
    data = full()
    message = AmqpMessage.decode(data, NOW_MS)
    bare = data[scan(data).bare_start :]
    for is_first in (False, True):
        payload = render(message, wall_ms=NOW_MS, is_first=is_first, deliveries=3)
        assert payload.endswith(bare)
        assert payload[scan(payload).bare_start :] == bare


def test_a_footer_goes_with_the_bare_message() -> None:
    tail = encoder.section(DATA, b"\xa0\x01x") + encoder.section(FOOTER, b"\xc1\x01\x00")
    message = AmqpMessage.decode(tail, NOW_MS)
    assert render(message, wall_ms=0).endswith(tail)


def test_a_first_delivery_says_so_in_its_header() -> None:
    received = delivered(made(durable=True, priority=9))
    assert (received.durable, received.priority, received.ttl) == (True, 9, 0)
    assert (received.first_acquirer, received.delivery_count) == (True, 0)


@pytest.mark.parametrize("seq", [1, 70_000])
def test_a_browser_is_told_the_number_and_no_producer_can_forge_it(seq: int) -> None:
    forged = made(annotations={symbol(SEQ_ANNOTATION): 9, symbol("x-mine"): 1})
    assert delivered(forged, seq=seq).annotations == {SEQ_ANNOTATION: seq, "x-mine": 1}
    assert delivered(forged).annotations == {"x-mine": 1}
    assert delivered(made(), seq=seq).annotations == {SEQ_ANNOTATION: seq}


@pytest.mark.parametrize("count", [1, 255, 256, 70_000])
def test_a_later_delivery_is_counted(count: int) -> None:
    received = delivered(made(), deliveries=count)
    assert (received.first_acquirer, received.delivery_count) == (False, count)


def test_the_time_to_live_is_what_is_left() -> None:
    assert delivered(made(ttl=60)).ttl == 59.0
    assert delivered(made(ttl=0.5)).ttl == 0.001  # overdue, and still not without end


def test_delivery_annotations_end_here_and_message_annotations_go_on() -> None:
    received = delivered(AmqpMessage.decode(full(), NOW_MS))
    assert not received.instructions
    assert received.annotations == {"x-opt-note": "n", "x-opt-list": [1, 2]}


def test_first_for_consumer_is_an_annotation() -> None:
    assert delivered(made(), is_first=True).annotations == {FIRST: True}
    received = delivered(AmqpMessage.decode(full(), NOW_MS), is_first=True)
    assert received.annotations == {"x-opt-note": "n", "x-opt-list": [1, 2], FIRST: True}


def test_a_producer_cannot_say_first_for_consumer() -> None:
    message = made(annotations={symbol(FIRST): "forged", symbol("x-opt-a"): 1})
    assert delivered(message).annotations == {"x-opt-a": 1}
    assert delivered(message, is_first=True).annotations == {"x-opt-a": 1, FIRST: True}


def test_first_for_consumer_is_a_property_by_option() -> None:
    bare = made()
    given = made(properties={"a": 1, "JMSXGroupFirstForConsumer": "forged"})
    name = "JMSXGroupFirstForConsumer"
    assert not delivered(bare, is_first=True).properties
    assert not delivered(bare, group_first_property=True).properties
    assert delivered(bare, is_first=True, group_first_property=True).properties == {name: True}
    found = delivered(given, is_first=True, group_first_property=True)
    assert found.properties == {"a": 1, name: True}
    assert (found.body, found.annotations) == (b"body", {FIRST: True})


# Who sent it.


def test_the_sender_is_named_by_option_and_cannot_be_forged() -> None:
    name = symbol("x-opt-user-id")
    message = made(annotations={name: "somebody"})
    message.user = "guest"
    assert not delivered(message).annotations
    assert delivered(message, names_user=True).annotations == {name: "guest"}


def test_a_message_that_names_its_sender_needs_no_annotation() -> None:
    message = made(user_id=b"guest")
    message.user = "guest"
    assert delivered(message, names_user=True).annotations is None


def test_the_sender_is_known_to_others_and_after_a_restart() -> None:
    message = made()
    message.user = "gäst"
    for known in (message, AmqpMessage.restore(*message.encode())):
        assert known.neutral().user_id == "gäst"
        assert known.lookup("JMSXUserID") == "gäst"


# Anything.


def exercise(data: bytes) -> bool:
    """Do everything with a message that the broker does; say whether it was taken."""
    try:
        message = AmqpMessage.decode(data, NOW_MS)
    except (ProtocolError, RefusedError):
        return False
    message.neutral()
    message.lookup("JMSMessageID")
    message.lookup("text")
    message.user = "who"
    payload = render(
        message,
        wall_ms=NOW_MS,
        is_first=True,
        deliveries=1,
        group_first_property=True,
        names_user=True,
    )
    scan(payload)
    AmqpMessage.restore(*message.as_dead_letter("why").encode())
    return True


def test_mutated_messages_are_refused_at_the_door_or_never() -> None:
    random = Random(2)
    seeds = [
        full(),
        encoded(["é", 1, [b"x", None]], group_id="g", id=ulong(7), ttl=5),
        encoded(properties={"JMSXGroupID": "a", "n": 5, "m": {"k": "v"}}),
        encoder.section(VALUE, encoder.value({"a": [1.5, True, UUID(int=1)]})),
    ]
    count = 50_000
    taken = sum(exercise(mutated(random.choice(seeds), random)) for _ in range(count))
    assert count // 20 < taken < count


@pytest.mark.parametrize("name", ["group-id", "message_group", "JMSXGroupID", "JMSXGroupId"])
def test_the_place_of_a_group_is_the_one_the_producer_wrote_it_to(name: str) -> None:
    fields = {"group_id": "g"} if name == "group-id" else {"properties": {name: "g"}}
    message = made(**fields)
    assert (message.group, message.group_place()) == ("g", name)


def test_a_message_is_restored_as_it_was() -> None:
    notes = {symbol("x-opt-delivery-delay"): 10}
    for data in (full(), encoded(ttl=5, annotations=notes, group_id="g", group_sequence=2**32 - 1)):
        before = AmqpMessage.decode(data, NOW_MS)
        after = AmqpMessage.restore(*before.encode())
        assert after.data == before.data
        for name in ("persistent", "priority", "expires_ms", "due_ms", "group", "group_sequence"):
            assert getattr(after, name) == getattr(before, name)
        assert after.neutral() == before.neutral()


def test_a_dead_letter_has_no_expiry_left_anywhere() -> None:
    original = AmqpMessage.decode(full(), NOW_MS)
    copy = original.as_dead_letter("expired")
    received = delivered(copy)
    assert (copy.expires_ms, received.ttl, received.expiry_time) == (0, 0, 0)
    assert (copy.group, copy.group_sequence, copy.persistent) == ("group", 3, True)
    assert (received.id, received.creation_time, received.group_id) == (5, 1_000_000, "group")
    assert copy.neutral().body == original.neutral().body
    assert original.expires_ms == 2_000_000_000
    assert AmqpMessage.restore(*copy.encode()).expires_ms == 0


def test_a_dead_letter_with_a_mere_time_to_live_keeps_its_bare_message() -> None:
    original = made(ttl=5, id="1")
    copy = original.as_dead_letter("expired")
    bare = original.data[original.sections.bare_start :]
    assert copy.data[copy.sections.bare_start :] == bare
    assert delivered(copy).ttl == 0


def test_a_dead_letter_says_why_it_died_last() -> None:
    annotated = made(annotations={symbol("x-opt-a"): 1})
    copy = annotated.as_dead_letter("expired").as_dead_letter("rejected: no use")
    reason = symbol("x-opt-dead-letter-reason")
    assert delivered(copy).annotations == {symbol("x-opt-a"): 1, reason: "rejected: no use"}
    kept = AmqpMessage.restore(*copy.encode())
    assert delivered(kept).annotations == delivered(copy).annotations
    assert kept.neutral().dead_reason == "rejected: no use"


def test_a_stored_message_of_another_form_is_refused_by_its_format() -> None:
    head, body = made().encode()
    assert head[0] == 2
    for other in (b"\x01" + head[1:], b"\x07" + head[1:]):
        with pytest.raises(StoreError, match=f"of format {other[0]} in the store, not of format 2"):
            AmqpMessage.restore(other, body)
    for short in (b"", head[:5]):
        with pytest.raises(StoreError):
            AmqpMessage.restore(short, body)


@pytest.mark.parametrize("name", OWN_ANNOTATIONS)
def test_a_producer_cannot_annotate_in_the_name_of_the_broker(name: str) -> None:
    notes = {symbol("x-opt-a"): 1, symbol(name): "forged"}
    forged = made(ttl=5, annotations=notes, instructions={symbol("x"): 1}, id="1")
    honest = made(ttl=5, annotations={symbol("x-opt-a"): 1}, id="1")
    for message in (forged, AmqpMessage.restore(*forged.encode())):
        assert delivered(message).annotations == {symbol("x-opt-a"): 1}
        assert message.neutral() == honest.neutral()
        assert message.expires_ms == honest.expires_ms
    bare = forged.data[forged.sections.bare_start :]
    assert bare == honest.data[honest.sections.bare_start :]


def test_a_name_of_the_broker_inside_a_value_passes() -> None:
    notes = {symbol("x-opt-a"): "x-opt-dead-letter-reason"}
    assert delivered(made(annotations=notes)).annotations == notes


def test_a_forged_first_property_does_not_pass_where_the_broker_sets_it() -> None:
    forged = {"a": 1, "JMSXGroupFirstForConsumer": True}
    message = made(properties=forged)
    assert delivered(message, group_first_property=True).properties == {"a": 1}
    assert delivered(message).properties == forged  # the option is off: the bare message is theirs
