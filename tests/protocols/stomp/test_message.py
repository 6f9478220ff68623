"""StompMessage: kept as it came, read lazily, and the same after a store or another protocol.

Block: header lines, written for each version, shared by the messages that repeat them.
"""

from __future__ import annotations

import pytest

from covey.core.model.message import Neutral
from covey.protocols.stomp import message as blocks
from covey.protocols.stomp.message import (
    Block,
    StompMessage,
    decode,
    from_neutral,
    make_block,
    stored_block,
)
from covey.protocols.stomp.versions import Version


def message(*headers: tuple[str, str], body: bytes = b"x") -> StompMessage:
    made = StompMessage(make_block(headers), body)
    made.id_prefix, made.id_number = b"covey-1-", 7
    return made


def test_lookup_finds_headers_and_what_jms_calls_them() -> None:
    found = message(("colour", "red"), ("type", "car"), ("reply-to", "/queue/r"))
    found.priority, found.expires_ms, found.group, found.group_sequence = 7, 99, "g", 3
    assert found.lookup("colour") == "red"
    assert found.lookup("absent") is None
    names = ("JMSMessageID", "JMSPriority", "JMSExpiration", "JMSType", "JMSReplyTo")
    assert [found.lookup(name) for name in names] == ["covey-1-7", 7, 99, "car", "/queue/r"]
    assert (found.lookup("JMSXGroupID"), found.lookup("JMSXGroupSeq")) == ("g", 3)
    assert found.lookup("JMSDeliveryMode") == "NON_PERSISTENT"


def test_a_message_comes_back_from_a_store_as_it_was() -> None:
    original = message(("odd", "a:b\nc"), ("é", "ü"), body=b"\0\xff")
    original.expires_ms, original.priority, original.persistent = 5, 9, True
    original.group, original.group_sequence = "g:1", -1
    again = decode(*original.encode())
    assert again.encode() == original.encode()
    assert again.message_id() == "covey-1-7"
    assert again.block.headers() == {"odd": "a:b\nc", "é": "ü"}
    fields = ("expires_ms", "priority", "persistent", "group", "group_sequence", "body")
    assert [getattr(again, name) for name in fields] == [5, 9, True, "g:1", -1, b"\0\xff"]


def test_messages_from_a_store_share_the_block_they_repeat_but_not_with_another_user() -> None:
    first = StompMessage(make_block([("a", "b")], user="ann"), b"1").encode()
    second = StompMessage(make_block([("a", "b")], user="bob"), b"2").encode()
    block = decode(*first).block
    assert decode(*first).block is block
    assert (block.user, decode(*second).block.user) == ("ann", "bob")


@pytest.mark.parametrize("head", [b"", b"\x01" + bytes(60), b"\x02short"])
def test_what_is_no_stored_message_of_this_format_is_named(head: bytes) -> None:
    with pytest.raises(ValueError, match="not a stored STOMP message of format 2"):
        decode(head, b"")


def test_a_dead_letter_keeps_everything_but_its_expiry() -> None:
    original = message(("a", "b"))
    original.expires_ms, original.group, original.persistent = 5, "g", True
    copy = original.as_dead_letter("rejected: no: use")
    assert (copy.expires_ms, copy.group, copy.persistent) == (0, "g", True)
    assert copy.message_id() == original.message_id()
    assert copy.block.headers() == {"a": "b", "covey-dead-reason": "rejected: no: use"}
    assert copy.neutral().dead_reason == "rejected: no: use"
    assert original.as_dead_letter("rejected: no: use").block is copy.block  # a million share one


def test_a_dead_letter_that_dies_again_says_why_it_did_last() -> None:
    twice = message(("a", "b")).as_dead_letter("expired").as_dead_letter("rejected")
    assert twice.block.headers() == {"a": "b", "covey-dead-reason": "rejected"}


def test_neutral_and_back() -> None:
    original = message(
        ("destination", "/queue/a"),
        ("correlation-id", "c"),
        ("type", "car"),
        ("own", "1"),
        body=b"text",
    )
    original.group = "g"
    neutral = original.neutral()
    assert (neutral.body_kind, neutral.subject, neutral.correlation_id) == ("text", "car", "c")
    assert neutral.properties == {"own": "1"}
    again = from_neutral(neutral, "/queue/a", None)
    headers = again.block.headers()
    assert (headers["message_group"], headers["JMSXGroupID"]) == ("g", "g")
    assert (headers["type"], headers["own"], again.body) == ("car", "1", b"text")


def test_binary_bodies_stay_binary() -> None:
    assert message(body=b"\xff").neutral().body_kind == "data"
    typed = message(("content-type", "application/octet-stream"), body=b"x")
    assert typed.neutral().body_kind == "data"


def test_a_queues_own_group_header_is_used_alone() -> None:
    headers = from_neutral(Neutral(group_id="g"), "/queue/a", "order").block.headers()
    assert headers["order"] == "g"
    assert "message_group" not in headers


def test_properties_cannot_forge_what_belongs_to_the_frame() -> None:
    neutral = Neutral(properties={"content-length": "1", "subscription": "x", "ok": True})
    headers = from_neutral(neutral, "/queue/a", None).block.headers()
    assert headers == {"destination": "/queue/a", "ok": "true", "amqp-body": "data"}


@pytest.mark.parametrize(
    "name", ["covey-dead-reason", "redelivered", "JMSXGroupFirstForConsumer", "covey-group-revoked"]
)
def test_a_sender_cannot_speak_for_the_broker(name: str) -> None:
    assert make_block([("a", "b"), (name, "forged")], []).headers() == {"a": "b"}
    neutral = Neutral(properties={name: "forged"})
    assert name not in from_neutral(neutral, "/queue/a", None).block.headers()


def test_a_block_is_written_for_each_version() -> None:
    block = make_block([("a", "b:c\\d\re")])
    assert block.lines(Version.V1_2) == b"\na:b\\cc\\\\d\\re"
    assert block.lines(Version.V1_1) == b"\na:b\\cc\\\\d\re"
    assert block.lines(Version.V1_0) == b"\na:b:c\\d e"
    assert block.headers() == {"a": "b:c\\d\re"}


def test_a_plain_block_is_the_same_bytes_for_everybody() -> None:
    block = make_block([("a", "b")])
    assert block.lines(Version.V1_0) is block.lines(Version.V1_2)


def test_an_empty_block_has_no_headers() -> None:
    assert Block(b"").headers() == {}


def test_only_so_many_blocks_of_a_store_are_remembered() -> None:
    for number in range(blocks.STORED_BLOCKS_MAX + 10):
        stored_block(b"\nnumber:%d" % number, "")
    assert len(blocks._stored_blocks) <= blocks.STORED_BLOCKS_MAX
