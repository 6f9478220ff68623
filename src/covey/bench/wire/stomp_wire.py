"""Wire: STOMP's bytes of the load, written before the clock starts and checked after it stops.

Each body begins with a stamp of the group and the number within the group, padded to the size:

    000007:00000042xxxxxxxx...

So completeness and order are checked after the run. During the run the generator only counts NULs
and cuts out the ids for acknowledgements. Bodies never hold a NUL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from covey.bench.wire.link import IncompleteError

ACK_ID = re.compile(rb"\nack:([^\n]*)\n")
STAMP = re.compile(rb"(\d{6}):(\d{8})x")
STAMP_LENGTH = 15

LOGIN = b"CONNECT\naccept-version:1.2\nhost:%s\nlogin:%s\npasscode:%s\nheart-beat:0,0\n\n\0"


def login(host: str, user: str, password: str) -> bytes:
    """Write the CONNECT frame."""
    return LOGIN % (host.encode(), user.encode(), password.encode())


def subscribe(destination: str, ack: str, credit: int) -> bytes:
    """Return the SUBSCRIBE frame with a receipt, and the credit under each broker's name for it."""
    headers = [f"destination:{destination}", "id:1", f"ack:{ack}", "receipt:subscribed"]
    if credit:
        headers += [f"prefetch-count:{credit}", f"activemq.prefetchSize:{credit}"]
    return ("SUBSCRIBE\n" + "\n".join(headers) + "\n\n\0").encode()


def body(count: int, size: int, groups: int = 0) -> Iterator[bytes]:
    """Yield the bodies of `count` messages, assigned to the groups in turn."""
    filler = b"x" * (size - STAMP_LENGTH)
    for number in range(count):
        group, place = (number % groups, number // groups) if groups else (0, number)
        yield b"%06d:%08d%s" % (group, place, filler)


def send_frames(
    destination: str, count: int, size: int, groups: int, header: bytes = b""
) -> list[bytes]:
    """Return `count` SEND frames, assigned to the groups in turn (0: no groups)."""
    head = b"SEND\n%sdestination:%s" % (header, destination.encode())
    frames = []
    for number, content in enumerate(body(count, size, groups)):
        group = number % groups if groups else 0
        named = b"\nJMSXGroupID:g%d\nmessage_group:g%d" % (group, group) if groups else b""
        frames.append(b"%s%s\ncontent-length:%d\n\n%s\0" % (head, named, size, content))
    return frames


def acks(frames: bytes) -> bytes:
    """Return the ACK of every MESSAGE in `frames`."""
    ids = ACK_ID.findall(frames)
    if not ids:
        return b""
    return b"ACK\nid:" + b"\n\n\0ACK\nid:".join(ids) + b"\n\n\0"


def check(arrived: Iterable[bytes], count: int, groups: int, *, is_ordered: bool = True) -> None:
    """Raise IncompleteError unless every message came once, each group's in order.

    With competing consumers and no groups there is no order to keep (`is_ordered` False).
    """
    numbers: list[list[int]] = [[] for _ in range(groups or 1)]
    for frames in arrived:
        for group, number in STAMP.findall(frames):
            numbers[int(group)].append(int(number))
    for group_number, found in enumerate(numbers):
        expected = range(group_number, count, groups) if groups else range(count)
        _check_group(f"group {group_number}", found, len(expected), is_ordered=is_ordered)


def _check_group(name: str, found: Sequence[int], expected: int, *, is_ordered: bool) -> None:
    if sorted(found) != list(range(expected)):
        raise IncompleteError(
            f"{name}: {len(found)} messages arrived, {len(set(found))} different ones,"
            f" of {expected} sent"
        )
    if is_ordered and any(later < earlier for earlier, later in pairwise(found)):
        raise IncompleteError(f"{name}: its messages arrived out of order")
