"""Request: a management request read out of a message, and its answer written into one.

Arguments may stand in the application properties or in the map that is the body; clients differ.
The answer's correlation-id is the request's, or its message-id, bit by bit: an id keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from covey.core.describe import Plain
from covey.core.errors import RefusedError
from covey.protocols.amqp import decoder, encoder
from covey.protocols.amqp.codes import skip
from covey.protocols.amqp.fields import CORRELATION_ID, MESSAGE_ID
from covey.protocols.amqp.message import AmqpMessage
from covey.protocols.amqp.sections import APPLICATION_PROPERTIES, PROPERTIES, VALUE

TYPE_PREFIX: Final = "covey."

Body = Mapping[str, Plain]


class Request:
    """A management request, read."""

    def __init__(self, message: AmqpMessage) -> None:
        self.message = message
        self.operation = self.text("operation").upper()
        self.name = self.text("name") or self.text("identity")
        self.type_name = type_name_of(self.text("type"))
        self.body: dict[object, object] = {}
        if message.sections.body_kind == VALUE:
            body = decoder.decode(message.data, message.sections.body)
            if isinstance(body, dict):
                self.body = body

    def text(self, name: str) -> str:
        """Return an application property as text, "" if it is missing."""
        value = self.message.lookup(name)
        return "" if value is None else str(value)

    def option(self, name: str) -> object:
        """Return an argument, from the application properties or the body."""
        value = self.message.lookup(name)
        return self.body.get(name) if value is None else value

    def number(self, name: str, default: int) -> int:
        """Return an argument that counts something."""
        value = self.option(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise RefusedError(f"{name} is not a count", "invalid")
        return value

    def arguments(self) -> dict[str, object]:
        """Return the attributes to set; those under `arguments` are a queue's own."""
        found = {str(key): value for key, value in self.body.items() if key != "arguments"}
        nested = self.body.get("arguments")
        if isinstance(nested, dict):
            found.update({str(key): value for key, value in nested.items()})
        for known in ("name", "type", "identity"):
            found.pop(known, None)
        return found


def type_name_of(text: str) -> str:
    """Return the type as the core calls it: `covey.queue` and `queue` are the same."""
    return text.removeprefix("org.").removeprefix(TYPE_PREFIX)


def encode_answer(request: AmqpMessage, status: int, text: str, body: Body) -> bytes:
    """Write an answer."""
    properties = [encoder.NULL] * CORRELATION_ID + [_correlation(request)]
    named = {"statusCode": status, "statusDescription": text}
    return b"".join(
        (
            encoder.section(PROPERTIES, encoder.compound(properties)),
            encoder.section(APPLICATION_PROPERTIES, encoder.value(named)),
            encoder.section(VALUE, encoder.value(body)),
        )
    )


def _correlation(request: AmqpMessage) -> bytes:
    offsets = request.sections.properties
    for place in (CORRELATION_ID, MESSAGE_ID):
        at = offsets[place] if place < len(offsets) else 0
        if at and request.data[at : at + 1] != encoder.NULL:
            return request.data[at : skip(request.data, at)]
    return encoder.NULL
