"""Parsing for tests: a stream in one piece or byte by byte, frames as plain tuples."""

from __future__ import annotations

from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2

Fields = tuple[str, bytes, bytes]


def fields(frame: Frame) -> Fields:
    return frame.command, frame.block, frame.body


def drain(parser: FrameParser) -> list[Fields]:
    found = []
    while (frame := parser.next_frame()) is not None:
        found.append(fields(frame))
    return found


def parse(data: bytes, version: Version = V1_2, limits: Limits | None = None) -> list[Fields]:
    parser = FrameParser(limits or Limits())
    parser.version = version
    parser.feed(data)
    return drain(parser)


def parse_bytewise(
    data: bytes, version: Version = V1_2, limits: Limits | None = None
) -> list[Fields]:
    parser = FrameParser(limits or Limits())
    parser.version = version
    found = []
    for at in range(len(data)):
        parser.feed(data[at : at + 1])
        found += drain(parser)
    return found
