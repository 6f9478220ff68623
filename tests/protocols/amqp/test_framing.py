"""Framing: frames, windows, credit and ranges, as bytes."""

from __future__ import annotations

import struct

import pytest

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
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
from covey.protocols.amqp.session import SESSION_FRAMES
from tests.core.support import depth
from tests.e2e.amqp_bytes import (
    ATTACH,
    BEGIN,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
    WINDOW,
    Heard,
    accepting,
    attaching,
    beginning,
    granting,
    performative,
    says,
    transferring,
)
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import READER, SENDER, Raw, enqueued, flow, only

CREDIT = 1000  # of a link, by default
PART = section(DATA, binary(b"x"))


def part(number: int, *, more: bool = True, aborted: bool = False) -> bytes:
    """Write a transfer that is one of several."""
    flags = (FALSE, TRUE if more else FALSE, NULL, NULL, NULL, TRUE if aborted else FALSE)
    fields = (uint(0), uint(number), binary(b"tag"), uint(0), *flags)
    return says(TRANSFER, *fields, payload=PART)


# Frames.


def test_messages_of_one_read_are_answered_by_one_range(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER)
    heard = raw.say(*[transferring(0, number, b"x") for number in range(300)])
    assert [each[:4] for each in only(DISPOSITION, heard)] == [[True, 0, 299, True]]
    assert enqueued(broker) == 300


def test_frames_may_come_in_any_pieces(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER)
    heard: list[Heard] = []
    for byte in b"".join([transferring(0, number, b"x" * number) for number in range(5)]):
        heard += raw.say(bytes((byte,)))
    assert [each[1] for each in only(DISPOSITION, heard)] == [0, 1, 2, 3, 4]
    assert enqueued(broker) == 5


def test_a_longer_frame_header_and_a_long_descriptor_are_read(broker: Broker, raw: Raw) -> None:
    body = performative(TRANSFER, uint(0), uint(7), binary(b"t"), uint(0)) + PART
    body = b"\x00\x80" + TRANSFER.to_bytes(8, "big") + body[3:]
    raw.say(SENDER)
    heard = raw.say(struct.pack(">IBBH", len(body) + 12, 3, 0, 0) + b"more" + body)
    assert [each[1] for each in only(DISPOSITION, heard)] == [7]
    assert enqueued(broker) == 1


@pytest.mark.parametrize("number", [5, 300, 2**32 - 2])
def test_transfers_of_another_shape_than_the_last_are_read(
    broker: Broker, raw: Raw, number: int
) -> None:
    raw.say(SENDER, attaching("other", 2, "q", sends=True))
    tags = (b"a", b"b", b"longer", b"l" * 300, b"", b"c")
    frames: list[bytes] = []
    for handle in (0, 2):
        for tag in tags:
            place = (uint(handle), uint((number + len(frames)) % 2**32), binary(tag), uint(0))
            frames.append(says(TRANSFER, *place, payload=PART))
            frames.append(says(TRANSFER, *place, TRUE, payload=PART))
    heard = raw.say(*frames)
    answered = only(DISPOSITION, heard)
    assert len(answered) == 2 * len(tags)
    assert [each[1] for each in answered] == [
        (number + place) % 2**32 for place in range(0, 4 * len(tags), 2)
    ]
    assert enqueued(broker) == 4 * len(tags)


@pytest.mark.parametrize("cut", [0, 3, len(PART)])
@pytest.mark.parametrize("fields", [(), (NULL,), (uint(7000),), (uint(7000), NULL)])
def test_later_transfers_of_a_message_may_leave_its_tag_out(
    broker: Broker, raw: Raw, fields: tuple[bytes, ...], cut: int
) -> None:
    first = (uint(0), uint(7000), binary(b"t"), uint(0), FALSE, TRUE)
    raw.say(SENDER, READER, granting(1))
    heard = raw.say(
        says(TRANSFER, *first, payload=PART[:cut]),
        says(TRANSFER, uint(0), *fields, payload=PART[cut:]),
        transferring(0, 7001, b"next"),
    )
    assert [each[1:3] for each in only(DISPOSITION, heard)] == [[7000, 7001]]
    assert enqueued(broker) == 2


def test_a_peers_frames_are_no_larger_than_it_takes(broker: Broker) -> None:
    raw = Raw(broker, frame_size=512)
    raw.say(attaching("in", 0, "q", sends=True), transferring(0, 0, b"x" * 5000))
    heard = raw.say(READER, granting(1))
    transfers = only(TRANSFER, heard)
    assert len(transfers) > 10
    assert {each[1] for each in transfers} == {0}  # one delivery
    assert [each[5] for each in transfers] == [True] * (len(transfers) - 1) + [False]
    assert max(raw.frame_sizes) <= 512


def test_what_is_refused_fits_the_smallest_frame(broker: Broker) -> None:
    raw = Raw(broker, frame_size=512)
    name = "\u00e9" * 200
    target = section(0x29, compound([]))
    raw.say(
        says(ATTACH, string(name), uint(0), FALSE, NULL, NULL, NULL, target, NULL, NULL, uint(0))
    )
    heard = raw.say(transferring(0, 0, b"x"))
    assert len(only(DISPOSITION, heard)) == 1
    assert max(raw.frame_sizes) <= 512
    heard = raw.say(*[transferring(0, number, b"x") for number in range(CREDIT + 2)])
    assert [each.condition for each in heard if each.code == DETACH] == [
        "amqp:link:transfer-limit-exceeded"
    ]
    assert max(raw.frame_sizes) <= 512


@pytest.mark.parametrize("is_whole", [True, False])
def test_messages_and_parts_of_frames_are_signs_of_life(broker: Broker, is_whole: bool) -> None:
    raw = Raw(broker, AmqpSettings(allow_anonymous=True, idle_timeout_s=8))
    raw.say(SENDER)
    frames = [transferring(0, number, b"x") for number in range(6)]
    pieces = frames if is_whole else [frames[0][at : at + 5] for at in range(0, 30, 5)]
    for piece in pieces:
        raw.now += 5
        raw.say(piece)
        assert not raw.engine.is_closed
    raw.now += 9
    raw.hear()
    assert raw.engine.is_closed


def test_a_peer_that_has_to_wait_for_room_is_not_taken_for_dead() -> None:
    broker = make_broker(queue=({"id": "**", "quota_messages": 1},))
    settings = AmqpSettings(allow_anonymous=True, idle_timeout_s=8, held_max=1000)
    raw = Raw(broker, settings)
    raw.say(SENDER, *[transferring(0, number, b"x" * 500) for number in range(4)])
    assert not raw.engine.reading
    for _ in range(5):
        raw.now += 5
        raw.hear()
    assert not raw.engine.is_closed
    broker.host.delete_queue("q", "make room")
    broker.run(raw.now)
    raw.hear()
    assert raw.engine.reading
    raw.now += 9
    raw.hear()
    assert raw.engine.is_closed


def test_incomplete_messages_of_a_connection_are_bounded(broker: Broker) -> None:
    raw = Raw(broker, AmqpSettings(allow_anonymous=True, max_message_size=1000))
    fields = (binary(b"t"), uint(0), FALSE)
    ended: list[str] = []
    for handle in range(9):
        name = f"in {handle}"
        raw.say(attaching(name, handle, "q", sends=True))
        first = says(TRANSFER, uint(handle), uint(handle), *fields, TRUE, payload=bytes(900))
        ended += [each.condition for each in raw.say(first) if each.code == DETACH]
    assert ended == ["amqp:resource-limit-exceeded"] * 5
    heard = raw.say(*[says(TRANSFER, uint(handle), NULL, *fields) for handle in range(4)])
    assert [each[1:3] for each in only(DISPOSITION, heard)] == [[0, 3]]
    assert raw.engine.backpressure.gathered_size == 0


# Windows.


def test_nothing_is_sent_beyond_the_sessions_window(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, *[transferring(0, number, b"x", settled=True) for number in range(10)])
    assert len(only(TRANSFER, raw.say(READER, flow(3)))) == 3
    assert len(only(TRANSFER, raw.say(flow(3, next_id=0)))) == 0  # those three are on their way
    assert len(only(TRANSFER, raw.say(flow(4, next_id=3)))) == 4
    assert len(only(TRANSFER, raw.say(flow(100, next_id=7)))) == 3


def test_a_large_message_waits_for_the_window_and_lets_others_by(broker: Broker) -> None:
    raw = Raw(broker, frame_size=512)
    raw.say(SENDER, attaching("other in", 2, "other", sends=True), READER)
    raw.say(attaching("other out", 3, "other", sends=False))
    raw.say(transferring(0, 0, b"x" * 2000), transferring(2, 1, b"y"))
    first = only(TRANSFER, raw.say(flow(2)))
    assert [each[1] for each in first] == [0, 0]
    credit = (uint(2), uint(100), uint(0), WINDOW, uint(3), uint(0), uint(1))
    rest = only(TRANSFER, raw.say(says(FLOW, *credit)))
    assert {each[1] for each in rest} == {0, 1}
    assert len(rest) == 4  # three are left of the large one


def test_the_window_is_granted_anew_when_half_of_it_is_used(raw: Raw) -> None:
    raw.say(SENDER)
    heard = raw.say(*[part(0) for _ in range(SESSION_FRAMES // 2)])
    assert only(FLOW, heard) == []
    (session,) = only(FLOW, raw.say(part(0)))
    assert session[:2] == [SESSION_FRAMES // 2 + 1, SESSION_FRAMES]


def test_more_transfers_than_the_window_end_the_session(raw: Raw) -> None:
    raw.say(SENDER)
    heard = raw.say(*[part(0) for _ in range(SESSION_FRAMES + 1)])
    (end,) = [each for each in heard if each.code == END]
    assert end.condition == "amqp:session:window-violation"


# Credit.


def test_more_messages_than_the_credit_end_the_link_and_no_other(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, attaching("other", 1, "other", sends=True))
    heard = raw.say(*[transferring(0, number, b"x") for number in range(CREDIT + 5)])
    (detach,) = [each for each in heard if each.code == DETACH]
    assert detach.condition == "amqp:link:transfer-limit-exceeded"
    assert enqueued(broker) == CREDIT
    heard = raw.say(transferring(1, 5000, b"x"), transferring(0, 5001, b"x"))
    assert [each[1] for each in only(DISPOSITION, heard)] == [5000]


def test_parts_of_one_message_cost_one_credit_even_if_it_is_aborted(raw: Raw) -> None:
    raw.say(SENDER)
    for number in range(CREDIT // 2):
        heard = raw.say(
            part(number), part(number), part(number, more=False, aborted=number % 2 > 0)
        )
    link = [each for each in only(FLOW, heard) if len(each) > 4]
    assert [each[5:7] for each in link] == [[CREDIT // 2, CREDIT]]


def test_credit_counts_from_where_the_sender_says(raw: Raw) -> None:
    attach = says(
        ATTACH,
        *(b"\xa1\x02in", uint(0), FALSE, NULL, NULL, NULL),
        *(section(0x29, compound([b"\xa1\x01q"])), NULL, NULL, uint(77)),
    )
    (first,) = only(FLOW, raw.say(attach))
    assert first[5:7] == [77, CREDIT]


def test_an_echo_is_answered(raw: Raw) -> None:
    raw.say(SENDER, READER)
    echo = (NULL, FALSE, TRUE)
    (link,) = only(FLOW, raw.say(flow(100, credit=5, rest=echo)))
    assert link[6] == 5
    (session,) = only(
        FLOW, raw.say(says(FLOW, uint(0), WINDOW, uint(0), WINDOW, *[NULL] * 3, *echo))
    )
    assert len(session) == 4


def test_a_drain_is_answered_by_a_flow_without_credit(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, transferring(0, 0, b"x"), READER)
    heard = raw.say(flow(100, credit=5, rest=(NULL, TRUE)))
    assert len(only(TRANSFER, heard)) == 1
    (link,) = [each for each in only(FLOW, heard) if len(each) > 4]
    assert (link[5], link[6], link[8]) == (5, 0, True)


# Ranges.


def test_a_range_over_two_links_settles_what_each_has(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, attaching("other in", 2, "other", sends=True), READER)
    raw.say(attaching("other out", 3, "other", sends=False), granting(1), granting(3))
    for number in range(6):
        raw.say(transferring(2 * (number % 2), number, b"x", settled=True))
    raw.say(accepting(1, 4))
    queues = broker.host.queues
    assert [depth(queues[name]) for name in ("q", "other")] == [1, 1]
    raw.say(accepting(0, 5))
    assert [depth(queues[name]) for name in ("q", "other")] == [0, 0]


@pytest.mark.parametrize("descriptor", [compound([TRUE]), compound([TRUE, TRUE], is_map=True)])
def test_a_state_that_no_word_describes_gives_a_delivery_back(
    broker: Broker, raw: Raw, descriptor: bytes
) -> None:
    raw.say(SENDER, READER, flow(100), transferring(0, 0, b"x"))
    state = b"\0" + descriptor + compound([])
    heard = raw.say(says(DISPOSITION, TRUE, uint(0), NULL, TRUE, state))
    assert [each.code for each in heard] == [TRANSFER]


def test_numbers_wrap_around(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, READER)
    (channel,) = raw.engine.framing.channels.values()
    channel.next_delivery = 2**32 - 2
    sent = [transferring(0, number, b"x", settled=True) for number in range(4)]
    heard = raw.say(*sent, granting(1))
    assert [each[1] for each in only(TRANSFER, heard)] == [2**32 - 2, 2**32 - 1, 0, 1]
    raw.say(accepting(2**32 - 2, 1))
    assert depth(broker.host.queues["q"]) == 0


def test_what_was_never_sent_cannot_be_accepted(raw: Raw) -> None:
    heard = raw.say(READER, accepting(0, 0))
    assert [each.condition for each in heard if each.code == CLOSE] == ["amqp:not-allowed"]


# Sessions.


def test_a_channel_can_be_used_again_and_again(broker: Broker, raw: Raw) -> None:
    for number in range(3):
        heard = raw.say(SENDER, transferring(0, number, b"x"), says(END))
        assert [each.code for each in heard if each.code in (DISPOSITION, END)] == [
            DISPOSITION,
            END,
        ]
        assert raw.say(beginning())[0].code == BEGIN
    assert enqueued(broker) == 3


def test_a_handle_can_be_used_again_once_its_link_has_ended(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, says(DETACH, uint(0), TRUE))
    heard = raw.say(attaching("again", 0, "q", sends=True), transferring(0, 0, b"x"))
    assert {each.code for each in heard} == {ATTACH, DISPOSITION, FLOW}
    assert enqueued(broker) == 1


def test_what_follows_a_session_error_is_passed_over_until_its_end(raw: Raw) -> None:
    heard = raw.say(SENDER, attaching("other", 0, "q", sends=True))
    assert [each.condition for each in heard if each.code == END] == ["amqp:session:handle-in-use"]
    late = (transferring(0, 0, b"x"), granting(9), accepting(0, 9), SENDER, says(DETACH, uint(0)))
    assert raw.say(*late) == []
    heard = raw.say(says(END), beginning(), SENDER)
    assert [each.code for each in heard if each.code != FLOW] == [BEGIN, ATTACH]


# What the peer itself can number.

ONE_LINK = says(BEGIN, NULL, uint(0), WINDOW, WINDOW, uint(0), channel=1)


def on_channel_1(frame: bytes) -> bytes:
    return frame[:6] + b"\0\1" + frame[8:]


def codes(heard: list[Heard]) -> list[int]:
    return [each.code for each in heard if each.code != FLOW]


@pytest.mark.parametrize(
    "second",
    [attaching("b", 1, "q", sends=True), attaching("b", 1, "", sends=True)],
    ids=["allowed", "refused"],
)
def test_a_link_beyond_the_peers_own_limit_ends_the_session_and_no_other(
    broker: Broker, raw: Raw, second: bytes
) -> None:
    heard = raw.say(ONE_LINK, on_channel_1(SENDER))
    assert codes(heard) == [BEGIN, ATTACH]
    heard = raw.say(on_channel_1(second))
    assert [each.condition for each in heard] == ["amqp:resource-limit-exceeded"]
    assert raw.say(on_channel_1(second), on_channel_1(says(END))) == []
    heard = raw.say(SENDER, transferring(0, 0, b"x"))
    assert codes(heard) == [ATTACH, DISPOSITION]


def test_a_link_may_follow_one_that_has_ended_within_the_peers_own_limit(raw: Raw) -> None:
    raw.say(ONE_LINK, on_channel_1(SENDER), on_channel_1(says(DETACH, uint(0), TRUE)))
    heard = raw.say(on_channel_1(SENDER))
    assert codes(heard) == [ATTACH]


def test_a_session_beyond_the_peers_own_limit_ends_the_connection(broker: Broker) -> None:
    one_session = b"\x60\0\0"  # channel-max, a ushort
    raw = Raw(broker, opened=says(OPEN, string("odd"), NULL, NULL, one_session))
    assert raw.say(SENDER)[0].code == ATTACH
    heard = raw.say(beginning(channel=1))
    assert [each.condition for each in heard] == ["amqp:resource-limit-exceeded"]


@pytest.mark.parametrize("kind", [1, 7])
def test_a_frame_of_another_type_ends_the_connection_whatever_it_says(raw: Raw, kind: int) -> None:
    odd = SENDER[:5] + bytes((kind,)) + SENDER[6:]
    heard = raw.say(odd[:30]) + raw.say(odd[30:])
    assert [each.condition for each in heard] == ["amqp:connection:framing-error"]
