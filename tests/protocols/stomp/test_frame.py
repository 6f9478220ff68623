"""Frames: how their headers are read, how they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import (
    Frame,
    encode,
    escape,
    header_lines,
    parse_block,
    without_length,
)
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.streams import V1_0, V1_1, V1_2


def test_login_frames_and_connected_are_never_unescaped() -> None:
    for command in ("CONNECT", "STOMP", "CONNECTED"):
        assert Frame(command, b"passcode:a\\cb\\t", b"").headers(V1_2) == {"passcode": "a\\cb\\t"}
    assert Frame("SEND", b"x:a\\cb", b"").headers(V1_2) == {"x": "a:b"}


def test_blanks_of_a_login_belong_to_the_value_but_in_1_0() -> None:
    frame = Frame("CONNECT", b"passcode: secret ", b"")
    assert frame.headers(V1_2) == {"passcode": " secret "}
    assert frame.headers(V1_0) == {"passcode": "secret"}


def test_a_frame_is_written_with_content_length_nul_and_lf() -> None:
    for version in Version:
        written = encode("MESSAGE", [("subscription", "0")], b"a\0b", version)
        assert written == b"MESSAGE\nsubscription:0\ncontent-length:3\n\na\0b\0\n"


def test_a_frame_without_body_has_no_content_length() -> None:
    assert encode("RECEIPT", [("receipt-id", "1")], b"", V1_2) == b"RECEIPT\nreceipt-id:1\n\n\0\n"
    assert encode("DISCONNECT", [], b"", V1_2) == b"DISCONNECT\n\n\0\n"


def test_header_lines_passed_on_follow_ours() -> None:
    written = encode("MESSAGE", [("ack", "7")], b"hi", V1_2, block=b"x:a\\cb\ny:2")
    assert written == b"MESSAGE\nack:7\ncontent-length:2\nx:a\\cb\ny:2\n\nhi\0\n"


@pytest.mark.parametrize(
    "block", [b"content-length:9", b"content-length:9\nx:1", b"x:1\ncontent-length:9"]
)
def test_content_length_is_the_encoders_alone(block: bytes) -> None:
    rest = [line for line in block.split(b"\n") if line == b"x:1"]
    written = encode("MESSAGE", [("content-length", "1"), ("a", "b")], b"hi", V1_2, block=block)
    head = b"\n".join([b"MESSAGE", b"a:b", b"content-length:2", *rest])
    assert written == head + b"\n\nhi\0\n"
    assert encode("MESSAGE", [], b"", V1_2, block=b"content-length:9") == b"MESSAGE\n\n\0\n"


def test_login_answers_are_written_without_escapes() -> None:
    written = encode("CONNECTED", [("session", "a:b\\\nx:1")], b"", V1_2)
    assert written == b"CONNECTED\nsession:a:b\\ x:1\n\n\0\n"


# Header text: escapes per version, the character set, what cannot be said.


def test_the_first_of_repeated_headers_counts() -> None:
    for version in Version:
        assert parse_block(b"x:1\ny:2\nx:3", version) == {"x": "1", "y": "2"}


def test_an_empty_block_has_no_headers() -> None:
    assert parse_block(b"", V1_2) == {}


def test_the_first_colon_ends_the_name() -> None:
    for version in Version:
        assert parse_block(b"x:a:b:", version) == {"x": "a:b:"}
        assert parse_block(b"x:", version) == {"x": ""}


def test_blanks_around_a_value_count_but_in_1_0() -> None:
    assert parse_block(b"x: \ta b\t ", V1_0) == {"x": "a b"}
    assert parse_block(b"x: \ta b\t ", V1_1) == {"x": " \ta b\t "}
    assert parse_block(b"x: a \\c", V1_2) == {"x": " a :"}
    assert parse_block(b"x:\xc2\xa0a", V1_0) == {"x": "\xa0a"}


@pytest.mark.parametrize(
    ("version", "block", "expected"),
    [
        (V1_0, b"x:\\n\\c\\\\\\r\\t\\", {"x": "\\n\\c\\\\\\r\\t\\"}),
        (V1_1, b"x:\\n\\c\\\\", {"x": "\n:\\"}),
        (V1_2, b"x:\\n\\c\\\\\\r", {"x": "\n:\\\r"}),
        (V1_2, b"x:\\\\n", {"x": "\\n"}),
        (V1_2, b"a\\cb:1\na:2", {"a:b": "1", "a": "2"}),
    ],
)
def test_escapes_are_read_as_the_version_says(
    version: Version, block: bytes, expected: dict[str, str]
) -> None:
    assert parse_block(block, version) == expected


@pytest.mark.parametrize("version", [V1_1, V1_2])
@pytest.mark.parametrize("text", [b"\\t", b"\\", b"a\\\\\\", b"\\N", b"\\0", b"\\\xc3\xa4"])
def test_an_undefined_escape_is_refused(version: Version, text: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"undefined escape .* header 'x'"):
        parse_block(b"x:" + text, version)
    with pytest.raises(ProtocolError, match="undefined escape"):
        parse_block(text + b":1", version)
    assert parse_block(b"x:" + text, version, is_escaped=False) == {"x": text.decode()}


def test_cr_has_an_escape_in_1_2_only() -> None:
    with pytest.raises(ProtocolError, match="undefined escape"):
        parse_block(b"x:\\r", V1_1)


@pytest.mark.parametrize("line", [b"", b"x", b":", b":x", b"\r"])
def test_a_line_without_name_or_colon_is_refused_by_number(line: bytes) -> None:
    for version in Version:
        with pytest.raises(ProtocolError, match="header line 2 is not a name"):
            parse_block(b"a:1\n" + line + b"\nb:2", version)


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80"])
def test_headers_that_are_not_utf_8_are_refused_by_number(text: bytes) -> None:
    for version in Version:
        with pytest.raises(ProtocolError, match="header line 2 is not UTF-8"):
            parse_block(b"a:1\nb:" + text + b"\nc:2", version)


@pytest.mark.parametrize(
    ("version", "written"),
    [(V1_0, b"a:b\\    "), (V1_1, b"a\\cb\\\\\\n\r  "), (V1_2, b"a\\cb\\\\\\n\\r  ")],
)
def test_escape_writes_what_the_version_can_carry(version: Version, written: bytes) -> None:
    assert escape("a:b\\\n\r\0 ", version) == written


def test_a_1_0_name_cannot_hold_colon_or_line_end() -> None:
    assert header_lines([("a:b\nc\rd\0e", "1")], V1_0) == b"\na b c d e:1"


def test_a_header_without_name_is_left_out() -> None:
    for version in Version:
        assert header_lines([("", "1"), ("a", "x:y"), ("", "")], version).startswith(b"\na:x")
        assert header_lines([("", "1")], version) == b""


def test_content_length_is_taken_out_of_a_block_wherever_it_stands() -> None:
    assert without_length(b"x:1\ny:content-length:2") == b"x:1\ny:content-length:2"
    assert without_length(b"content-length:1\nx:1\ncontent-length:2\ncontent-length:3") == b"x:1"


TEXT = st.text(max_size=12) | st.text(alphabet="a:\\\n\r\0 cn", max_size=8)
HEADERS = st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=6)
VERSIONS = st.sampled_from(Version)


def as_carried(text: str, version: Version, *, is_name: bool) -> str:
    """What must arrive: all of it, but for what the version has no way to say."""
    lost = {V1_0: "\n\r\0:" if is_name else "\n\r\0", V1_1: "\0", V1_2: "\0"}[version]
    carried = "".join(" " if character in lost else character for character in text)
    return carried.strip(" \t") if version is V1_0 and not is_name else carried


@given(HEADERS, st.binary(max_size=20), VERSIONS)
def test_what_is_encoded_is_parsed_again(
    headers: list[tuple[str, str]], body: bytes, version: Version
) -> None:
    parser = FrameParser(Limits())
    parser.version = version
    parser.feed(encode("MESSAGE", headers, body, version))
    frame = parser.next_frame()
    assert frame is not None
    assert parser.next_frame() is None
    assert (parser.buffered, frame.command, frame.body) == (0, "MESSAGE", body)
    expected: dict[str, str] = {}
    for name, value in headers:
        carried = as_carried(name, version, is_name=True)
        expected.setdefault(carried, as_carried(value, version, is_name=False))
    found = frame.headers(version)
    assert found.pop("content-length", None) == (str(len(body)) if body else None)
    assert found == expected


@given(st.binary(max_size=60), VERSIONS, st.booleans())
def test_any_block_gives_headers_or_a_protocol_error(
    block: bytes, version: Version, is_escaped: bool
) -> None:
    try:
        headers = parse_block(block, version, is_escaped=is_escaped)
    except ProtocolError:
        return
    assert all(headers)
