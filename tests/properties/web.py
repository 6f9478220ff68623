"""Web: the HTTP port without its socket, and requests and WebSockets that are broken on their way.

hypercorn, the application and the STOMP engine behind a WebSocket are the real ones; only the
transport under them is a piece of memory. A peer sends all it has, and then no more.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import socket
import time
from collections.abc import Iterable
from random import Random
from typing import Any, Final

import structlog

from covey.config.settings import ConnectorSettings
from covey.core.broker.directory import Directory
from covey.core.management.history import History
from covey.protocols.http.server import HttpListener
from covey.protocols.registry import engine_maker
from covey.protocols.roster import Strangers
from tests.properties.mutators import HTTP_TOKENS, STOMP_TOKENS, mutated
from tests.properties.stage import make_broker
from tests.protocols.http.support import Settled

PATIENCE_S: Final = 20.0  # for a peer that has gone to be forgotten
ADDRESS: Final = ("127.0.0.1", 61616)
STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})")
PIECES_MAX: Final = 4

LOGIN: Final = base64.b64encode(b"admin:password")
HEAD: Final = (
    b"%s HTTP/1.1\r\nhost: localhost:8161\r\nauthorization: Basic " + LOGIN + b"\r\naccept: */*\r\n"
)
BODY: Final = b'{"body": "text", "group": "g", "headers": {"n": "1"}}'
JSON: Final = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
REQUESTS: Final = (
    HEAD % b"GET /metrics" + b"\r\n",
    HEAD % b"GET /api/v1/queues?limit=10&offset=0" + b"\r\n",
    HEAD % b"GET /api/v1/queues/a%2Fb" + b"origin: http://localhost:8161\r\n\r\n",
    HEAD % b"POST /api/v1/queues/q/messages" + JSON % (len(BODY), BODY),
    HEAD % b"GET /healthz" + b"\r\n" + HEAD % b"DELETE /api/v1/queues/q" + b"\r\n",
    HEAD % b"PUT /api/v1/queues/made"
    + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    HEAD % b"OPTIONS /api/v1/queues" + b"access-control-request-method: GET\r\n\r\n",
)
UPGRADE: Final = (
    b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-protocol: v12.stomp\r\n\r\n"
)
FRAME_TOKENS: Final = (b"\x81\x80", b"\x88\x82", b"\x80", b"\xff", b"\x01\x80", b"\x89\x84")
FRAMES: Final = (
    b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:admin\npasscode:password\n\n\0",
    b"SUBSCRIBE\nid:1\ndestination:/queue/w\nack:client-individual\n\n\0",
    b"SEND\ndestination:/queue/w\nreceipt:r\n\nx\0SEND\ndestination:/queue/w\n\ny\0",
    b"ACK\nid:1\n\n\0ACK\nid:2\n\n\0",
    b"DISCONNECT\nreceipt:bye\n\n\0",
)


class Memory(asyncio.Transport):
    """A transport whose other end is gone once it has said everything."""

    def __init__(self, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__({"socket": self, "peername": ADDRESS, "sockname": ADDRESS})
        self.family = socket.AF_INET
        self.protocol = protocol
        self.heard = bytearray()
        self._is_closing = False

    def getpeername(self) -> tuple[str, int]:
        return ADDRESS

    def getsockname(self) -> tuple[str, int]:
        return ADDRESS

    def write(self, data: Any) -> None:
        self.heard += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Web:
    """A broker behind an HTTP port that is not bound."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.broker = make_broker()
        self.broker.wake = self._wake
        quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
        log = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=quiet)
        connector = ConnectorSettings.model_validate(
            {
                **{"id": "http", "protocol": "http", "bind": "127.0.0.1:0"},
                "http": {"request_timeout_s": 1, "idle_timeout_s": 1},
                "stomp": {"die_delay_ms": 0},
            }
        )
        directory = Directory.of(self.broker)
        self.listener = HttpListener(
            connector,
            directory,
            engine_maker(directory, connector, log),
            log,
            strangers=Strangers(self.broker.limits.logins_pending_max),
            unready=lambda: "",
            history=History(directory),
            configuration=Settled(self.broker.settings),
        )

    def _wake(self) -> None:
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        self.broker.run(time.monotonic())

    async def try_all(self, kind: str, inputs: list[Random]) -> tuple[int, list[str]]:
        """Send broken things, all at once; return how many were answered, and what was wrong."""
        broken = broken_request if kind == "http" else broken_websocket
        found = await asyncio.gather(*[self._try(broken(dice), dice) for dice in inputs])
        faults = [fault for _, fault in found if fault]
        if self.broker.internal_errors:
            faults.append(f"{self.broker.internal_errors} internal errors")
        if self.broker.sessions or len(self.listener.websockets.roster):
            faults.append("a session is left")
        return sum(bool(heard) for heard, _ in found), faults

    async def _try(self, said: bytes, dice: Random) -> tuple[bytes, str]:
        try:
            async with asyncio.timeout(PATIENCE_S):
                heard = await self._serve(pieces(said, dice))
        except TimeoutError:
            return b"", f"it never ends: {said!r}"
        return heard, f"a 500: {said!r}" if b"500" in STATUS.findall(heard) else ""

    async def _serve(self, said: Iterable[bytes]) -> bytes:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = Memory(protocol)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        served = loop.create_task(self.listener._serve_one(reader, writer))
        for piece in said:
            if transport.is_closing():
                break
            reader.feed_data(piece)
            for _ in range(3):
                await asyncio.sleep(0)
        reader.feed_eof()
        await served
        return bytes(transport.heard)


def broken_request(dice: Random) -> bytes:
    """Break a request."""
    return mutated(dice.choice(REQUESTS), dice, HTTP_TOKENS)


def broken_websocket(dice: Random) -> bytes:
    """Break a WebSocket: its opening, its frames, or what is in them."""
    place = int(dice.random() * 3)
    opening = mutated(UPGRADE, dice, HTTP_TOKENS) if place == 0 else UPGRADE
    texts = list(FRAMES)
    if place == 1:
        at = int(dice.random() * len(texts))
        texts[at] = mutated(texts[at], dice, STOMP_TOKENS)
    frames = b"".join(masked(text) for text in texts)
    return opening + (mutated(frames, dice, FRAME_TOKENS) if place == 2 else frames)


def masked(text: bytes) -> bytes:
    """Write a WebSocket frame of a client: text, masked with nothing (RFC 6455, section 5.3)."""
    size = bytes((0x80 | len(text),)) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + text


def pieces(said: bytes, dice: Random) -> list[bytes]:
    """Cut what is said into a few pieces."""
    places = sorted(int(dice.random() * len(said)) for _ in range(int(dice.random() * PIECES_MAX)))
    return [said[start:end] for start, end in zip([0, *places], [*places, len(said)], strict=True)]
