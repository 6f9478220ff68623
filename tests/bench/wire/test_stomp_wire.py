"""The load's bytes, and the check that decides whether a figure counts."""

from __future__ import annotations

import pytest

from covey.bench.wire.link import IncompleteError
from covey.bench.wire.stomp_wire import acks, check, send_frames, subscribe
from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version


def parsed(data: bytes) -> list[Frame]:
    parser = FrameParser(Limits())
    parser.feed(data)
    frames = []
    frame = parser.next_frame()
    while frame is not None:
        frames.append(frame)
        frame = parser.next_frame()
    return frames


def delivered(frames: list[bytes]) -> list[bytes]:
    return [frame.replace(b"SEND\n", b"MESSAGE\nack:7\n") for frame in frames]


@pytest.mark.parametrize("size", [128, 1024])
def test_sends_are_frames_with_bodies_of_the_size_asked_for(size: int) -> None:
    frames = parsed(b"".join(send_frames("/queue/a", 3, size, 0)))
    assert [frame.command for frame in frames] == ["SEND"] * 3
    assert {len(frame.body) for frame in frames} == {size}
    assert frames[0].headers(Version.V1_2)["destination"] == "/queue/a"


def test_messages_are_dealt_out_over_the_groups_in_turn() -> None:
    frames = parsed(b"".join(send_frames("/queue/a", 4, 32, 2)))
    groups = [frame.headers(Version.V1_2)["JMSXGroupID"] for frame in frames]
    assert groups == ["g0", "g1", "g0", "g1"]


def test_every_message_is_acknowledged_by_its_own_number() -> None:
    frames = parsed(acks(b"MESSAGE\nack:7\n\nx\0\nMESSAGE\nack:8\ny:1\n\nx\0\n"))
    assert [(frame.command, frame.block) for frame in frames] == [
        ("ACK", b"id:7"),
        ("ACK", b"id:8"),
    ]
    assert acks(b"") == b""


def test_credit_is_asked_for_under_the_name_each_broker_knows() -> None:
    (frame,) = parsed(subscribe("/queue/a", "client-individual", 50))
    headers = frame.headers(Version.V1_2)
    assert headers["prefetch-count"] == headers["activemq.prefetchSize"] == "50"


@pytest.mark.parametrize("groups", [0, 3])
def test_a_complete_run_in_order_passes(groups: int) -> None:
    check(delivered(send_frames("/queue/a", 10, 32, groups)), 10, groups)


def test_a_lost_message_is_found() -> None:
    frames = delivered(send_frames("/queue/a", 10, 32, 0))
    with pytest.raises(IncompleteError, match="9 messages arrived, 9 different ones, of 10 sent"):
        check(frames[:5] + frames[6:], 10, 0)


def test_a_doubled_message_is_found() -> None:
    frames = delivered(send_frames("/queue/a", 10, 32, 0))
    with pytest.raises(IncompleteError, match="11 messages arrived, 10 different"):
        check([*frames, frames[0]], 10, 0)


def test_disorder_within_a_group_is_found_and_between_groups_is_none() -> None:
    frames = delivered(send_frames("/queue/a", 4, 32, 2))
    check([frames[1], frames[3], frames[0], frames[2]], 4, 2)
    with pytest.raises(IncompleteError, match="group 0: its messages arrived out of order"):
        check([frames[2], frames[0], frames[1], frames[3]], 4, 2)


def test_competing_consumers_owe_no_order() -> None:
    frames = delivered(send_frames("/queue/a", 4, 32, 0))
    check(frames[::-1], 4, 0, is_ordered=False)
