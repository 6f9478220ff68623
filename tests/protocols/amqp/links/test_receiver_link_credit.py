"""Outgoing links: credit given, taken back and drained, as bytes."""

from __future__ import annotations

import pytest

from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec.encoder import FALSE, NULL, TRUE, uint
from tests.core.support import depth
from tests.e2e.amqp_bytes import (
    DETACH,
    FLOW,
    TRANSFER,
    Heard,
    attaching,
    granting,
    says,
    transferring,
)
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import READER, SENDER, Raw, flow, only

DRAINING = (NULL, TRUE)
ELSEWHERE = attaching("elsewhere", 1, "q", sends=False)


def sending(count: int, *, first: int = 0, handle: int = 0) -> list[bytes]:
    numbers = range(first, first + count)
    return [transferring(handle, number, b"%d" % number, settled=True) for number in numbers]


def tags(heard: list[Heard]) -> list[object]:
    return [each[1] for each in only(TRANSFER, heard)]


def bodies(raw: Raw, *frames: bytes) -> list[bytes]:
    """Return the contents of the messages that come, each one digit long."""
    raw.engine.receive(b"".join(frames), raw.now)
    raw.engine.tick(raw.now)
    data = raw.engine.outgoing()
    mark = b"\x00\x53\x75\xa0\x01"
    return [each[:1] for each in data.split(mark)[1:]]


def link_flows(heard: list[Heard]) -> list[list[object]]:
    return [each[5:9] for each in only(FLOW, heard) if len(each) > 4]


# Given and taken back.


@pytest.mark.parametrize("credit", [3, 2**31 - 1, 2**31, 2**32 - 1])
def test_credit_may_be_any_number(raw: Raw, credit: int) -> None:
    raw.say(SENDER, READER, *sending(3))
    assert tags(raw.say(granting(1, credit))) == [0, 1, 2]
    assert tags(raw.say(flow(100, next_id=3, credit=credit, count=3), *sending(1, first=3))) == [3]


def test_credit_counts_on_where_the_numbers_wrap_around(raw: Raw) -> None:
    raw.say(SENDER, READER)
    link = raw.engine.framing.channels[0].links[1]
    assert link is not None
    link.delivery_count = 2**32 - 2
    link.delivery_limit = link.delivery_count
    raw.say(*sending(9))
    echo = (NULL, FALSE, TRUE)
    (told,) = link_flows(raw.say(flow(0, credit=3, count=2**32 - 2, rest=echo)))
    assert told[:2] == [2**32 - 2, 3]
    assert len(tags(raw.say(flow(100, credit=3, count=2**32 - 2)))) == 3
    assert len(tags(raw.say(flow(100, next_id=3, credit=2, count=1)))) == 2
    (told,) = link_flows(raw.say(flow(100, next_id=5, credit=0, count=3, rest=echo)))
    assert told[:2] == [3, 0]


def test_credit_that_is_taken_back_is_not_used(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, READER, flow(0, credit=5), *sending(5))
    raw.say(flow(0, credit=2))
    assert raw.engine.backpressure.outbox_size < 100
    other = Raw(broker)
    assert bodies(other, ELSEWHERE, granting(1)) == [b"2", b"3", b"4"]
    assert bodies(raw, flow(100, credit=2)) == [b"0", b"1"]
    assert raw.engine.backpressure.outbox_size == 0


def test_no_credit_at_all_stops_a_reader_whose_window_opens_later(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, READER, flow(0, credit=5), *sending(5))
    assert tags(raw.say(flow(0, credit=0), flow(100, credit=0))) == []
    assert bodies(raw, flow(100, credit=9)) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_settled_as_it_is_sent_waits_for_credit(raw: Raw) -> None:
    reader = attaching("out", 1, "q", sends=False, settle_mode=1)
    raw.say(SENDER, reader, flow(0, credit=5), *sending(5))
    assert tags(raw.say(flow(100, credit=2))) == [0, 1]
    assert tags(raw.say(flow(100, next_id=2, credit=1))) == []  # two are on their way
    heard = raw.say(flow(100, next_id=2, credit=0, count=2, rest=DRAINING))
    assert (tags(heard), link_flows(heard)) == ([], [[2, 0, None, True]])
    assert tags(raw.say(flow(100, next_id=2, credit=9, count=2))) == [2, 3, 4]


def test_a_message_that_was_begun_is_finished_without_credit(broker: Broker) -> None:
    raw = Raw(broker, frame_size=512)
    raw.say(SENDER, READER, transferring(0, 0, b"x" * 2000), transferring(0, 1, b"y"))
    assert len(tags(raw.say(flow(1, credit=2)))) == 1
    heard = raw.say(flow(100, next_id=1, credit=0, count=1))
    assert [each[5] for each in only(TRANSFER, heard)] == [True] * 3 + [False]
    assert depth(broker.host.queues["q"]) == 2
    assert len(tags(Raw(broker).say(ELSEWHERE, granting(1)))) == 1


def test_a_topics_link_that_ends_leaves_nothing_in_the_outbox(raw: Raw) -> None:
    topic = "/topic/t"
    raw.say(attaching("in", 0, topic, sends=True), attaching("out", 1, topic, sends=False))
    raw.say(flow(0, credit=100), *sending(5))
    raw.say(says(DETACH, uint(1), TRUE))
    assert raw.engine.backpressure.outbox_size == 0


# Drained.


def test_a_drain_that_is_called_off_leaves_the_credit(raw: Raw) -> None:
    raw.say(SENDER, READER)
    heard = raw.say(flow(100, credit=5, rest=DRAINING), flow(100, credit=7))
    assert link_flows(heard) == []
    assert tags(raw.say(*sending(9))) == list(range(7))


def test_a_drain_is_answered_whatever_is_on_its_way(raw: Raw) -> None:
    raw.say(SENDER, READER, *sending(5))
    assert tags(raw.say(flow(100, credit=9))) == list(range(5))
    assert link_flows(raw.say(flow(100, credit=0, rest=DRAINING))) == [[5, 0, None, True]]


def test_a_drain_is_answered_once_however_often_it_is_asked_for(raw: Raw) -> None:
    raw.say(SENDER, READER)
    asked = [flow(100, credit=credit, rest=DRAINING) for credit in (5, 6, 7)]
    assert link_flows(raw.say(*asked)) == [[7, 0, None, True]]
    assert tags(raw.say(flow(100, credit=2, count=7), *sending(3))) == [0, 1]


def test_a_queue_that_has_not_begun_answers_a_drain() -> None:
    policy = {"id": "**", "groups": {"consumers_before_dispatch": 2}}
    raw = Raw(make_broker(queue=(policy,)))
    raw.say(SENDER, READER, *sending(1))
    heard = raw.say(flow(100, credit=5, rest=DRAINING))
    assert (tags(heard), link_flows(heard)) == ([], [[5, 0, None, True]])
