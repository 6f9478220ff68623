"""Portions: a flood of tiny frames leaves a turn to everybody else after each few of them."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypercorn.events import Event
from hypercorn.protocol import ProtocolWrapper

from covey.protocols.http.server import FRAMES_MAX, PORTION, Frames, Portions
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


def frames_of(sizes: list[int]) -> bytes:
    return b"".join([size.to_bytes(3, "big") + bytes(6) + b"x" * size for size in sizes])


def cut(data: bytes, steps: list[int]) -> list[bytes]:
    """Cut bytes into portions, as they come in reads of these sizes."""
    frames, found, step = Frames(), [], 0
    while data:
        some = data[: steps[step % len(steps)]]
        step += 1
        size = frames.portion(some)
        found.append(some[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize("steps", [[8192], [1], [7], [5, 30, 1, 400]])
def test_a_portion_of_http_2_has_a_few_frames_however_small_they_are(steps: list[int]) -> None:
    sizes = [0, 1, 4, 300, 0, 0, 8, 5] * 40
    data = H2_PREFACE + frames_of(sizes)
    found = cut(data, steps)
    assert b"".join(found) == data
    ends, at = set(), len(H2_PREFACE)
    for size in sizes:
        at += 9 + size
        ends.add(at)
    at = 0
    for portion in found:
        ended = [end for end in ends if at < end <= at + len(portion)]
        assert len(ended) <= FRAMES_MAX
        at += len(portion)


@pytest.mark.parametrize("opening", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/1.1\r\n", b"P", b""])
def test_other_protocols_have_no_frames(opening: bytes) -> None:
    data = opening + bytes(3000)
    assert cut(data, [1000]) == [data[at : at + 1000] for at in range(0, len(data), 1000)]


def test_a_flood_of_requests_that_are_taken_back_leaves_turns_to_others() -> None:
    async def test() -> None:
        async with served() as server:
            host, _, port = server.address.rpartition(":")
            async with await anyio.connect_tcp(host, int(port)) as peer:
                await peer.send(H2_PREFACE + H2_SETTINGS)
                await peer.receive()
                (idle,) = server.listener.connections.values()
                given = heard(idle.server.protocol)
                flood = b"".join([taken_back(number) for number in range(400)])
                await peer.send(flood)
                await until(lambda: sum(given) >= len(flood))
                assert max(given) <= FRAMES_MAX * len(taken_back(0)) // 2

    run(test)


def taken_back(number: int) -> bytes:
    """Return a request and its reset."""
    stream = (2 * number + 1).to_bytes(4, "big")
    ask = bytes.fromhex("828684410178")  # GET / of the host x
    head = len(ask).to_bytes(3, "big") + b"\x01\x05" + stream + ask
    return head + bytes.fromhex("0000040300") + stream + bytes.fromhex("00000008")
