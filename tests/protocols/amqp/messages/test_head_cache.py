"""Heads: a head that is known gives the same message as a scan, and nothing else is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message, symbol

from covey.protocols.amqp.links.consumer import render
from covey.protocols.amqp.messages.head_cache import HEAD_SIZE_MAX, HEADS_MAX, HeadSectionCache
from covey.protocols.amqp.messages.message import AmqpMessage

WALL_MS = 1_700_000_000_000
FIELDS = ("data", "size", "persistent", "priority", "expires_ms", "due_ms", "group")


def encoded(body: bytes, **fields: object) -> bytes:
    message = Message(body, inferred=True)
    for name, value in fields.items():
        setattr(message, name, value)
    return bytes(message.encode())


def taken(heads: HeadSectionCache, data: bytes, wall_ms: int = WALL_MS) -> AmqpMessage:
    """Take a message as a link does."""
    message = heads.repeated(data)
    if message is None:
        message = AmqpMessage.decode(data, wall_ms)
        heads.learn(message)
    return message


def assert_alike(one: AmqpMessage, other: AmqpMessage) -> None:
    for name in (*FIELDS, "group_sequence"):
        assert getattr(one, name) == getattr(other, name), name
    assert render(one, wall_ms=WALL_MS) == render(other, wall_ms=WALL_MS)


@given(
    bodies=st.lists(st.binary(max_size=300), min_size=2, max_size=6),
    groups=st.lists(st.sampled_from(["", "a", "bb"]), min_size=1, max_size=3),
    is_durable=st.booleans(),
    priority=st.integers(0, 9),
)
def test_a_repeated_head_gives_what_a_scan_gives(
    bodies: list[bytes], groups: list[str], is_durable: bool, priority: int
) -> None:
    heads = HeadSectionCache()
    for number, body in enumerate(bodies + bodies):
        group = groups[number % len(groups)]
        fields = {"durable": is_durable, "priority": priority, "properties": {"n": number % 2}}
        data = encoded(body, **fields, **({"group_id": group} if group else {}))
        assert_alike(taken(heads, data), AmqpMessage.decode(data, WALL_MS))


def test_a_head_is_scanned_once() -> None:
    heads = HeadSectionCache()
    first = taken(heads, encoded(b"one"))
    second = taken(heads, encoded(b"two"))
    assert second.sections is first.sections
    assert second.data.endswith(b"two")


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "1"},
        {"correlation_id": "1"},
        {"creation_time": 1.0},
        {"ttl": 5.0},
        {"annotations": {symbol("x-opt-delivery-delay"): 5}},
        {"properties": {"long": "x" * HEAD_SIZE_MAX}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_head_that_does_not_repeat_is_not_remembered(fields: dict[str, object]) -> None:
    heads = HeadSectionCache()
    taken(heads, encoded(b"x", **fields))
    assert not heads.known


@pytest.mark.parametrize(
    "tail",
    [b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x78\xc1\x01\x00"],
    ids=["a second section", "a footer"],
)
def test_what_follows_the_content_is_seen(tail: bytes) -> None:
    heads = HeadSectionCache()
    data = encoded(b"abc")
    assert taken(heads, data).size == 3
    assert heads.repeated(data) is not None
    longer = taken(heads, data + tail)
    assert_alike(longer, AmqpMessage.decode(data + tail, WALL_MS))


def test_the_number_of_heads_is_bounded() -> None:
    heads = HeadSectionCache()
    for number in range(HEADS_MAX + 10):
        taken(heads, encoded(b"x", group_id=f"g{number}"))
    assert 0 < len(heads.known) <= HEADS_MAX


def test_a_time_to_live_counts_from_each_receipt() -> None:
    heads = HeadSectionCache()
    data = encoded(b"x", ttl=5.0)
    assert taken(heads, data).expires_ms == WALL_MS + 5000
    assert taken(heads, data, WALL_MS + 1).expires_ms == WALL_MS + 5001


def test_messages_of_one_head_have_one_form_and_each_its_content() -> None:
    heads = HeadSectionCache()
    one, two = [taken(heads, encoded(body)) for body in (b"one", b"two")]
    other = taken(heads, encoded(b"one", subject="other"))
    assert one.form() is two.form()
    assert one.form() is not other.form()
    assert [message.content() for message in (one, two, other)] == [b"one", b"two", b"one"]
