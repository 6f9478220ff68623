"""TLS between a socket and a connection: what is kept, and when the socket is read."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from covey.protocols.connection import Connection
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.tls import WRITE_SIZE, Secured, make_context
from tests.protocols.support import SilentEngine
from tests.protocols.test_tls_context import NAME, Authority

READ_SIZE = 16384
OVERHEAD = 1.01  # of records


class Socket(asyncio.Transport):
    """A socket's transport that keeps what is written until a test takes it."""

    def __init__(self, upper: Secured) -> None:
        super().__init__()
        self.upper = upper
        self.kept = b""
        self.is_full = False  # the peer does not read
        self.is_read = True
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.kept += data
        if self.is_full:
            self.upper.pause_writing()

    def take(self) -> bytes:
        """Take all, as a peer that reads again does."""
        data, self.kept = self.kept, b""
        self.upper.resume_writing()
        return data

    def get_write_buffer_size(self) -> int:
        return len(self.kept) if self.is_full else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_over

    def write_eof(self) -> None:
        self.is_over = True

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True


class Ends:
    """Both ends of a secured socket, in memory, after the handshake."""

    def __init__(self, authority: Authority) -> None:
        self.buffer = memoryview(bytearray(READ_SIZE))
        self.engine = SilentEngine()
        self.connection = Connection(
            self.engine,
            structlog.get_logger(),
            buffers=ReadBuffers(READ_SIZE),
            write_timeout_s=60.0,
            ended=lambda _: None,
        )
        self.secured = Secured(
            make_context(authority.settings()),
            buffer=self.buffer,
            timeout_s=10.0,
            secured=lambda secured: secured.join(self.connection),
            failed=lambda _, cause: pytest.fail(str(cause)),
        )
        self.socket = Socket(self.secured)
        self.secured.connection_made(self.socket)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.peer = authority.client().wrap_bio(self.incoming, self.outgoing, server_hostname=NAME)
        for _ in range(3):
            try:
                self.peer.do_handshake()
            except ssl.SSLWantReadError:
                pass
            self.carry()
        self.hear()

    def carry(self) -> None:
        """Carry bytes both ways, to the broker a buffer's worth at a time while it reads."""
        while self.socket.is_read and self.outgoing.pending:
            data = self.outgoing.read(READ_SIZE)
            self.secured.get_buffer(-1)[: len(data)] = data
            self.secured.buffer_updated(len(data))
        if self.socket.kept and not self.socket.is_full:
            self.incoming.write(self.socket.take())

    def hear(self) -> bytes:
        """Return what the peer can decrypt."""
        heard = b""
        try:
            while True:
                heard += self.peer.read(READ_SIZE)
        except ssl.SSLWantReadError:
            return heard


def play(authority: Authority, scene: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        ends = Ends(authority)
        await turn()
        await scene(ends)
        ends.secured.abort()

    asyncio.run(main())


async def turn() -> None:
    """Let the loop do what waits."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_only_as_much_is_encrypted_as_the_socket_takes(authority: Authority) -> None:
    async def scene(ends: Ends) -> None:
        size = 10 * WRITE_SIZE
        ends.engine.outbox = b"x" * size
        ends.socket.is_full = True
        ends.engine.wake()
        await turn()
        heard = 0
        for piece in range(10):
            assert WRITE_SIZE < len(ends.socket.kept) < WRITE_SIZE * OVERHEAD
            waiting = ends.secured.get_write_buffer_size()
            assert waiting >= size - piece * WRITE_SIZE
            ends.engine.outbox = b"more"  # is not asked for yet
            ends.engine.wake()
            await turn()
            assert ends.engine.outbox == b"more"
            ends.incoming.write(ends.socket.take())
            heard += len(ends.hear())
        assert heard == size
        ends.socket.is_full = False
        await turn()
        assert ends.engine.outbox == b""

    play(authority, scene)


def test_the_socket_is_not_read_while_the_engine_does_not(authority: Authority) -> None:
    async def scene(ends: Ends) -> None:
        ends.engine.reading = False
        ends.engine.wake()
        await turn()
        assert not ends.socket.is_read
        ends.peer.write(b"x" * 10 * READ_SIZE)
        ends.carry()
        assert ends.engine.heard == b""
        ends.engine.reading = True
        ends.engine.wake()
        for _ in range(20):
            await turn()
            ends.carry()
        assert ends.engine.heard == b"x" * 10 * READ_SIZE

    play(authority, scene)


def test_a_full_buffer_stops_reading_until_the_next_turn(authority: Authority) -> None:
    async def scene(ends: Ends) -> None:
        ends.peer.write(b"x" * 10 * READ_SIZE)
        for _ in range(9):
            ends.carry()
            assert not ends.socket.is_read
            await turn()
            assert ends.socket.is_read
        ends.carry()
        ends.carry()
        await turn()
        ends.carry()
        assert ends.engine.heard == b"x" * 10 * READ_SIZE

    play(authority, scene)


def test_bytes_that_are_no_tls_end_it_without_a_word(authority: Authority) -> None:
    async def scene(ends: Ends) -> None:
        ends.secured.get_buffer(-1)[:5] = b"12345"
        ends.secured.buffer_updated(5)
        assert ends.socket.is_over
        assert ends.engine.heard == b""

    play(authority, scene)


def test_the_last_words_are_followed_by_a_farewell(authority: Authority) -> None:
    async def scene(ends: Ends) -> None:
        ends.engine.shut_down("bye", 0.0)
        await turn()
        ends.incoming.write(ends.socket.kept)
        assert ends.peer.read(READ_SIZE) == b"bye"
        assert ends.peer.read(READ_SIZE) == b""
        assert ends.socket.is_over

    play(authority, scene)
