"""Messages: sent and looked at over HTTP."""

from __future__ import annotations

import time

import pytest

from covey.core.management import message_view
from covey.core.model.message import Neutral
from covey.core.naming.destination import Destination, Kind
from covey.protocols.http import messages
from covey.protocols.http.messages import HttpMessage, decode
from tests.core.support import depth
from tests.protocols.http.support import PLAIN, World, make_settings

SEND = "/api/v1/queues/q/messages"


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_is_sent_and_seen_as_it_is(world: World) -> None:
    given = {
        "body": "häl\u0000lo",
        "group": "g",
        "properties": {"a": "x\r\ny: z", "n": 1, "f": 1.5, "yes": True},
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "/queue/r",
        "subject": "s",
        "content_type": "text/plain",
    }
    sent = world.ask("POST", SEND, PLAIN, json=given)
    assert sent.status_code == 201
    (seen,) = world.get(SEND)["items"]
    assert {name: seen[name] for name in given} == given
    assert seen["message_id"] == sent.json()["message_id"]
    assert (seen["user_id"], seen["persistent"], seen["seq"]) == ("worker", True, 1)


def test_nothing_of_a_message_becomes_an_http_header(world: World) -> None:
    evil = "x\r\nset-cookie: a=b"
    given = {"body": "", "message_id": evil, "subject": evil, "properties": {"set-cookie": evil}}
    sent = world.ask("POST", SEND, json=given)
    seen = world.ask("GET", SEND)
    for answer in (sent, seen):
        assert "set-cookie" not in answer.headers
        assert not [value for value in answer.headers.values() if "a=b" in value]
    assert seen.json()["items"][0]["properties"] == {"set-cookie": evil}


def test_a_binary_body_travels_as_base64(world: World) -> None:
    world.ask("POST", SEND, json={"body_base64": "/wA="})
    (seen,) = world.get(SEND)["items"]
    assert (seen["body_base64"], seen["size"], seen["is_cut"]) == ("/wA=", 2, False)


def test_a_large_body_is_shown_in_part(world: World) -> None:
    world.ask("POST", SEND, json={"body": "ä" * message_view.BODY_SHOWN_MAX})
    (seen,) = world.get(SEND)["items"]
    assert seen["size"] == 2 * message_view.BODY_SHOWN_MAX
    assert (len(seen["body"].encode()), seen["is_cut"]) == (message_view.BODY_SHOWN_MAX, True)


def test_looking_takes_nothing_and_goes_on_from_a_number(world: World) -> None:
    for number in range(5):
        world.send("q", body=b"%d" % number)
    page = world.get(f"{SEND}?limit=2&from_seq=2")
    assert ([one["seq"] for one in page["items"]], page["total"]) == ([2, 3], 5)
    assert [one["seq"] for one in world.get(f"{SEND}?from_seq=5")["items"]] == [5]
    assert world.get(f"{SEND}?from_seq=6")["items"] == []
    assert depth(world.host.queues["q"]) == 5
    assert not world.broker.sessions


def test_what_a_consumer_holds_is_seen_as_acquired(world: World) -> None:
    world.send("q")
    world.read("q")
    assert world.get(SEND)["items"][0]["state"] == "acquired"


def test_looking_at_no_queue_makes_none(world: World) -> None:
    assert world.ask("GET", SEND).status_code == 404
    assert not world.host.queues


def test_values_that_json_cannot_say_are_told_in_words(world: World) -> None:
    neutral = Neutral(properties={"inf": float("inf"), "bytes": b"\xff"})
    session = world.session()
    target = (Destination(Kind.QUEUE, "q"),)
    world.broker.publishing.publish(session, target, HttpMessage(neutral))
    world.broker.run(time.monotonic())
    assert world.get(SEND)["items"][0]["properties"] == {"inf": "inf", "bytes": "/w=="}


def test_a_full_queue_is_told_and_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "ROOM_WAIT_S", 0.01)
    world = World(make_settings(queue=[{"id": "**", "quota_messages": 1, "full_policy": "block"}]))
    assert world.ask("POST", SEND, json={}).status_code == 201
    answer = world.ask("POST", SEND, json={})
    assert (answer.status_code, answer.json()["code"]) == (503, "full")
    assert "queue q" in answer.json()["text"]
    world.ask("POST", "/api/v1/queues/q/purge")
    assert depth(world.host.queues["q"]) == 0
    assert not world.broker.sessions


def test_a_message_that_an_alarm_keeps_out_is_told_why_and_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "ROOM_WAIT_S", 0.01)
    world = World(make_settings())
    world.broker.commits.pressed("the disk has 1.0 GiB free, less than 2.0 GiB")
    for _ in range(3):
        answer = world.ask("POST", SEND, json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "full")
        assert answer.json()["text"].endswith("the disk has 1.0 GiB free, less than 2.0 GiB")
    assert world.ask("POST", SEND, json={"persistent": False}).status_code == 201
    world.broker.commits.pressed("")
    assert depth(world.host.queues["q"]) == 1
    assert not world.broker.publishing.waiting_work.lines


def test_a_queue_that_rejects_is_told_at_once() -> None:
    world = World(make_settings(queue=[{"id": "**", "quota_messages": 1, "full_policy": "reject"}]))
    world.ask("POST", SEND, json={})
    assert world.ask("POST", SEND, json={}).status_code == 503


def test_a_topics_message_reaches_its_durable_subscription(world: World) -> None:
    session = world.session()
    topic = Destination(Kind.TOPIC, "t")
    durable = world.broker.make_durable(session, "d", (topic,), None, time.monotonic())
    assert world.ask("POST", "/api/v1/topics/t/messages", json={"body": "x"}).status_code == 201
    assert depth(durable.queue) == 1


def test_a_message_lives_as_long_as_it_is_told_to(world: World) -> None:
    world.ask("POST", SEND, json={"ttl_ms": 60_000})
    (seen,) = world.get(SEND)["items"]
    assert abs(seen["expires_ms"] - time.time() * 1000 - 60_000) < 5_000


def test_a_group_id_that_is_too_long_is_refused_by_its_field() -> None:
    world = World(make_settings(broker={"group_id_length_max": 8}))
    answer = world.ask("POST", SEND, json={"group": "123456789"})
    assert answer.status_code == 400
    assert answer.json()["text"] == "queue q: the group id in group has 9 bytes, the limit is 8"


@pytest.mark.parametrize(("count", "status"), [(1000, 201), (1001, 400)])
def test_a_message_has_as_many_properties_as_a_stomp_frame_may_have_headers(
    world: World, count: int, status: int
) -> None:
    properties = {f"p{number}": number for number in range(count)}
    answer = world.ask("POST", SEND, json={"body": "x", "properties": properties})
    assert answer.status_code == status


# HttpMessage: the neutral form as a message of the core.

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
