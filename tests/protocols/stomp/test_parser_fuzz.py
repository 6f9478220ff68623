"""The frame parser against anything: cut anyhow, mutated anyhow."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version

# (frames found, text of the error that ended it or "")
Outcome = tuple[list[tuple[str, bytes, bytes]], str]


def small_limits(frame_length_max: int = 0) -> Limits:
    return Limits(
        header_length_max=24, headers_max=4, body_length_max=40, frame_length_max=frame_length_max
    )


# What a parser with small limits may hold: the command line, the header lines, the body.
HELD_MAX = (32 + 2) + 4 * (24 + 2) + (24 + 2) + 2 + 40


def run(chunks: list[bytes], version: Version, limits: Limits) -> Outcome:
    parser = FrameParser(limits)
    parser.version = version
    frames: list[tuple[str, bytes, bytes]] = []
    try:
        for chunk in chunks:
            parser.feed(chunk)
            frame = parser.next_frame()
            while frame is not None:
                frames.append((frame.command, frame.block, frame.body))
                frame = parser.next_frame()
            assert parser.buffered <= HELD_MAX
    except ProtocolError as error:
        return frames, error.text
    return frames, ""


PIECES = st.sampled_from(
    [
        *[b"SEND\n", b"CONNECT\n", b"ACK\r\n", b"SEND\nx:1\n\n", b"CONNECT\n\nlogin:a\n\n\0"],
        *[b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\0", b"\0\n", b":", b"\xff", b"abc"],
        *[b"content-length:3\n", b"content-length:40\n", b"content-length:41\r\n"],
        *[b"content-length: 1\n", b"content-length:-1\n", b"x:1\n", b"x:1\r\n"],
        *[b"x:" + b"a" * 22, b"x:" + b"a" * 23, b"b" * 40, b"S" * 33],
    ]
)
STREAMS = st.lists(PIECES | st.binary(max_size=3), max_size=16).map(b"".join)
VERSIONS = st.sampled_from(Version)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[edges[i] : edges[i + 1]] for i in range(len(edges) - 1)]


@given(STREAMS, VERSIONS, st.lists(st.integers(0, 500), max_size=6))
def test_the_cut_into_chunks_changes_neither_frames_nor_error(
    data: bytes, version: Version, places: list[int]
) -> None:
    whole = run([data], version, small_limits())
    assert run(cut(data, places), version, small_limits()) == whole
    assert run([data[i : i + 1] for i in range(len(data))], version, small_limits()) == whole


@given(STREAMS, VERSIONS, st.integers(1, 80))
def test_the_cut_does_not_matter_under_a_frame_limit_either(
    data: bytes, version: Version, frame_length_max: int
) -> None:
    # With two limits broken in one line it is open which one is named.
    limits = small_limits(frame_length_max)
    frames, error = run([data], version, limits)
    bytewise, bytewise_error = run([data[i : i + 1] for i in range(len(data))], version, limits)
    assert bytewise == frames
    assert bool(bytewise_error) == bool(error)
    for command, block, body in frames:
        assert len(command) + len(block) + len(body) < frame_length_max


SAMPLES = [
    b"CONNECT\naccept-version:1.2\nhost:a\n\n\0\n",
    b"CONNECT\n\nlogin:admin\npasscode:b\n\n\0",
    b"SEND\ndestination:/queue/a\n\nhello\0\n\n",
    b"SEND\r\ndestination:/queue/a\r\ncontent-length:5\r\n\r\nhe\0lo\0\r\n",
    b"SEND\nx:a\\cb\ny:\\n\\\\\nz:\xc3\xa4\n\n\0ACK\nid:1\n\n\0",
    b"SUBSCRIBE\nid:0\ndestination:/q\nack:client\n\n\0\nBEGIN\ntransaction:t\n\n\0",
]
TOKENS = [
    b"\n",
    b"\0",
    b"\r\n",
    b":",
    b"\\",
    b"content-length:",
    b"-1",
    b"9" * 20,
    b"\n\n",
    b"\xff",
]
MUTATED_INPUTS = 200_000


def mutate(data: bytes, random: Random) -> bytes:
    """Change one to three places: a byte, a token more, a part less, a part twice."""
    for _ in range(int(random.random() * 3) + 1):
        at = int(random.random() * (len(data) + 1))
        kind = int(random.random() * 4)
        if kind == 0:
            data = data[:at] + bytes((int(random.random() * 256),)) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + TOKENS[int(random.random() * len(TOKENS))] + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + int(random.random() * 12) :]
        else:
            data = data[:at] + data[max(at - 20, 0) :]
    return data


def header_error(frame: Frame, version: Version) -> str:
    try:
        frame.headers(version)
    except ProtocolError as error:
        return error.text
    return ""


@pytest.mark.slow
def test_mutated_streams_raise_nothing_but_protocol_errors_and_hold_little() -> None:
    random = Random(61613)
    versions = list(Version)
    limit_sets = [small_limits(), small_limits(64), Limits()]
    frames_seen = errors_seen = 0
    for number in range(MUTATED_INPUTS):
        data = mutate(SAMPLES[number % len(SAMPLES)], random)
        at = int(random.random() * len(data))
        version = versions[number % 3]
        limits = limit_sets[number // 3 % 3]
        frames, error = run([data[:at], data[at:]], version, limits)
        for command, block, body in frames:
            error = error or header_error(Frame(command, block, body), version)
        frames_seen += len(frames)
        errors_seen += bool(error)
    # Both outcomes must be common, or the mutations do not test much.
    assert frames_seen > MUTATED_INPUTS // 4
    assert errors_seen > MUTATED_INPUTS // 4
