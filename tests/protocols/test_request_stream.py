"""Request stream: a request goes to another process and its answer comes back, of any length."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from covey.core.errors import RefusedError
from covey.protocols.passing import Stream
from covey.protocols.request_stream import PASSED_ON, PassedOn, Serve, answer, fetch, forward

TIMEOUT_S: Final = 10.0
SCOPE: Final[Scope] = {
    "type": "http",
    "method": "POST",
    "path": "/a/ü",
    "raw_path": b"/a/%C3%BC",
    "query_string": b"host=two&x=\xff",
    "headers": [(b"host", b"localhost"), (b"x-odd", b"\xe9")],
    "client": ("192.0.2.1", 4711),
    "scheme": "https",
    "http_version": "2",
}


def play(serve: Serve, scenario: Callable[[Stream], Awaitable[None]]) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer, await asyncio.open_connection(sock=theirs), serve)
                await scenario(await asyncio.open_connection(sock=ours))
                tasks.cancel_scope.cancel()

    anyio.run(main)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body, a part for each that came."""
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-a", b"\xe9")]})
    while True:
        message = await receive()
        is_more = message["type"] == "http.request" and message["more_body"]
        await send({"type": "http.response.body", "body": message["body"], "more_body": is_more})
        if not is_more:
            return


def test_a_request_and_its_answer_pass_as_they_are() -> None:
    seen: list[Scope] = []
    parts: list[Message] = [
        {"type": "http.request", "body": bytes(100_000), "more_body": True},
        {"type": "http.request", "body": b"end", "more_body": False},
    ]
    heard: list[Message] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await echo(scope, receive, send)

    async def receive() -> Message:
        if not parts:
            await anyio.sleep_forever()
        return parts.pop(0)

    async def send(message: Message) -> None:
        heard.append(message)

    async def scenario(stream: Stream) -> None:
        await forward(stream, SCOPE, PassedOn("ann"), receive, send)

    play(serve, scenario)
    (scope,) = seen
    assert {key: scope[key] for key in SCOPE} == SCOPE
    assert scope[PASSED_ON] == PassedOn("ann", is_final=True)
    assert heard[0]["status"] == 201
    assert heard[0]["headers"] == [(b"x-a", b"\xe9")]
    assert b"".join([one["body"] for one in heard[1:]]) == bytes(100_000) + b"end"


def test_what_is_fetched_is_the_whole_answer() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})
        for word in (b"a", b"b"):
            await send({"type": "http.response.body", "body": word, "more_body": word == b"a"})

    async def scenario(stream: Stream) -> None:
        assert await fetch(stream, SCOPE, PassedOn()) == (503, b"ab")

    play(serve, scenario)


def test_an_answer_that_breaks_off_is_an_error() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        raise OSError("it dies")

    async def scenario(stream: Stream) -> None:
        with pytest.raises(RefusedError, match="before it answered") as caught:
            await fetch(stream, SCOPE, PassedOn())
        assert caught.value.code == "unavailable"

    play(serve, scenario)


def test_who_goes_away_is_heard_to_go() -> None:
    heard = anyio.Event()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "http.disconnect"
        heard.set()

    async def scenario(stream: Stream) -> None:
        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        with pytest.raises(RefusedError):
            await forward(stream, SCOPE, PassedOn(), receive, send)
        await heard.wait()

    play(serve, scenario)
