"""PROXY protocol version 2: who is really at the other end, as a load balancer tells it.

    signature(12)  version and command(1)  family(1)  length(2)  addresses, then whatever else

A port with `proxy_protocol = true` expects such a head before everything else, also before a TLS
handshake. Exactly the head is read, so the bytes that follow are those of a direct connection. A
connection without a head is closed. Whoever can reach the port can invent a head, so such a port
must be reachable for the load balancer alone.

The command LOCAL marks the load balancer's own connection, a health check. Then the peer is the
load balancer itself. A peer behind a load balancer never counts as local to this machine.

Source: HAProxy's "The PROXY protocol", section 2.2.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from covey.core.errors import ProtocolError

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
HEAD_SIZE: Final = 16
LENGTH_MAX: Final = 4096  # bytes after the head: addresses, and fields, most of them not read here

LOCAL: Final = 0x20
PROXY: Final = 0x21
FAMILIES: Final = {0x11: 4, 0x21: 16}  # TCP over IPv4 and IPv6, with the size of an address


Fields = Sequence[tuple[int, bytes]]  # kind and content of each field after the addresses


class Source(NamedTuple):
    """Where a connection comes from."""

    host: str
    port: int


def rest_size(head: bytes) -> int:
    """Return how many bytes follow a head of HEAD_SIZE; raises ProtocolError if `head` is none."""
    if not head.startswith(SIGNATURE):
        raise ProtocolError("no PROXY protocol version 2 head: is it the load balancer's port?")
    length = int.from_bytes(head[14:HEAD_SIZE], "big")
    if length > LENGTH_MAX:
        raise ProtocolError(f"a PROXY head of {length} bytes, at most {LENGTH_MAX} are read")
    return length


def source_of(head: bytes, rest: bytes) -> Source | None:
    """Return who is behind the load balancer; None for the load balancer itself.

    Raises ProtocolError if the head makes no sense.
    """
    command, family = head[12], head[13]
    if command == LOCAL:
        return None
    if command != PROXY:
        raise ProtocolError(f"a PROXY head of an unknown version or command: {command:#04x}")
    size = FAMILIES.get(family)
    if size is None:
        return None  # another address family: the load balancer does not know the address
    if len(rest) < 2 * size + 4:
        raise ProtocolError("a PROXY head without its addresses")
    at = 2 * size
    return Source(str(ipaddress.ip_address(rest[:size])), int.from_bytes(rest[at : at + 2], "big"))


def field_of(head: bytes, rest: bytes, kind: int) -> bytes:
    """Return the content of the field of this kind after the addresses; b"" if there is none."""
    at = 2 * FAMILIES.get(head[13], 0) + 4
    while at + 3 <= len(rest):
        size = int.from_bytes(rest[at + 1 : at + 3], "big")
        if rest[at] == kind:
            return rest[at + 3 : at + 3 + size]
        at += 3 + size
    return b""


def write_head(source: Source, target: Source, fields: Fields = ()) -> bytes:
    """Write the head of a connection from `source` to `target`, with further fields."""
    addresses = [ipaddress.ip_address(each.host) for each in (source, target)]
    family = 0x11 if all(each.version == 4 for each in addresses) else 0x21
    packed = b"".join(
        [each.packed.rjust(FAMILIES[family], b"\0") for each in addresses]
    ) + b"".join([each.port.to_bytes(2, "big") for each in (source, target)])
    for kind, value in fields:
        packed += bytes((kind,)) + len(value).to_bytes(2, "big") + value
    return SIGNATURE + bytes((PROXY, family)) + len(packed).to_bytes(2, "big") + packed
