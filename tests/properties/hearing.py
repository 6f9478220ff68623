"""Hearing: what a client was told, whatever the order in which independent things were said.

How a client's bytes are cut on their way decides what the broker does in one turn, so what is told
of different subscriptions, links and deliveries may come one before the other or after it, and
settlements of AMQP may be joined to ranges or not. What is told of one thing must be the same.
"""

from __future__ import annotations

import struct

from covey.protocols.amqp.codec import decoder
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version
from tests.e2e.amqp_bytes import AMQP_HEADER, DISPOSITION, FLOW, HEADER_SIZE, TRANSFER
from tests.properties.stage import FAULT

# What does not belong to one subscription alone: the number by which to acknowledge, and whether a
# group is new to its consumer, which depends on whether it was free for a moment.
SHARED = (b"ack:", b"JMSXGroupFirstForConsumer:")

Hearing = dict[tuple[object, ...], list[object]]


def understood(protocol: str, heard: bytes) -> Hearing:
    """Return what was told of each thing, in order."""
    told, _, fault = heard.partition(FAULT)
    found = of_stomp(told) if protocol == "stomp" else of_amqp(told)
    if fault:
        found[("fault",)] = [fault]
    return found


def of_stomp(heard: bytes) -> Hearing:
    """Sort frames by what they are of: a subscription and a group, or a kind of frame."""
    parser = FrameParser(Limits())
    parser.version = Version.V1_2
    parser.feed(heard)
    found: Hearing = {}
    while (frame := parser.next_frame()) is not None:
        lines = frame.block.split(b"\n")
        of = [line for line in lines if line.startswith((b"subscription:", b"message_group:"))]
        rest = [line for line in lines if not line.startswith(SHARED)]
        found.setdefault((frame.command, *of), []).append((rest, frame.body))
    return found


def of_amqp(heard: bytes) -> Hearing:
    """Sort frames by what they are of: a link, a delivery, or a kind of frame."""
    found: Hearing = {}
    at = 0
    while at < len(heard):
        if heard.startswith(AMQP_HEADER[:4], at):
            at += HEADER_SIZE
            continue
        size, _, _, channel = struct.unpack_from(">IBBH", heard, at)
        body = heard[at + HEADER_SIZE : at + size]
        at += size
        if body:
            _sort(found, channel, body)
    return found


def _sort(found: Hearing, channel: int, body: bytes) -> None:
    frame = decoder.decode(body)
    assert isinstance(frame, decoder.Described) and isinstance(frame.value, list)
    code, fields = frame.descriptor, frame.value
    if code == TRANSFER:
        payload = body[3 + 2 + body[4] :]
        found.setdefault(("link", channel, fields[0]), []).append(payload)
    elif code == DISPOSITION:
        role, first, last, settled, state = (*fields, None, None)[:5]
        for number in range(first, (first if last is None else last) + 1):
            found.setdefault(("delivery", channel, role, number), []).append((settled, said(state)))
    elif code != FLOW:
        found.setdefault((code, channel), []).append([said(field) for field in fields])


def said(value: object) -> object:
    """Make a value that compares by what it says."""
    if isinstance(value, decoder.Described):
        return (said(value.descriptor), said(value.value))
    if isinstance(value, dict):
        return [(said(name), said(each)) for name, each in value.items()]
    return [said(each) for each in value] if isinstance(value, list) else value
