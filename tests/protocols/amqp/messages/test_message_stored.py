"""AmqpMessage in the store: restored as it was, dead letters, and forms it does not know."""

from __future__ import annotations

import pytest
from proton import symbol

from covey.core.errors import StoreError
from covey.protocols.amqp.messages.message import AmqpMessage
from tests.protocols.amqp.messages.test_message import NOW_MS, delivered, encoded, made
from tests.protocols.amqp.messages.test_sections import full


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
