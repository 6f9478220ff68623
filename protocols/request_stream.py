"""Request stream: a request of HTTP that another process answers, as messages over a stream.

    frame: length of the JSON(4) length of the body(4), then both

The first frame is the request's head (ASGI's scope, with who has passed it on). Then each side
sends ASGI's messages as they come: parts of the body one way, the answer's start and its parts the
other way. So an answer that goes on for hours passes through like a short one. If one side ends the
stream early, the request is broken off: the other side gets a disconnect, or RefusedError.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from covey.core.errors import RefusedError
from covey.protocols.passing import Stream

LENGTHS: Final = struct.Struct("!II")
FRAME_MAX: Final = 256 * 1024 * 1024  # both ends are ours: the limit only stops a fault
PASSED_ON: Final = "covey.passed_on"  # the key in the scope of a request that was passed on
COPIED: Final = ("type", "method", "path", "scheme", "http_version")
DISCONNECT: Final[Message] = {"type": "http.disconnect"}


@dataclass(frozen=True, slots=True)
class PassedOn:
    """How a request came from another process of ours."""

    user: str = ""
    """Who asks, as that process has checked; "" if it has not."""
    is_final: bool = True
    """It is to be answered here, and from what is known here."""


async def forward(
    stream: Stream,
    scope: Scope,
    passed_on: PassedOn,
    receive: Receive,
    send: Send,
    begin_s: float | None = None,
) -> None:
    """Let another process answer a request; raises RefusedError if the stream breaks off.

    The answer has to begin within `begin_s`: a process that is frozen takes a request, too.
    """
    reader, writer = stream
    has_begun = False

    async def pump() -> None:
        with suppress(OSError):  # the reading side reports it
            while True:
                message = await receive()
                writer.write(_frame(message))
                await writer.drain()
                if message["type"] != "http.request":
                    return

    try:
        writer.write(_frame(_head(scope, passed_on)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump)
            while True:
                async with asyncio.timeout(None if has_begun else begin_s):
                    message = await _read(reader)
                has_begun = True
                await send(message)
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    break
            tasks.cancel_scope.cancel()
    except* (OSError, EOFError) as group:
        word = "in the middle of the answer" if has_begun else "before it answered"
        raise RefusedError(f"who serves this broke off {word}", "unavailable") from group
    finally:
        writer.close()


async def fetch(stream: Stream, scope: Scope, passed_on: PassedOn) -> tuple[int, bytes]:
    """Let another process answer a request without a body; return the status and the answer."""
    status = 0
    parts: list[bytes] = []
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not asked:
            await anyio.sleep_forever()
        return asked.pop()

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await forward(stream, scope, passed_on, receive, send)
    return status, b"".join(parts)


Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


async def answer(stream: Stream, serve: Serve) -> None:
    """Answer a request that another process has passed on."""
    reader, writer = stream
    try:
        head = await _read(reader)
        scope = _scope(head)

        async def receive() -> Message:
            try:
                return await _read(reader)
            except (OSError, EOFError):
                return DISCONNECT

        async def send(message: Message) -> None:
            writer.write(_frame(message))
            await writer.drain()

        await serve(scope, receive, send)
    except (OSError, EOFError):
        pass  # the process that asked is gone
    finally:
        writer.close()


def _head(scope: Scope, passed_on: PassedOn) -> Message:
    head = {key: scope[key] for key in COPIED if key in scope}
    head["raw_path"] = scope["raw_path"].decode("latin-1")
    head["query_string"] = scope["query_string"].decode("latin-1")
    head["headers"] = list(scope["headers"])
    head["client"] = list(scope["client"] or ("", 0))
    head[PASSED_ON] = asdict(passed_on)
    return head


def _scope(head: Message) -> Scope:
    head["raw_path"] = head["raw_path"].encode("latin-1")
    head["query_string"] = head["query_string"].encode("latin-1")
    head["client"] = tuple(head["client"])
    head[PASSED_ON] = PassedOn(**head[PASSED_ON])
    head["asgi"] = {"version": "3.0"}
    head.pop("body", None)
    return head


def _frame(message: Message) -> bytes:
    fields = dict(message)
    body = fields.pop("body", b"")
    if "headers" in fields:
        fields["headers"] = _texts(fields["headers"])
    head = json.dumps(fields).encode()
    return LENGTHS.pack(len(head), len(body)) + head + bytes(body)


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


async def _read(reader: asyncio.StreamReader) -> Message:
    head_size, body_size = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
    if head_size + body_size > FRAME_MAX:
        raise EOFError("a frame that is none")
    message: Message = json.loads(await reader.readexactly(head_size))
    message["body"] = await reader.readexactly(body_size)
    if "headers" in message:
        message["headers"] = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in message["headers"]
        ]
    return message
