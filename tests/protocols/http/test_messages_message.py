"""HttpMessage: the neutral form as a message of the core."""

from __future__ import annotations

import pytest

from covey.core.model.message import Neutral
from covey.protocols.http.messages import HttpMessage, decode

NEUTRAL = Neutral(
    body=b"\xffx",
    message_id="m",
    group_id="g",
    group_sequence=3,
    subject="s",
    expires_ms=99,
    priority=8,
    persistent=True,
    user_id="u",
    properties={"a": "ä", "n": 1, "yes": True, "JMSType": "own"},
)


def test_a_stored_message_comes_back_as_it_was() -> None:
    found = decode(*HttpMessage(NEUTRAL).encode())
    assert found.neutral() == NEUTRAL
    assert (found.group, found.group_sequence, found.priority) == ("g", 3, 8)
    assert (found.persistent, found.expires_ms, found.size) == (True, 99, 2)


@pytest.mark.parametrize("head", [b"", b"[]", b'{"colour": 1}', b"\xff"])
def test_what_is_no_message_is_a_value_error(head: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode(head, b"")


def test_selectors_see_properties_first_and_the_rest_by_jms_names() -> None:
    message = HttpMessage(NEUTRAL)
    assert message.lookup("JMSType") == "own"
    assert message.lookup("JMSXGroupID") == "g"
    assert message.lookup("JMSPriority") == 8
    assert message.lookup("JMSReplyTo") is None
    assert message.lookup("nothing") is None


def test_a_copy_for_a_dead_letter_queue_never_expires() -> None:
    copy = HttpMessage(NEUTRAL).as_dead_letter("expired")
    assert (copy.expires_ms, copy.neutral().expires_ms, copy.group) == (0, 0, "g")
    assert copy.neutral().dead_reason == "expired"


def test_who_renders_a_message_cannot_change_it() -> None:
    message = HttpMessage(NEUTRAL)
    message.neutral().properties.clear()
    assert message.lookup("n") == 1
