"""Stream: messages become bytes, and bytes messages."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
import structlog
from starlette.types import Message
from wsproto.events import BytesMessage

from covey.protocols.connection import Connection
from covey.protocols.http.websocket_stream import WRITE_SIZE, BoundedBuffer, WebSocketTransport
from covey.protocols.read_buffers import ReadBuffers
from tests.protocols.support import SilentEngine

TIMEOUT_S = 10.0


class Peer:
    """What a peer says, and what it hears; it leaves when it has heard enough."""

    def __init__(self, *said: Message, enough: int = 0) -> None:
        self.said = list(said)
        self.heard: list[Message] = []
        self.enough = enough
        self.has_heard = anyio.Event()

    async def receive(self) -> Message:
        if self.said:
            return self.said.pop(0)
        if self.enough:
            await self.has_heard.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Message) -> None:
        self.heard.append(dict(message))
        if len(self.heard) == self.enough:
            self.has_heard.set()


class EchoEngine(SilentEngine):
    """Says something for each piece it gets."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self.answer = answer
        self.pieces: list[bytes] = []

    def receive(self, data: bytes, now: float) -> None:
        super().receive(data, now)
        self.pieces.append(data)
        self.outbox += self.answer
        self.wake()


def text(value: str) -> Message:
    return {"type": "websocket.receive", "text": value, "bytes": None}


def data(value: bytes) -> Message:
    return {"type": "websocket.receive", "text": None, "bytes": value}


def serve(
    peer: Peer,
    engine: SilentEngine,
    *,
    read_size: int = 16384,
    begin: Callable[[], None] = lambda: None,
) -> int:
    """Serve a peer until it has ended; return how often the end was told."""
    ends: list[Connection] = []

    async def main() -> None:
        connection = Connection(
            engine,
            structlog.get_logger(),
            buffers=ReadBuffers(read_size),
            write_timeout_s=60.0,
            ended=ends.append,
        )
        transport = WebSocketTransport(peer.receive, peer.send, connection, read_size=read_size)
        begin()
        with anyio.fail_after(TIMEOUT_S):
            await transport.serve()

    anyio.run(main)
    return len(ends)


def test_messages_are_read_in_pieces_and_empty_ones_are_nothing() -> None:
    engine = EchoEngine()
    peer = Peer(text("\u00e4bc"), data(b""), data(b"xyz"))
    assert serve(peer, engine, read_size=3) == 1
    assert engine.pieces == [b"\xc3\xa4b", b"c", b"xyz"]
    assert engine.losses == 1


@pytest.mark.parametrize(
    ("said", "sent", "kind"),
    [(text("a"), b"ok", "text"), (text("a"), b"\xff", "bytes"), (data(b"a"), b"ok", "bytes")],
)
def test_an_answer_is_text_only_to_who_speaks_text_and_if_it_is_one(
    said: Message, sent: bytes, kind: str
) -> None:
    peer = Peer(said, enough=1)
    serve(peer, EchoEngine(sent))
    assert list(peer.heard[0]) == ["type", kind]


def test_a_large_answer_goes_in_pieces_so_that_a_slow_peer_is_seen_to_read() -> None:
    peer = Peer(data(b"a"), enough=3)
    serve(peer, EchoEngine(b"x" * (2 * WRITE_SIZE + 1)))
    assert [len(message["bytes"]) for message in peer.heard] == [WRITE_SIZE, WRITE_SIZE, 1]


def test_a_text_is_not_cut_inside_a_character() -> None:
    answer = "x" + "\u00e4" * WRITE_SIZE
    peer = Peer(text("a"), enough=3)
    serve(peer, EchoEngine(answer.encode()))
    assert "".join([message["text"] for message in peer.heard]) == answer


def test_nothing_is_read_for_an_engine_that_does_not_read() -> None:
    class OneAtATime(EchoEngine):
        def receive(self, data: bytes, now: float) -> None:
            super().receive(data, now)
            self.reading = False

        def tick(self, now: float) -> float | None:
            in_between.append(len(self.pieces))
            self.reading = True
            return None

    in_between: list[int] = []
    engine = OneAtATime()
    serve(Peer(data(b"ab"), data(b"cd")), engine, read_size=1)
    assert engine.heard == b"abcd"
    assert in_between[:5] == [0, 1, 2, 3, 4]


def test_the_last_words_come_before_the_close_and_it_is_closed_once() -> None:
    engine = SilentEngine()
    peer = Peer(enough=2)
    assert serve(peer, engine, begin=lambda: engine.shut_down("bye", 0.0)) == 1
    assert [message["type"] for message in peer.heard] == ["websocket.send", "websocket.close"]
    assert peer.heard[0]["text"] == "bye"


@pytest.mark.slow
def test_a_peer_that_does_not_answer_the_close_is_left() -> None:
    engine = SilentEngine()
    peer = Peer(enough=100)
    assert serve(peer, engine, begin=lambda: engine.shut_down("bye", 0.0)) == 1


def test_what_is_too_large_is_not_kept() -> None:
    overflows: list[bool] = []
    buffer = BoundedBuffer(lambda: 10, lambda: overflows.append(True))
    for _ in range(100):
        buffer.extend(BytesMessage(data=b"x" * 6))
    assert (buffer.length, buffer.value, overflows) == (0, None, [True])
