"""Neighbours: the workers of one machine talk to each other, and pass connections on.

Each worker listens on a Unix socket in the abstract namespace: no file belongs to its name. It only
hears processes of the same user. The caller waits for HELLO before it sends anything. A worker that
is being restarted has no such socket yet, and a worker that hangs does not say HELLO. So no
connection is handed to a worker that may never look at it.

    caller                                      owner
    connects                              ->    HELLO
    kind(1) length(4) and so many bytes   ->    with the peer's socket (SCM_RIGHTS) for a CONNECTION
    RELAYED: the peer's bytes follow      ->    serves them as if the socket were the peer's
    REQUEST: a request follows            ->    the port answers it
    NEWS                                  ->    the server hears it, and has news of its own
    what was answered                     <-    length(4) and so many bytes
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
import structlog

from covey.core.errors import BrokerError, RefusedError
from covey.protocols.doorman import Passed, not_served
from covey.protocols.passing import WAIT_S, Adoption, Owners, Stream, pack, unpack
from covey.protocols.relay import Upstream
from covey.server.dealing import Seat

HELLO: Final = b"!"
HEAD: Final = struct.Struct("!cI")
LENGTH: Final = struct.Struct("!I")
CONNECTION: Final = b"C"
RELAYED: Final = b"R"
REQUEST: Final = b"Q"
NEWS: Final = b"N"
LENGTH_MAX: Final = 64 * 1024 * 1024  # of the bytes after it; only our own workers send them
CALLS_MAX: Final = 1000  # calls at the same time whose first message is not complete
HEAD_TIMEOUT_S: Final = 5.0
TRY_AGAIN_S: Final = 0.05
CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid

Log = structlog.typing.FilteringBoundLogger
Answer = Callable[[str, Stream], Awaitable[None]]
Hear = Callable[[bytes], bytes]


class Neighbours(Owners):
    """The other workers, as one of them sees them."""

    def __init__(self, seat: Seat, log: Log) -> None:
        self.seat = seat
        self.log = log
        self.adoption: Adoption | None = None  # set with the ports
        self.answer: Answer | None = None  # the same
        self.hear: Hear = _nothing  # takes another worker's news and returns ours
        self._calls: set[asyncio.Task[None]] = set()

    # Who serves what.

    def is_elsewhere(self, space: str) -> bool:
        """Return True if another worker serves the virtual host."""
        return space in self.seat.table and not self.seat.is_ours(space)

    def place_of(self, space: str) -> str:
        """Return the number of the worker that serves a virtual host; "" for this one."""
        return str(self.seat.table[space]) if self.is_elsewhere(space) else ""

    @property
    def places(self) -> list[str]:
        """Return the numbers of the other workers."""
        return [str(number) for number in self.seat.others]

    @property
    def here(self) -> str:
        """Return this worker's number."""
        return str(self.seat.number)

    @property
    def home(self) -> str:
        """Return the worker that keeps the console's sign-ins; "" if it is this one."""
        return "0" if self.seat.number else ""

    # Calling.

    async def send_socket(self, connector: str, passed: Passed, raw: socket.socket) -> bool:
        """Hand a peer's socket to the worker that serves its virtual host."""
        with await self._call_owner(passed.space) as owner:
            await _send(owner, CONNECTION, pack(connector, passed), [raw.fileno()])
        return True

    async def connect(self, connector: str, passed: Passed, upstream: Upstream) -> None:
        """Connect an upstream with the worker that serves its virtual host."""
        owner = await self._call_owner(passed.space)
        await _send(owner, RELAYED, pack(connector, passed))
        await asyncio.get_running_loop().connect_accepted_socket(lambda: upstream, owner)

    async def open_stream(self, place: str, connector: str) -> Stream:
        """Return a stream on which a request can be sent to another worker's port."""
        other = await self._call(int(place))
        await _send(other, REQUEST, connector.encode())
        return await asyncio.open_connection(sock=other)

    async def tell(self, number: int, news: bytes) -> bytes:
        """Send news to another worker; return its own news.

        Raises RefusedError, OSError, EOFError or TimeoutError if the worker does not answer.
        """
        with await self._call(number) as other:
            await _send(other, NEWS, news)
            async with asyncio.timeout(WAIT_S):
                (length,) = LENGTH.unpack(await _read_exactly(other, LENGTH.size))
                return await _read_exactly(other, length)

    async def _call_owner(self, space: str) -> socket.socket:
        if not self.is_elsewhere(space):
            raise not_served(space)
        try:
            return await self._call(self.seat.table[space])
        except RefusedError as error:
            raise not_served(space) from error

    async def _call(self, number: int) -> socket.socket:
        """Connect to a worker; wait a while for one that is being started."""
        deadline = time.monotonic() + WAIT_S
        while True:
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            raw.setblocking(False)
            try:
                raw.connect(self.seat.address(number))
                async with asyncio.timeout(deadline - time.monotonic()):
                    if await asyncio.get_running_loop().sock_recv(raw, len(HELLO)) == HELLO:
                        return raw
            except (OSError, TimeoutError):
                pass  # the worker is not there yet, or hangs
            except BaseException:
                raw.close()
                raise
            raw.close()
            if time.monotonic() + TRY_AGAIN_S > deadline:
                raise RefusedError(f"worker {number} does not answer", "unavailable")
            await anyio.sleep(TRY_AGAIN_S)

    # Being called.

    def bind(self) -> socket.socket:
        """Return this worker's own listening socket."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(self.seat.address(self.seat.number))
        listening.listen()
        listening.setblocking(False)
        return listening

    async def serve(self, listening: socket.socket) -> None:
        """Serve calls of the other workers until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            with listening:
                while True:
                    raw, _ = await loop.sock_accept(listening)
                    if len(self._calls) >= CALLS_MAX or not _is_of_our_user(raw):
                        raw.close()
                        continue
                    task = loop.create_task(self._hear(raw))
                    self._calls.add(task)
                    task.add_done_callback(self._calls.discard)
        finally:
            for call in list(self._calls):
                call.cancel()

    async def _hear(self, raw: socket.socket) -> None:
        passed: list[int] = []  # a peer's socket
        try:
            raw.setblocking(False)
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                await asyncio.get_running_loop().sock_sendall(raw, HELLO)
                kind, data = await _read(raw, passed)
            await self._take(raw, kind, data, passed)
        except (OSError, EOFError, TimeoutError, ValueError, BrokerError) as error:
            self.log.warning("neighbour_broke_off", cause=str(error) or type(error).__name__)
            raw.close()
        except Exception:  # an error in one call must not end the others
            self.log.exception("neighbour_failed")
            raw.close()
        finally:
            for descriptor in passed:
                os.close(descriptor)

    async def _take(self, raw: socket.socket, kind: bytes, data: bytes, passed: list[int]) -> None:
        assert self.adoption is not None
        if kind == CONNECTION:
            raw.close()
            with socket.socket(fileno=passed.pop()) as peer:
                await self.adoption.adopt(peer.dup(), *unpack(data))
        elif kind == RELAYED:
            await self.adoption.adopt(raw, *unpack(data))
        elif kind == REQUEST and self.answer is not None:
            await self.answer(data.decode(), await asyncio.open_connection(sock=raw))
        elif kind == NEWS:
            with raw:
                said = self.hear(data)
                await asyncio.get_running_loop().sock_sendall(raw, LENGTH.pack(len(said)) + said)
        else:
            raise ValueError(f"a call of kind {kind!r}")


async def _send(
    raw: socket.socket, kind: bytes, data: bytes, descriptors: list[int] | None = None
) -> None:
    """Send the kind, the length and the bytes, with a peer's socket if there is one."""
    message = HEAD.pack(kind, len(data)) + data
    try:
        sent = socket.send_fds(raw, [message], descriptors or [])
        await asyncio.get_running_loop().sock_sendall(raw, message[sent:])
    except BaseException:
        raw.close()
        raise


async def _read(raw: socket.socket, passed: list[int]) -> tuple[bytes, bytes]:
    """Return the kind and the bytes; a socket that comes along is added to `passed`."""
    await anyio.wait_readable(raw)
    head, descriptors, _, _ = socket.recv_fds(raw, HEAD.size, 1)
    passed.extend(descriptors)
    head += await _read_exactly(raw, HEAD.size - len(head))
    kind, length = HEAD.unpack(head)
    if length > LENGTH_MAX:
        raise ValueError(f"a call of {length} bytes")
    return kind, await _read_exactly(raw, length)


async def _read_exactly(raw: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(raw, count - len(data))
        if not piece:
            raise EOFError("it has gone")
        data += piece
    return data


def _is_of_our_user(raw: socket.socket) -> bool:
    """Return True if the process at the other end runs as the same user."""
    with suppress(OSError):
        found = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        return bool(CREDENTIALS.unpack(found)[1] == os.geteuid())
    return False


def _nothing(news: bytes) -> bytes:
    """Ignore the news and answer with none."""
    return b"{}"
