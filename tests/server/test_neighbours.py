"""Neighbours: workers hear each other, and nobody waits for ever for one that is not there."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest
import structlog

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.protocols.doorman import Passed
from covey.protocols.engine import Peer
from covey.protocols.passing import WAIT_S, Stream
from covey.protocols.relay import Relay
from covey.server.dealing import Seat
from covey.server.neighbours import Neighbours
from tests.doubles import make_directory

TIMEOUT_S = 10.0
PEER = Peer("192.0.2.1", 4711, is_loopback=False, socket_buffer=65536)
LOG = structlog.get_logger()


class Caught:
    """An adoption that only looks at what it gets."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.passed: list[tuple[str, Passed]] = []
        self.came = anyio.Event()

    async def adopt(self, raw: socket.socket, connector: str, passed: Passed) -> None:
        self.sockets.append(raw)
        self.passed.append((connector, passed))
        self.came.set()


def play(scenario: Callable[[Neighbours, Neighbours], Awaitable[None]], *, serves: bool) -> None:
    """Let worker 0, who calls, and worker 1, who may be there or not, play something."""

    async def main() -> None:
        table = {"one": 0, "two": 1}
        caller = Neighbours(seat := Seat(0, 2, table), LOG)
        owner = Neighbours(Seat(1, 2, table, seat.name), LOG)
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                if serves:
                    tasks.start_soon(owner.serve, owner.bind())
                await scenario(caller, owner)
                tasks.cancel_scope.cancel()

    anyio.run(main, backend_options={"use_uvloop": True})


@pytest.mark.parametrize("size", [0, 10, 300_000])  # the last one is more than a socket takes
def test_a_socket_goes_to_the_owner_with_what_was_read(size: int) -> None:
    passed = Passed("two", PEER, 0.25, {"user": "ann"}, bytes(size))

    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        caught = Caught()
        owner.adoption = caught  # type: ignore[assignment]
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                assert await caller.send_socket("stomp", passed, theirs)
            await caught.came.wait()
            assert caught.passed == [("stomp", passed)]
            with caught.sockets[0] as received:
                received.sendall(b"hello")
                assert ours.recv(10) == b"hello"

    play(scenario, serves=True)


def test_what_must_be_copied_has_a_stream_to_the_owner() -> None:
    passed = Passed("two", PEER, 0.0, {}, b"read")

    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        caught = Caught()
        owner.adoption = caught  # type: ignore[assignment]
        relay = Relay("", LOG, make_directory(Settings()))
        await caller.connect("stomp", passed, relay.upstream)
        await caught.came.wait()
        relay.receive(b"more", 0.0)
        with caught.sockets[0] as received:
            assert await asyncio.get_running_loop().sock_recv(received, 10) == b"more"
        relay.lost(0.0)

    play(scenario, serves=True)


def test_a_request_is_answered_by_the_port_of_the_same_name() -> None:
    async def answer(connector: str, stream: Stream) -> None:
        reader, writer = stream
        writer.write(connector.encode() + await reader.readexactly(3))
        writer.close()

    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        owner.adoption = Caught()  # type: ignore[assignment]
        owner.answer = answer
        reader, writer = await caller.open_stream("1", "http")
        writer.write(b"who")
        assert await reader.read() == b"httpwho"
        writer.close()

    play(scenario, serves=True)


def test_news_are_heard_and_answered() -> None:
    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        owner.adoption = Caught()  # type: ignore[assignment]
        owner.hear = lambda news: news[::-1]
        assert await caller.tell(1, b"news") == b"swen"

    play(scenario, serves=True)


def test_who_is_away_is_waited_for_and_then_unavailable() -> None:
    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        began = time.monotonic()
        with pytest.raises(RefusedError) as caught:
            await caller.open_stream("1", "http")
        assert caught.value.code == "unavailable"
        assert WAIT_S - 0.5 < time.monotonic() - began < TIMEOUT_S

    play(scenario, serves=False)


def test_who_hangs_is_given_up() -> None:
    async def scenario(caller: Neighbours, owner: Neighbours) -> None:
        with owner.bind(), pytest.raises(RefusedError, match="two is not served now"):  # no word
            await caller.send_socket("stomp", Passed("two", PEER, 0.0, {}, b""), socket.socket())

    play(scenario, serves=False)


def test_the_table_says_who_is_asked() -> None:
    seat = Seat(1, 3, {"one": 0, "two": 1, "three": 2})
    worker = Neighbours(seat, LOG)
    assert [worker.place_of(space) for space in ("one", "two", "three")] == ["0", "", "2"]
    assert (worker.here, worker.home, worker.places) == ("1", "0", ["0", "2"])
    assert Neighbours(Seat(0, 3, seat.table), LOG).home == ""
    assert [worker.is_elsewhere(space) for space in ("one", "two", "four")] == [True, False, False]
