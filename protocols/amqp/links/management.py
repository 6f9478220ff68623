# Compiled by mypyc: see setup.py.
"""Management: the node `$management`, requests and answers as AMQP messages.

A request names `operation`, `type` and `name` (or `identity`) in its application properties and
holds a map; the answer goes to its reply-to with `statusCode`, `statusDescription` and a map (the
AMQP management draft, as Qpid's router and Broker-J speak it). Everything is done by
`core.management.admin`; here is only the translation. Without a reply-to a request is done and
answered by nothing.

Requests come on a link to `$management`, or on a link without a target that names it in `to`.
Answers go to any address, such as a dynamic node's; or the client has a receiving link from
`$management` and gives that link's target address, or its name, as reply-to (as in Broker-J).

| operation                             | asks for                                              |
|---------------------------------------|-------------------------------------------------------|
| QUERY                                 | `entityType`, `offset`, `count`; body attributeNames; |
|                                       | `queue`: only its groups or consumers; `waiting`:     |
|                                       | only groups that wait, the most urgent first, or      |
|                                       | connections whose producers do. The answer's `total`  |
|                                       | says how many rows there are                          |
| GET-TYPES, -ATTRIBUTES, -OPERATIONS   | optionally `entityType`                               |
| CREATE, READ, UPDATE, DELETE          | type and name; body: attributes, or `arguments`       |
| PURGE, REBALANCE                      | a queue by name                                       |
| CLOSE-GROUP, PARK, UNPARK             | a queue by name, and `group`                          |
| RETIRE                                | a consumer by name (`queue/number`)                   |
| TRACE                                 | a queue by name, and `after`: the last event known    |

Request: a management request read out of a message, and its answer written into one.

Arguments may stand in the application properties or in the map that is the body; clients differ.
The answer's correlation-id is the request's, or its message-id, bit by bit: an id keeps its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, RefusedError
from covey.core.management.admin import Admin
from covey.core.management.describe import ATTRIBUTES, Plain
from covey.core.naming.destination import Destination
from covey.core.session import Session
from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.checker import VALUES_MAX
from covey.protocols.amqp.codec.types import skip
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    CORRELATION_ID,
    MESSAGE_ID,
    PROPERTIES,
    VALUE,
)
from covey.protocols.amqp.outcomes import ACCEPTED_STATE

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine


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


MANAGEMENT_ADDRESS: Final = "$management"
BASE_TYPE: Final = "org.amqp.management"

STATUS: Final = {
    "invalid": 400,
    "denied": 403,
    "not-found": 404,
    "exists": 409,
    "conflict": 409,
    "limit": 429,
    "not-implemented": 501,
}
STATUS_FAILED: Final = 500

# Rows that are described for one answer: a broker with a million groups has other things to do.
ROWS_MAX: Final = 1000

# Values in the rows of one answer: a message of more than VALUES_MAX is refused at our own door,
# and the answer has some besides its rows.
ANSWER_VALUES_MAX: Final = VALUES_MAX - 1000

ENTITY_OPERATIONS: Final[dict[str, tuple[str, ...]]] = {
    "broker": ("READ",),
    "queue": ("CREATE", "READ", "UPDATE", "DELETE", "PURGE", "REBALANCE", "CLOSE-GROUP", "PARK",
              "UNPARK", "TRACE"),
    "topic": ("CREATE", "READ", "DELETE"),
    "subscription": ("READ", "DELETE"),
    "group": ("READ",),
    "connection": ("READ", "DELETE"),
    "consumer": ("READ", "RETIRE"),
}  # fmt: skip
OWN_OPERATIONS: Final = ("QUERY", "GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS")


class Management:
    """Does what requests ask for, through `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.values_max = ANSWER_VALUES_MAX
        self.operations: dict[str, Callable[[Request, float], tuple[int, Body]]] = {
            "QUERY": self.on_query,
            "GET-TYPES": self.on_get_types,
            "GET-ATTRIBUTES": self.on_get_attributes,
            "GET-OPERATIONS": self.on_get_operations,
            "CREATE": self.on_create,
            "READ": self.on_read,
            "UPDATE": self.on_update,
            "DELETE": self.on_delete,
            "PURGE": self.on_purge,
            "REBALANCE": self.on_rebalance,
            "CLOSE-GROUP": self.on_close_group,
            "PARK": self.on_park,
            "UNPARK": self.on_park,
            "RETIRE": self.on_retire,
            "TRACE": self.on_trace,
        }

    def answer(self, request: Request, now: float) -> bytes:
        """Do it, and return the encoded answer, whatever came of it."""
        body: Body
        try:
            handler = self.operations.get(request.operation)
            if handler is None:
                raise RefusedError(f"unknown operation {request.operation[:64]}", "not-implemented")
            status, body = handler(request, now)
            text = "OK"
        except BrokerError as error:
            status, body, text = STATUS.get(error.code, STATUS_FAILED), {}, error.text
        return encode_answer(request.message, status, text, body)

    def on_query(self, request: Request, now: float) -> tuple[int, Body]:
        """Show a table of everything of one type."""
        type_name = type_name_of(str(request.option("entityType") or ""))
        if type_name not in ATTRIBUTES:
            raise RefusedError(f"there is no type {type_name!r}", "invalid")
        asked = request.body.get("attributeNames")
        names = [str(name) for name in asked] if isinstance(asked, list) else []
        names = names or list(ATTRIBUTES[type_name])
        found, total = self.admin.page(
            type_name,
            now,
            request.number("offset", 0),
            min(request.number("count", ROWS_MAX), ROWS_MAX),
            queue=str(request.option("queue") or ""),
            waiting=request.option("waiting") is True,
        )
        rows = [[row.get(name) for name in names] for row in found]
        return 200, {
            "attributeNames": names,
            "results": _page(rows, self.values_max),
            "total": total,
        }

    def on_get_types(self, request: Request, now: float) -> tuple[int, Body]:
        """Show the types there are."""
        return 200, {TYPE_PREFIX + name: [BASE_TYPE] for name in _asked(request)}

    def on_get_attributes(self, request: Request, now: float) -> tuple[int, Body]:
        """Show the attributes of each type."""
        return 200, {TYPE_PREFIX + name: list(ATTRIBUTES[name]) for name in _asked(request)}

    def on_get_operations(self, request: Request, now: float) -> tuple[int, Body]:
        """Show what can be done with each type."""
        found: dict[str, Plain] = {
            TYPE_PREFIX + name: list(ENTITY_OPERATIONS[name]) for name in _asked(request)
        }
        return 200, found | {BASE_TYPE: list(OWN_OPERATIONS)}

    def on_create(self, request: Request, now: float) -> tuple[int, Body]:
        """Make a queue or a topic."""
        if not request.name:
            raise RefusedError("CREATE without a name", "invalid")
        return 201, self.admin.create(request.type_name, request.name, request.arguments(), now)

    def on_read(self, request: Request, now: float) -> tuple[int, Body]:
        """Show one thing."""
        return 200, self.admin.read(request.type_name, request.name, now)

    def on_update(self, request: Request, now: float) -> tuple[int, Body]:
        """Change a queue."""
        return 200, self.admin.update(request.type_name, request.name, request.arguments(), now)

    def on_delete(self, request: Request, now: float) -> tuple[int, Body]:
        """Remove a thing; `if_empty` and `if_unused` make it careful."""
        self.admin.delete(
            request.type_name,
            request.name,
            now,
            if_empty=request.option("if_empty") is True,
            if_unused=request.option("if_unused") is True,
        )
        return 204, {}

    def on_purge(self, request: Request, now: float) -> tuple[int, Body]:
        """Empty a queue."""
        return 200, {"purged": self.admin.purge(request.name, now)}

    def on_rebalance(self, request: Request, now: float) -> tuple[int, Body]:
        """Share out a queue's groups anew."""
        self.admin.rebalance(request.name, now)
        return 200, {}

    def on_close_group(self, request: Request, now: float) -> tuple[int, Body]:
        """Take a group from its owner."""
        closed = self.admin.close_group(request.name, str(request.option("group") or ""), now)
        return 200, {"closed": closed}

    def on_park(self, request: Request, now: float) -> tuple[int, Body]:
        """Stop a group, or let it go on."""
        parked = request.operation == "PARK"
        self.admin.park(request.name, str(request.option("group") or ""), now, parked=parked)
        return 200, {"parked": parked}

    def on_retire(self, request: Request, now: float) -> tuple[int, Body]:
        """Give a consumer no new groups."""
        queue, _, number = request.name.rpartition("/")
        if not number.isdigit():
            raise RefusedError("a consumer's name is queue/number", "invalid")
        self.admin.retire(queue, int(number), now)
        return 200, {}

    def on_trace(self, request: Request, now: float) -> tuple[int, Body]:
        """Tell what has happened on a queue since the last event known."""
        return 200, self.admin.trace(request.name, request.number("after", 0), now)


class RequestLink(IncomingLink):
    """A link to `$management`."""

    def take(self, delivery: int, data: bytes) -> None:
        """Do what a request says."""
        engine = self.engine
        serve(engine, AmqpMessage.decode(data, engine.wall_ms))
        self.answer(delivery, ACCEPTED_STATE)


def serve(engine: AmqpEngine, message: AmqpMessage) -> None:
    """Do what a request says and send the answer to where it asks, when it is safe."""
    assert engine.session is not None
    payload = engine.management.answer(Request(message), engine.now)
    reply_to = message.lookup("amqp.reply_to")
    if isinstance(reply_to, str) and reply_to:
        answer = AmqpMessage.decode(payload, engine.wall_ms)
        _reply_when_safe(engine, engine.session, engine.nodes.replies(reply_to), answer)


def _reply_when_safe(
    engine: AmqpEngine, session: Session, place: tuple[Destination, ...], answer: AmqpMessage
) -> None:
    """Answer once what was done is on disk, as a receipt would; at once if nothing was."""

    def reply() -> None:
        if not session.is_gone:
            with suppress(RefusedError):  # its queue went meanwhile: there is nobody to tell
                engine.broker.publishing.answer(session, place, answer)

    engine.broker.promises.after(session, reply)


def _page(rows: list[list[Plain]], values_max: int) -> list[list[Plain]]:
    """Return as many rows as one answer can hold, one at least."""
    left = values_max
    for number, row in enumerate(rows):
        left -= _values(row)
        if left < 0 and number:
            return rows[:number]
    return rows


def _values(value: Plain) -> int:
    """Count a value with all that are in it."""
    if isinstance(value, dict):
        return 1 + len(value) + sum([_values(each) for each in value.values()])
    if isinstance(value, list | tuple):
        return 1 + sum([_values(each) for each in value])
    return 1


def _asked(request: Request) -> tuple[str, ...]:
    asked = type_name_of(str(request.option("entityType") or ""))
    if asked and asked not in ATTRIBUTES:
        raise RefusedError(f"there is no type {asked}", "not-found")
    return (asked,) if asked else tuple(ATTRIBUTES)
