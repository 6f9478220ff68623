"""Portions: a flood of tiny frames leaves a turn to everybody else after each few of them."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypercorn.events import Event
from hypercorn.protocol import ProtocolWrapper

from covey.protocols.http.server import PORTION, Portions
from tests.protocols.http.support import run, served
from tests.protocols.http.test_server import H2_PING, H2_PREFACE, H2_SETTINGS, UPGRADE
from tests.protocols.test_connection import until

FLOOD = 20 * PORTION
BEGUN = bytes.fromhex("018100000000") + b"C"  # a text message whose other parts follow
EMPTY_PART = bytes.fromhex("008000000000")
WS_PING = bytes.fromhex("898000000000")


def test_others_have_a_turn_before_each_portion_though_all_bytes_are_there() -> None:
    async def test() -> None:
        whole = asyncio.StreamReader()
        whole.feed_data(bytes(FLOOD))
        whole.feed_eof()
        reader, turns = Portions(whole), 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            sizes = []
            while not reader.at_eof():
                before = turns
                sizes.append(len(await reader.read(65536)))
                assert turns > before
            tasks.cancel_scope.cancel()
        assert sum(sizes) == FLOOD
        assert max(sizes) == PORTION

    run(test)


def test_a_shorter_read_gets_no_more_than_it_asks_for() -> None:
    async def test() -> None:
        whole = asyncio.StreamReader()
        whole.feed_data(b"abcdef")
        reader = Portions(whole)
        assert [await reader.read(2), await reader.read()] == [b"ab", b"cdef"]

    run(test)


@pytest.mark.parametrize(
    ("opening", "frame"),
    [(UPGRADE, EMPTY_PART), (UPGRADE, WS_PING), (H2_PREFACE + H2_SETTINGS, H2_PING)],
    ids=["parts of a message", "pings of a WebSocket", "pings of HTTP/2"],
)
def test_a_flood_of_the_smallest_frames_is_read_in_portions(opening: bytes, frame: bytes) -> None:
    async def test() -> None:
        async with served() as server:
            host, _, port = server.address.rpartition(":")
            async with await anyio.connect_tcp(host, int(port)) as peer:
                await peer.send(opening)
                await peer.receive()
                (idle,) = server.listener.connections.values()
                given = heard(idle.server.protocol)
                await peer.send((BEGUN if frame is EMPTY_PART else b"") + frame * (FLOOD // 6))
                await until(lambda: sum(given) >= FLOOD // 6 * len(frame))
                assert max(given) <= PORTION

    run(test)


def heard(protocol: ProtocolWrapper) -> list[int]:
    """Note how many bytes hypercorn takes at once."""
    sizes: list[int] = []
    handle = protocol.handle

    async def note(event: Event) -> None:
        sizes.append(len(getattr(event, "data", b"")))
        await handle(event)

    protocol.handle = note  # type: ignore[method-assign]
    return sizes
