"""Outgoing messages: the headers of a SEND, and how a body becomes bytes.

    bytes               as they are
    str                 UTF-8, content-type text/plain
    dict, list, ...     JSON, content-type application/json

Every message has an id, given or made up. If a connection breaks before the receipt has come, the
message is sent again with the same id. A queue with a `duplicate_window` then takes it only once.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from covey.protocols.stomp.frame import encode
from covey.worker.connection import VERSION

Body = bytes | str | dict[str, object] | list[object] | int | float | bool | None

GROUP_HEADER: Final = "message_group"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that is to be sent."""

    destination: str
    body: Body
    group: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    persistent: bool = True
    ttl: float | None = None  # seconds
    delay: float | None = None  # seconds
    reply_to: str = ""
    correlation_id: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """Return the headers of the SEND frame."""
        kind = content_type(self.body)
        found = [
            ("destination", destination_of(self.destination)),
            ("message-id", self.id),
            ("timestamp", str(round(time.time() * 1000))),
        ]
        found += [("persistent", "true")] if self.persistent else []
        found += [(GROUP_HEADER, self.group)] if self.group else []
        found += [("ttl", _milliseconds("ttl", self.ttl))] if self.ttl is not None else []
        if self.delay is not None:
            found.append(("AMQ_SCHEDULED_DELAY", _milliseconds("delay", self.delay)))
        found += [("reply-to", self.reply_to)] if self.reply_to else []
        found += [("correlation-id", self.correlation_id)] if self.correlation_id else []
        found += [("content-type", kind)] if kind and "content-type" not in self.headers else []
        ours = {name for name, _ in found}
        return found + [pair for pair in self.headers.items() if pair[0] not in ours]

    def frame(self, *extra: tuple[str, str]) -> bytes:
        """Return the SEND frame."""
        return encode("SEND", [*self.lines(), *extra], body_bytes(self.body), VERSION)


def destination_of(name: str) -> str:
    """Return a destination as STOMP writes it; a name without a prefix is a queue."""
    return name if name.startswith("/") else f"/queue/{name}"


def body_bytes(body: Body) -> bytes:
    """Return a body as bytes; TypeError if it is neither bytes, nor text, nor fit for JSON."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return json.dumps(body, separators=(",", ":")).encode()


def content_type(body: Body) -> str:
    """Return the content type of a body; "" for bytes, whose type is not known."""
    if isinstance(body, bytes):
        return ""
    return "text/plain" if isinstance(body, str) else "application/json"


def _milliseconds(name: str, seconds: float) -> str:
    if seconds < 0:
        raise ValueError(f"{name}={seconds} is negative")
    return str(round(seconds * 1000))


def trace_headers(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    """Add the current span's headers, if the program uses OpenTelemetry."""
    # A program with spans has loaded the tracing module, but maybe not the one for propagation.
    if "opentelemetry.trace" not in sys.modules:
        return headers or {}
    carried = dict(headers or {})
    importlib.import_module("opentelemetry.propagate").inject(carried)
    return carried
