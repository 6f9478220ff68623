"""Frames: how their headers are read, how they are written."""

from __future__ import annotations

import pytest

from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.streams import V1_0, V1_2


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
