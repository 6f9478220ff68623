"""Stream: messages become bytes, and bytes messages."""

from __future__ import annotations

import anyio
import pytest
from starlette.types import Message
from wsproto.events import BytesMessage

from covey.protocols.http.stream import BoundedBuffer, WebSocketStream


class Peer:
    """What a peer says, and what it hears."""

    def __init__(self, *said: Message) -> None:
        self.said = list(said)
        self.heard: list[Message] = []

    async def receive(self) -> Message:
        return self.said.pop(0) if self.said else {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Message) -> None:
        self.heard.append(dict(message))


def text(value: str) -> Message:
    return {"type": "websocket.receive", "text": value, "bytes": None}


def data(value: bytes) -> Message:
    return {"type": "websocket.receive", "text": None, "bytes": value}


def test_messages_are_read_in_pieces_and_empty_ones_are_nothing() -> None:
    async def main() -> None:
        peer = Peer(text("\u00e4bc"), data(b""), data(b"xyz"))
        stream = WebSocketStream(peer.receive, peer.send)
        assert [await stream.receive(3) for _ in range(3)] == [b"\xc3\xa4b", b"c", b"xyz"]
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"late")

    anyio.run(main)


@pytest.mark.parametrize(
    ("said", "sent", "kind"),
    [(text("a"), b"ok", "text"), (text("a"), b"\xff", "bytes"), (data(b"a"), b"ok", "bytes")],
)
def test_an_answer_is_text_only_to_who_speaks_text_and_if_it_is_one(
    said: Message, sent: bytes, kind: str
) -> None:
    async def main() -> None:
        peer = Peer(said)
        stream = WebSocketStream(peer.receive, peer.send)
        await stream.receive()
        await stream.send(sent)
        assert list(peer.heard[0]) == ["type", kind]

    anyio.run(main)


def test_it_is_closed_once() -> None:
    async def main() -> None:
        peer = Peer()
        stream = WebSocketStream(peer.receive, peer.send)
        await stream.send_eof()
        await stream.aclose()
        assert [message["type"] for message in peer.heard] == ["websocket.close"]

    anyio.run(main)


def test_what_is_too_large_is_not_kept() -> None:
    overflows: list[bool] = []
    buffer = BoundedBuffer(lambda: 10, lambda: overflows.append(True))
    for _ in range(100):
        buffer.extend(BytesMessage(data=b"x" * 6))
    assert (buffer.length, buffer.value, overflows) == (0, None, [True])
