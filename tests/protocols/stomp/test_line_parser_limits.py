"""Limits hold to the byte, before a frame is whole, however it arrives; large input is cheap."""

from __future__ import annotations

import tracemalloc

import pytest

from covey.config.settings import StompSettings
from covey.core.errors import ProtocolError
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.settings import login_limits
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.streams import V1_1, V1_2, drain, parse, parse_bytewise

MIB = 1024 * 1024


def check_limit(fits: bytes, breaks: bytes, limits: Limits, text: str) -> None:
    for version in Version:
        assert len(parse(fits, version, limits)) == 1
        assert len(parse_bytewise(fits, version, limits)) == 1
        with pytest.raises(ProtocolError, match=text):
            parse(breaks, version, limits)
        with pytest.raises(ProtocolError, match=text):
            parse_bytewise(breaks, version, limits)


@pytest.mark.parametrize("length", [16, 3000, 10240])
def test_a_header_line_may_be_as_long_as_its_limit(length: int) -> None:
    limits = Limits(header_length_max=length)
    fits = b"SEND\nx:" + b"a" * (length - 2) + b"\n\n\0"
    breaks = b"SEND\nx:" + b"a" * (length - 1)  # refused before its LF
    text = f"header line 1 .* longer than {length} bytes"
    check_limit(fits, breaks, limits, text)
    check_limit(fits, breaks + b"\n\n\0", limits, text)


def test_the_cr_of_the_line_end_does_not_count_as_header() -> None:
    limits = Limits(header_length_max=16)
    line = b"x:" + b"a" * 14
    for frames in (parse, parse_bytewise):
        assert frames(b"SEND\n" + line + b"\r\n\r\n\0", V1_2, limits)[0][1] == line
        with pytest.raises(ProtocolError, match="longer than 16 bytes"):
            frames(b"SEND\n" + line + b"\r\r\n", V1_2, limits)
        with pytest.raises(ProtocolError, match="longer than 16 bytes"):
            frames(b"SEND\n" + line + b"\r\n", V1_1, limits)


@pytest.mark.parametrize("count", [2, 1000])
def test_a_frame_may_have_as_many_headers_as_the_limit(count: int) -> None:
    head = b"SEND\n" + b"x:1\n" * count
    check_limit(
        head + b"\n\0", head + b"x:1\n", Limits(headers_max=count), f"more than {count} headers"
    )


@pytest.mark.parametrize("count", [2, 1000])
def test_the_shortest_headers_are_counted_too(count: int) -> None:
    head = b"SEND\n" + b"x\n" * count
    check_limit(
        head + b"\n\0", head + b"x\n\n\0", Limits(headers_max=count), f"more than {count} headers"
    )


def test_a_body_without_content_length_may_be_as_long_as_its_limit() -> None:
    fits = b"SEND\nx:1\n\n" + b"b" * 50 + b"\0"
    breaks = b"SEND\nx:1\n\n" + b"b" * 51
    limits = Limits(body_length_max=50)
    check_limit(fits, breaks, limits, "longer than 50 bytes")
    check_limit(fits, breaks + b"\0", limits, "longer than 50 bytes")


def test_a_body_with_content_length_may_be_as_long_as_its_limit() -> None:
    fits = b"SEND\ncontent-length:50\n\n" + b"b" * 50 + b"\0"
    breaks = b"SEND\ncontent-length:51\n\n"  # refused before the body comes
    check_limit(fits, breaks, Limits(body_length_max=50), "content-length b?'?51.* exceeds 50")


@pytest.mark.parametrize("length", [4, 32, 40])
def test_a_command_line_may_be_as_long_as_its_limit(length: int) -> None:
    limits = Limits(command_length_max=length)
    check_limit(b"SEND\n\n\0", b"S" * (length + 1), limits, f"longer than {length} bytes")
    with pytest.raises(ProtocolError, match="unknown command"):
        parse(b"S" * length + b"\n", limits=limits)


def test_a_known_command_over_the_command_limit_is_refused_too() -> None:
    limits = Limits(command_length_max=4)
    for frames in (parse, parse_bytewise):
        with pytest.raises(ProtocolError, match="longer than 4 bytes"):
            frames(b"BEGIN\ntransaction:1\n\n\0", V1_2, limits)


@pytest.mark.parametrize("head", [b"CONNECT\nx:1\n\n", b"CONNECT\nx:1\ncontent-length:%d\n\n"])
def test_a_frame_may_be_as_long_as_its_limit(head: bytes) -> None:
    fits = frame_of_length(head, 64)
    breaks = frame_of_length(head, 65)
    check_limit(fits, breaks, Limits(frame_length_max=64), "frame is longer than 64 bytes")


def frame_of_length(head: bytes, length: int) -> bytes:
    body_length = length - 1 - len(head % 10 if b"%d" in head else head)
    return (head % body_length if b"%d" in head else head) + b"b" * body_length + b"\0"


def test_headers_count_for_the_frame_limit() -> None:
    head = b"CONNECT\n" + b"x:1\n" * 13  # 60 bytes
    check_limit(
        head + b"\n\0", head + b"x:1\n", Limits(frame_length_max=62), "frame is longer than 62"
    )


def test_limits_may_change_between_two_frames_of_one_chunk() -> None:
    parser = FrameParser(Limits(body_length_max=3))
    parser.feed(b"SEND\nx:1\n\nabc\0SEND\nx:1\n\nabcd\0")
    assert parser.next_frame() is not None
    parser.limits = Limits()
    assert drain(parser) == [("SEND", b"x:1", b"abcd")]


def test_an_endless_line_is_refused_as_soon_as_it_is_too_long() -> None:
    parser = FrameParser(login_limits(StompSettings()))
    parser.feed(b"a" * 32)
    assert parser.next_frame() is None
    parser.feed(b"a")
    with pytest.raises(ProtocolError, match="command line is longer than 32 bytes"):
        parser.next_frame()


# Large input: each of these takes minutes, or all the memory, if work or buffers are repeated.


@pytest.mark.parametrize("head", [b"SEND\nx:1\n\n", b"SEND\ncontent-length:%d\n\n" % (100 * MIB)])
def test_the_largest_body_arrives_in_small_chunks_and_is_held_once(head: bytes) -> None:
    parser = FrameParser(Limits())
    chunk = b"b" * 16384
    tracemalloc.start()
    try:
        parser.feed(head)
        for _ in range(100 * MIB // len(chunk)):
            assert parser.next_frame() is None
            parser.feed(chunk)
        assert parser.next_frame() is None
        assert parser.buffered == len(head) + 100 * MIB
        parser.feed(b"\0")
        frame = parser.next_frame()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert frame is not None
    assert len(frame.body) == 100 * MIB
    assert peak < 120 * MIB


def test_a_body_over_the_default_limit_is_refused_while_it_arrives() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"SEND\nx:1\n\n")
    assert parser.next_frame() is None
    chunk = b"b" * MIB
    for _ in range(100):
        parser.feed(chunk)
        assert parser.next_frame() is None
    parser.feed(b"b")
    with pytest.raises(ProtocolError, match="longer than 104857600 bytes"):
        parser.next_frame()


def test_very_many_small_frames_in_one_chunk_take_one_pass() -> None:
    count = 40_000
    for frame in (b"ACK\nid:1\n\n\0\n", b"ACK\r\nid:1\r\n\r\n\0", b"ACK\nid:1\r\n\r\n\0"):
        parser = FrameParser(Limits())
        parser.feed(frame * count)
        found = 0
        while parser.next_frame() is not None:
            found += 1
        assert found == count


def test_many_long_headers_in_tiny_chunks_take_one_pass() -> None:
    line = b"x:" + b"a" * 10238 + b"\n"
    data = b"SEND\n" + line * 300
    parser = FrameParser(Limits())
    for at in range(0, len(data), 64):
        parser.feed(data[at : at + 64])
        assert parser.next_frame() is None
    assert parser.buffered == len(data)


def test_an_idle_parser_holds_no_chunk() -> None:
    parser = FrameParser(Limits())
    tracemalloc.start()
    try:
        parser.feed(b"SEND\nx:1\n\n" + b"b" * 100_000 + b"\0SEND")
        assert parser.next_frame() is not None
        assert parser.next_frame() is None
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 10_000
