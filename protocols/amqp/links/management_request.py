# Compiled by mypyc: see setup.py.
"""Request: reads a management request from a message, and writes the answer.

Arguments may be in the application properties, or in the body, which is a map: clients differ. The
correlation-id of the answer is that of the request, or else the request's message-id. Its encoded
bytes are copied, so that an id keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from covey.core.errors import RefusedError
from covey.core.management.describe import Plain
from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.types import skip
from covey.protocols.amqp.links.management_types import (
    TYPES,
    full_name,
    named_by,
    type_name_of,
)
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    CORRELATION_ID,
    MESSAGE_ID,
    PROPERTIES,
    SEQUENCE,
    VALUE,
)


class Encoded:
    """A body that is encoded already."""

    def __init__(self, data: bytes) -> None:
        self.data = data


Body = Mapping[str, Plain] | Sequence[Plain] | Encoded

STATUS_TEXTS: Final = {200: "OK", 201: "Created", 204: "No Content"}


class Request:
    """A parsed management request."""

    def __init__(self, message: AmqpMessage) -> None:
        self.message = message
        self.operation = self.text("operation").upper()
        self.name = self.text("name")
        self.type_name = type_name_of(self.text("type"))
        if not self.name:
            kind, self.name = named_by(self.text("identity"))
            self.type_name = self.type_name or kind
        self.body: dict[object, object] = {}
        self.is_odd = message.sections.body_kind == SEQUENCE  # its body is not a map
        if message.sections.body_kind == VALUE:
            body = decoder.decode(message.data, message.sections.body)
            if isinstance(body, dict):
                self.body = body
            else:
                self.is_odd = body is not None

    def check_map(self) -> None:
        """Raise RefusedError if there is a body that is not a map."""
        if self.is_odd:
            raise RefusedError(f"the body of {self.operation} is not a map", "invalid")

    def check_type(self) -> None:
        """Raise RefusedError unless the request names a type that exists."""
        if not self.type_name:
            raise RefusedError(f"{self.operation} without a type", "invalid")
        if self.type_name not in TYPES:
            raise RefusedError(f"there is no type {self.text('type')!r}", "invalid")

    def the_name(self) -> str:
        """Return the entity's name; raises RefusedError if the request has none."""
        if not self.name:
            raise RefusedError(f"{self.operation} without a name", "invalid")
        return self.name

    def text(self, name: str) -> str:
        """Return an application property as text, "" if it is missing."""
        value = self.message.lookup(name)
        return "" if value is None else str(value)

    def option(self, name: str) -> object:
        """Return an argument, from the application properties or the body."""
        value = self.message.lookup(name)
        return self.body.get(name) if value is None else value

    def number(self, name: str, default: int) -> int:
        """Return an argument that is a number, 0 or more."""
        value = self.option(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise RefusedError(f"{name} is not a count", "invalid")
        return value

    def arguments(self) -> dict[str, object]:
        """Return the attributes to set, together with those of the nested map `arguments`.

        Name, type and identity cannot be changed. They may be repeated if they are the same.
        """
        self.check_map()
        found = {str(key): value for key, value in self.body.items() if key != "arguments"}
        nested = self.body.get("arguments")
        if isinstance(nested, dict):
            found.update({str(key): value for key, value in nested.items()})
        kind = full_name(self.type_name)
        same = {
            "name": (self.name,),
            "type": (kind, self.type_name),
            "identity": (f"{kind}/{self.name}", self.name),
        }
        for known, values in same.items():
            given = found.pop(known, None)
            if given is not None and given not in values:
                raise RefusedError(f"the {known} of {self.name} cannot be {given!r}", "invalid")
        return found


def encode_answer(request: AmqpMessage, status: int, text: str, body: Body) -> bytes:
    """Write an answer; if `text` is empty, the status gives the text."""
    text = text or STATUS_TEXTS[status]
    properties = [encoder.NULL] * CORRELATION_ID + [_correlation(request)]
    named = {"statusCode": status, "statusDescription": text}
    return b"".join(
        (
            encoder.section(PROPERTIES, encoder.compound(properties)),
            encoder.section(APPLICATION_PROPERTIES, encoder.value(named)),
            encoder.section(VALUE, body.data if isinstance(body, Encoded) else encoder.value(body)),
        )
    )


def _correlation(request: AmqpMessage) -> bytes:
    offsets = request.sections.properties
    for place in (CORRELATION_ID, MESSAGE_ID):
        at = offsets[place] if place < len(offsets) else 0
        if at and request.data[at : at + 1] != encoder.NULL:
            return request.data[at : skip(request.data, at)]
    return encoder.NULL
