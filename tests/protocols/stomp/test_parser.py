"""The parser: what is cut out of a stream, what is refused."""

from __future__ import annotations

import pytest

from covey.config.settings import StompSettings
from covey.core.errors import ProtocolError
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.settings import login_limits
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.streams import V1_0, V1_1, V1_2, drain, fields, parse, parse_bytewise


def test_a_frame_is_command_header_lines_and_body() -> None:
    assert parse(b"SEND\ndestination:/queue/a\nx:1\n\nhello\0") == [
        ("SEND", b"destination:/queue/a\nx:1", b"hello")
    ]


def test_a_frame_may_have_neither_headers_nor_body() -> None:
    assert parse(b"DISCONNECT\n\n\0") == [("DISCONNECT", b"", b"")]


def test_line_ends_between_frames_are_heart_beats() -> None:
    data = b"\n\r\n\nBEGIN\ntransaction:1\n\n\0\n\n\r\nABORT\ntransaction:1\n\n\0\n"
    expected = [("BEGIN", b"transaction:1", b""), ("ABORT", b"transaction:1", b"")]
    assert parse(data) == expected
    assert parse_bytewise(data) == expected


def test_none_means_more_data_and_nothing_is_lost() -> None:
    parser = FrameParser(Limits())
    for part in (b"SE", b"ND\ndest", b"ination:/queue/a\n", b"\nhel", b"lo"):
        parser.feed(part)
        assert parser.next_frame() is None
    parser.feed(b"\0SEND")
    frame = parser.next_frame()
    assert frame is not None
    assert fields(frame) == ("SEND", b"destination:/queue/a", b"hello")
    assert parser.next_frame() is None
    assert parser.buffered == len(b"SEND")


def test_buffered_counts_what_is_held_and_nothing_after_a_frame() -> None:
    parser = FrameParser(Limits())
    start = b"SEND\ncontent-length:5\n\nhel"
    parser.feed(start)
    assert parser.next_frame() is None
    assert parser.buffered == len(start)
    parser.feed(b"lo\0\n")
    assert len(drain(parser)) == 1
    assert parser.buffered == 0


@pytest.mark.parametrize("version", [V1_0, V1_2])
def test_lines_may_end_in_cr_lf(version: Version) -> None:
    data = b"SEND\r\ndestination:/queue/a\r\ncontent-length:4\r\n\r\na\r\nb\0\r\n"
    assert parse(data, version) == [("SEND", b"destination:/queue/a\ncontent-length:4", b"a\r\nb")]
    assert parse_bytewise(data, version) == parse(data, version)


def test_line_ends_may_be_mixed() -> None:
    data = b"SEND\nx:1\r\n\r\nbody\n\nrest\0"
    assert parse(data) == [("SEND", b"x:1", b"body\n\nrest")]


def test_only_one_cr_belongs_to_the_line_end() -> None:
    assert parse(b"SEND\nx:1\r\r\n\n\0") == [("SEND", b"x:1\r", b"")]


def test_a_cr_is_part_of_the_value_in_1_1() -> None:
    assert parse(b"SEND\nx:1\r\n\n\0", V1_1) == [("SEND", b"x:1\r", b"")]


def test_the_version_may_change_between_two_frames_of_one_chunk() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"CONNECT\r\n\r\n\0SEND\nx:1\r\n\n\0")
    assert parser.next_frame() is not None
    parser.version = V1_1
    frame = parser.next_frame()
    assert frame is not None
    assert frame.block == b"x:1\r"


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\n\0",
        b"DISCONNECT\n\n\0\0",
        b"SEND\0",
        b"SEND\nx:1\0",
        b"SEND\nx:\0\n\n\0",
        b"SEND\ndestination:/queue/a\0\nSEND\n\n\0",
    ],
)
def test_a_nul_before_the_body_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="NUL in "):
        parse(data)
    with pytest.raises(ProtocolError, match="NUL in "):
        parse_bytewise(data)


@pytest.mark.parametrize("line", [b"send", b"SEND ", b"\xff\xfe", b":", b" "])
def test_an_unknown_command_is_refused_at_its_line_end(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="unknown command"):
        parse(line + b"\n")


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n", "HTTP"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (bytes.fromhex("160301020001"), "TLS"),
    ],
)
def test_who_took_the_wrong_port_is_told_so(first: bytes, name: str) -> None:
    with pytest.raises(ProtocolError, match=f"^expected STOMP, but the peer speaks {name}$"):
        parse(first)


def test_errors_do_not_quote_header_lines() -> None:
    limits = Limits(header_length_max=16)
    for data in (b"CONNECT\npasscode:secret\0", b"CONNECT\npasscode:secret-and-long\n"):
        with pytest.raises(ProtocolError) as caught:
            parse(data, limits=limits)
        assert "secret" not in caught.value.text
        assert "header line 1 of the CONNECT frame" in caught.value.text


# content-length


def counted(value: bytes) -> bytes:
    return b"SEND\ncontent-length:" + value + b"\n\nabc\0def\0"


@pytest.mark.parametrize("value", [b"7", b"07", b"0" * 17 + b"7"])
@pytest.mark.parametrize("version", Version)
def test_content_length_counts_the_body_with_its_nuls(value: bytes, version: Version) -> None:
    expected = [("SEND", b"content-length:" + value, b"abc\0def")]
    assert parse(counted(value), version) == expected
    assert parse_bytewise(counted(value), version) == expected


BAD_LENGTHS = [
    b"", b" ", b"-1", b"-0", b"+7", b"7.0", b"7,0", b"7e0", b"0x7", b"0b1", b"7L", b"7_0", b"_7",
    b"7 7", b"NaN", b"inf", b"none", b"true", b"\xd9\xa7", b"\xc2\xb2", b"\xef\xbc\x97", b"\xff",
    b"7\t7", b"7:7", b"7;", b"'7'", b"(7)", b"--7", b"7-", b"1/1",
    b"104857601", b"2147483647", b"2147483648", b"4294967295", b"4294967296",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616",
    b"1" * 19, b"9" * 5000, b"0" * 19,
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_LENGTHS)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_content_length_that_is_no_length_is_refused(value: bytes, line_end: bytes) -> None:
    for version in (V1_0, V1_2):
        with pytest.raises(ProtocolError, match="content-length"):
            parse(counted(value).replace(b"\n", line_end), version)


@pytest.mark.parametrize("value", [b" 7", b"7 ", b"\t7 "])
def test_blanks_around_content_length_are_for_1_0_only(value: bytes) -> None:
    assert parse(counted(value), V1_0)[0][2] == b"abc\0def"
    for version in (V1_1, V1_2):
        with pytest.raises(ProtocolError, match="content-length"):
            parse(counted(value), version)


@pytest.mark.parametrize("value", [b"2", b"4", b"5", b"6"])
def test_the_byte_behind_the_counted_body_must_be_nul(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="no NUL behind"):
        parse(counted(value))
    with pytest.raises(ProtocolError, match="no NUL behind"):
        parse_bytewise(counted(value))


def test_a_body_of_length_0_ends_at_once() -> None:
    assert parse(b"SEND\ncontent-length:0\n\n\0") == [("SEND", b"content-length:0", b"")]
    with pytest.raises(ProtocolError, match="no NUL behind the 0 bytes"):
        parse(counted(b"0"))


def test_the_first_content_length_counts() -> None:
    data = b"SEND\ncontent-length:3\ncontent-length:-1\n\n\0\0\0\0"
    for frames in (parse(data), parse_bytewise(data)):
        assert [body for _, _, body in frames] == [b"\0\0\0"]


def test_only_a_header_of_exactly_this_name_is_content_length() -> None:
    data = b"SEND\nx-content-length:9\nContent-Length:9\nx:content-length:9\n\nabc\0"
    for frames in (parse(data), parse_bytewise(data)):
        assert [body for _, _, body in frames] == [b"abc"]


# A login with a blank line above its headers, as the Apollo STOMP manual prints it.


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_headers_of_a_login_may_follow_a_blank_line(
    command: str, end: bytes, line_end: bytes
) -> None:
    data = command.encode() + b"\n\nlogin:admin\npasscode:password" + end + b"\0\n"
    for limits in (Limits(), login_limits(StompSettings())):
        assert parse(data.replace(b"\n", line_end), V1_0, limits) == [
            (command, b"login:admin\npasscode:password", b"")
        ]


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT\nhost:a\n\nlogin:admin\0",
        b"CONNECT\n\nlogin:admin\nhello\0",
        b"CONNECT\n\nlogin:admin\n\nx:1\0",
        b"CONNECT\n\n:admin\0",
        b"CONNECT\n\n\n\0",
        b"SEND\n\nlogin:admin\0",
    ],
)
def test_any_other_body_stays_a_body(data: bytes) -> None:
    head, _, body = data.partition(b"\n\n")
    assert parse(data) == [(head[:7].decode().strip(), head.partition(b"\n")[2], body[:-1])]


def test_limits_hold_for_headers_behind_a_blank_line() -> None:
    limits = Limits(header_length_max=8, headers_max=2)
    assert parse(b"CONNECT\n\na:345678\nb:1\0", limits=limits)[0][1] == b"a:345678\nb:1"
    with pytest.raises(ProtocolError, match="longer than 8 bytes"):
        parse(b"CONNECT\n\na:3456789\0", limits=limits)
    with pytest.raises(ProtocolError, match="more than 2 headers"):
        parse(b"CONNECT\n\na:1\nb:1\nc:1\0", limits=limits)


def test_a_repeated_head_is_read_like_the_first_one() -> None:
    frame = b"SEND\ndestination:/queue/a\ncontent-length:3\n\n%s\0"
    expected = ("SEND", b"destination:/queue/a\ncontent-length:3")
    assert parse(frame % b"a\0b" + frame % b"abc") == [(*expected, b"a\0b"), (*expected, b"abc")]


def test_a_repeated_head_whose_body_is_too_short_is_refused_like_the_first_one() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"SEND\ncontent-length:3\n\nabc\0SEND\ncontent-length:3\n\nabcd\0")
    assert parser.next_frame() is not None
    with pytest.raises(ProtocolError, match="no NUL behind the 3 bytes"):
        parser.next_frame()


def test_heads_that_never_repeat_are_not_remembered_for_ever() -> None:
    parser = FrameParser(Limits())
    for number in range(5000):
        parser.feed(
            b"SEND\nx:%d\n\n\0SEND\nreceipt:%d\n\n\0SEND\ny:%01000d\n\n\0" % ((number,) * 3)
        )
        assert [parser.next_frame() is None for _ in range(4)] == [False, False, False, True]
    assert not parser._heads.known


@pytest.mark.parametrize("cut", range(37, 41))
def test_a_head_is_known_even_if_its_body_is_still_coming(cut: int) -> None:
    data = b"SEND\na:b\ncontent-length:3\nreceipt:9\n\nabc\0"
    parser = FrameParser(Limits())
    parser.version = V1_2
    parser.feed(data)
    first, _, _ = parser.next_head()
    assert first is not None
    parser.feed(data[:cut])
    assert parser.next_frame() is None
    assert parser.buffered == cut
    parser.feed(data[cut:] + data)
    for _ in range(2):
        head, body, own = parser.next_head()
        assert head is first
        assert (body, own.receipt) == (b"abc", b"9")
        assert parser.frame_of(first, body, own).block == b"a:b\ncontent-length:3\nreceipt:9"
    assert parser.buffered == 0


def test_a_body_that_came_later_still_needs_its_nul() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"SEND\na:b\ncontent-length:3\n\nab")
    assert parser.next_frame() is None
    parser.feed(b"cd")
    with pytest.raises(ProtocolError, match=r"no NUL behind the 3 bytes .* SEND"):
        parser.next_frame()


def test_heads_that_differ_in_their_receipts_alone_are_one() -> None:
    parser = FrameParser(Limits())
    parser.version = V1_2
    heads = set()
    for number in range(1, 4):
        parser.feed(b"SEND\na:b\nreceipt:%d\nc:d\n\nbody\0" % number)
        head, body, own = parser.next_head()
        assert head is not None
        assert own.receipt == b"%d" % number
        assert parser.frame_of(head, body, own).block == b"a:b\nreceipt:%d\nc:d" % number
        heads.add(head)
    assert [head.block for head in heads] == [b"a:b\nc:d"]


def test_a_receipt_and_an_id_are_those_of_their_own_frame() -> None:
    parser = FrameParser(Limits())
    parser.version = V1_2
    parser.feed(b"SEND\na:b\nreceipt:1\nmessage-id:m\n\nbody\0SEND\na:b\nmessage-id:n\n\nbody\0")
    parser.feed(b"SEND\na:b\n\nbody\0SEND\na:b\r\n\r\nbody\0")
    found = []
    head, _, own = parser.next_head()
    while head is not None:
        found.append((head.block, own.receipt, own.given_id))
        head, _, own = parser.next_head()
    assert found == [(b"a:b", b"1", b"m"), (b"a:b", b"", b"n"), (b"a:b", b"", b"")]
    assert parser.next_frame() is not None
    assert (own.receipt, own.given_id) == (b"", b"")


@pytest.mark.parametrize("data", [b"ACK\nid:42\n\n\0rest", b"\n\nACK\nid:42\n\n\0rest"])
def test_a_plain_ack_is_taken_by_its_number(data: bytes) -> None:
    parser = FrameParser(Limits())
    parser.feed(data)
    assert parser.next_acks() == [42]
    assert parser.buffered == len(b"rest")


def test_plain_acks_in_a_row_are_taken_together() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"ACK\nid:42\n\n\0ACK\nid:7\n\n\0")
    assert parser.next_acks() == [42, 7]
    assert parser.buffered == 0


@pytest.mark.parametrize(
    "rest",
    [
        b"ACK\nid:",
        b"ACK\nid:7\n\n",
        b"ACK\nid:\n\n\0",
        b"ACK\nid:%d\n\n\0" % 10**19,
        b"ACK\nid:7\nreceipt:1\n\n\0",
        b"SEND\ndestination:a\n\n\n\n\0",
    ],
)
def test_plain_acks_before_anything_else_are_taken_and_no_more(rest: bytes) -> None:
    parser = FrameParser(Limits())
    parser.feed(b"ACK\nid:42\n\n\0ACK\nid:43\n\n\0" + rest)
    assert parser.next_acks() == [42, 43]
    assert parser.buffered == len(rest)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ACK\nid:",
        b"ACK\nid:42\n\n",
        b"ACK\nid:x\n\n\0",
        b"ACK\nid:\n\n\0",
        b"ACK\nid:42\nreceipt:1\n\n\0",
        b"ACK\nid:42\n\nbody\0",
        b"ACK\nid:%d\n\n\0" % 10**19,
        b"NACK\nid:42\n\n\0",
    ],
)
def test_anything_else_is_left_for_the_long_way(data: bytes) -> None:
    parser = FrameParser(Limits())
    parser.feed(data)
    assert parser.next_acks() == []
    assert parser.buffered == len(data)


def test_line_ends_between_plain_acks_are_eaten() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"ACK\nid:42\n\n\0\nACK\nid:7\n\n\0\n")
    assert parser.next_acks() == [42, 7]
    assert parser.next_frame() is None
    assert parser.buffered == 0


def test_the_rest_of_a_frame_is_never_taken_for_an_ack() -> None:
    parser = FrameParser(Limits())
    parser.feed(b"SEND\nx:1\n\nbody ")
    assert parser.next_frame() is None
    parser.feed(b"ACK\nid:42\n\n\0")
    assert parser.next_acks() == []
    frame = parser.next_frame()
    assert frame is not None
    assert frame.body == b"body ACK\nid:42\n\n"
