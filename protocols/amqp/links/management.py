# Compiled by mypyc: see setup.py.
"""Management: the node `$management`, requests and answers as AMQP messages.

A request names `operation`, `type` and `name` (or `identity`) in its application properties. Its
body is a map. The answer goes to the request's reply-to. It has `statusCode`, `statusDescription`
and a map (the AMQP management draft, as Qpid's router and Broker-J implement it). A request without
a reply-to is carried out without an answer. `core.management.admin` does the work; this file only
translates.

Requests come on a link to `$management`, or on a link without a target if their `to` names it.
Answers go to any address, such as a dynamic node's. A client may also have a receiving link from
`$management`. It then gives that link's target address, or its name, as reply-to (as in Broker-J).

| operation                             | asks for                                              |
|---------------------------------------|-------------------------------------------------------|
| QUERY                                 | `entityType`, `offset`, `count`; body attributeNames; |
|                                       | `queue`: only its groups or consumers; `waiting`:     |
|                                       | only groups that wait, the most urgent first, or      |
|                                       | connections whose producers do. The answer's `total`  |
|                                       | says how many rows there are                          |
| GET-TYPES, -ATTRIBUTES, -OPERATIONS,  | optionally `entityType`                               |
| GET-ANNOTATIONS                       |                                                       |
| GET-MGMT-NODES                        |                                                       |
| CREATE, READ, UPDATE, DELETE          | type and name; body: attributes, or `arguments`. To   |
|                                       | delete a job stops it. A group is read by its name    |
|                                       | (`queue/group`), or by its queue's name and `group`   |
| PURGE, REBALANCE                      | a queue by name                                       |
| EXPORT, IMPORT                        | `passwords`; a `document` (JSON), `dry_run`           |
| PAUSE, RESUME                         | a queue by name; `way` (both), of PAUSE a `reason`    |
| CLOSE-GROUP, PARK, UNPARK             | a queue by name, and `group`; of PARK a `reason`      |
| MOVE-GROUP, RETRY and others          | see `management_transfers`                            |
| RETIRE                                | a consumer by name (`queue/number`)                   |
| TRACE                                 | a queue by name, and `after`: the last event known    |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, RefusedError
from covey.core.jobs.job import Job
from covey.core.management.admin import Admin
from covey.core.management.definitions import bring_in, export, parse
from covey.core.management.describe import Plain
from covey.core.naming.destination import Destination
from covey.core.queue.pause import BOTH
from covey.core.session import Session
from covey.protocols.amqp.codec.checker import VALUES_MAX
from covey.protocols.amqp.links.management_query import ROWS_MAX, Query
from covey.protocols.amqp.links.management_request import Body, Request, encode_answer
from covey.protocols.amqp.links.management_transfers import OPERATIONS as TRANSFERS
from covey.protocols.amqp.links.management_types import (
    SELF,
    SELF_NAME,
    SELF_TYPE,
    TYPES,
    all_attributes,
    attributes_of,
    entity,
    full_name,
    type_name_of,
)
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.outcomes import ACCEPTED_STATE

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine


MANAGEMENT_ADDRESS: Final = "$management"

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

# Values in the rows of one answer. The broker itself refuses a message with more than VALUES_MAX
# values, and the answer has some besides its rows.
ANSWER_VALUES_MAX: Final = VALUES_MAX - 1000

ENTITY_OPERATIONS: Final[dict[str, tuple[str, ...]]] = {
    "broker": ("READ", "EXPORT", "IMPORT"),
    "queue": ("CREATE", "READ", "UPDATE", "DELETE", "PURGE", "REBALANCE", "PAUSE", "RESUME",
              "CLOSE-GROUP", "PARK", "UNPARK", "TRACE", *TRANSFERS),
    "topic": ("CREATE", "READ", "DELETE"),
    "subscription": ("READ", "DELETE"),
    "group": ("READ",),
    "connection": ("READ", "DELETE"),
    "consumer": ("READ", "RETIRE"),
    "job": ("READ", "DELETE"),
    "user": ("CREATE", "READ", "UPDATE", "DELETE"),
    "permission": ("CREATE", "READ", "UPDATE", "DELETE"),
    "policy": ("CREATE", "READ", "UPDATE", "DELETE"),
    "space": ("READ", "UPDATE"),
    "node": ("READ", "UPDATE"),
    SELF_TYPE: ("READ", "QUERY", "GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-ANNOTATIONS",
                "GET-MGMT-NODES"),
}  # fmt: skip

TOPIC_ARGUMENTS: Final = frozenset(("durable",))  # qpid-config sends it; it has no effect


Result = tuple[int, Body]


@dataclass(frozen=True, slots=True)
class Later:
    """A job, and the call that returns its result when the job is over."""

    job: Job
    result: Callable[[], Result]


class Management:
    """Does what requests ask for, through `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.values_max = ANSWER_VALUES_MAX
        self.operations: dict[str, Callable[[Request, float], Result | Later]] = {
            "QUERY": self.on_query,
            "GET-TYPES": self.on_get_types,
            "GET-ATTRIBUTES": self.on_get_attributes,
            "GET-OPERATIONS": self.on_get_operations,
            "GET-ANNOTATIONS": self.on_get_annotations,
            "GET-MGMT-NODES": self.on_get_mgmt_nodes,
            "CREATE": self.on_create,
            "READ": self.on_read,
            "UPDATE": self.on_update,
            "DELETE": self.on_delete,
            "PURGE": self.on_purge,
            "REBALANCE": self.on_rebalance,
            "EXPORT": self.on_export,
            "IMPORT": self.on_import,
            "PAUSE": self.on_pause,
            "RESUME": self.on_pause,
            "CLOSE-GROUP": self.on_close_group,
            "PARK": self.on_park,
            "UNPARK": self.on_park,
            "RETIRE": self.on_retire,
            "TRACE": self.on_trace,
            **dict.fromkeys(TRANSFERS, self.on_transfer),
        }

    def answer(self, request: Request, now: float, tell: Callable[[bytes], None]) -> None:
        """Carry a request out; when it is done or refused, call `tell` with the encoded answer."""
        body: Body
        try:
            handler = self.operations.get(request.operation)
            if handler is None:
                raise RefusedError(f"unknown operation {request.operation[:64]}", "not-implemented")
            found = handler(request, now)
            if isinstance(found, Later):
                message, result = request.message, found.result
                found.job.then(lambda: tell(_encoded(message, result)))
                return
            status, body = found
            text = ""
        except BrokerError as error:
            status, body, text = STATUS.get(error.code, STATUS_FAILED), {}, error.text
        tell(encode_answer(request.message, status, text, body))

    def on_query(self, request: Request, now: float) -> Later:
        """Return a table of all entities, or of all entities of one type."""
        request.check_map()
        types = _asked(request, "invalid")
        asked = request.body.get("attributeNames")
        if asked is not None and not isinstance(asked, list):
            raise RefusedError("attributeNames is not a list", "invalid")
        names = [str(name) for name in asked or ()]
        names = names or (attributes_of(types[0]) if len(types) == 1 else all_attributes())
        query = Query(self.admin, request, types, names, now)
        values_max = self.values_max
        job = self.admin.listing("QUERY", lambda _: query.steps(values_max), self.admin.session)
        return Later(job, lambda: (200, query.body()))

    def on_get_types(self, request: Request, now: float) -> Result:
        """Return the types; none extends another."""
        return 200, {full_name(name): [] for name in _asked(request)}

    def on_get_attributes(self, request: Request, now: float) -> Result:
        """Show the attributes of each type."""
        return 200, {full_name(name): attributes_of(name) for name in _asked(request)}

    def on_get_operations(self, request: Request, now: float) -> Result:
        """Show what can be done with each type."""
        return 200, {full_name(name): list(ENTITY_OPERATIONS[name]) for name in _asked(request)}

    def on_get_annotations(self, request: Request, now: float) -> Result:
        """Show the annotations of each type: there are none."""
        return 200, {full_name(name): [] for name in _asked(request)}

    def on_get_mgmt_nodes(self, request: Request, now: float) -> Result:
        """Show the other management nodes that are known: there are none."""
        return 200, []

    def on_create(self, request: Request, now: float) -> Result:
        """Create an entity, such as a queue or a topic."""
        request.name = request.name or str(request.body.get("name") or "")
        type_name, name = _named(request)
        arguments = request.arguments()
        unknown = arguments.keys() - TOPIC_ARGUMENTS if type_name == "topic" else ()
        if unknown:
            raise RefusedError(f"a topic has no {min(unknown)}", "invalid")
        return 201, entity(type_name, self.admin.create(type_name, name, arguments, now))

    def on_read(self, request: Request, now: float) -> Result:
        """Return the attributes of one entity."""
        if request.type_name == SELF_TYPE and request.name in (SELF_NAME, ""):
            return 200, SELF
        type_name, name = _named(request)
        group = request.option("group") if type_name == "group" else None
        if group is not None:  # a queue's name may hold slashes, as written in STOMP
            return 200, entity(type_name, self.admin.group(name, str(group), now))
        return 200, entity(type_name, self.admin.read(type_name, name, now))

    def on_update(self, request: Request, now: float) -> Result:
        """Change the attributes of an entity."""
        type_name, name = _named(request)
        return 200, entity(type_name, self.admin.update(type_name, name, request.arguments(), now))

    def on_delete(self, request: Request, now: float) -> Result:
        """Delete an entity; with `if_empty` or `if_unused` only if that holds."""
        type_name, name = _named(request)
        self.admin.delete(
            type_name,
            name,
            now,
            if_empty=request.option("if_empty") is True,
            if_unused=request.option("if_unused") is True,
        )
        return 204, {}

    def on_purge(self, request: Request, now: float) -> Result | Later:
        """Empty a queue; the answer comes when that is done."""
        purge = self.admin.purge(request.the_name(), now)
        return Later(purge, lambda: (200, {"purged": purge.count}))

    def on_rebalance(self, request: Request, now: float) -> Result:
        """Distribute a queue's groups anew, or return what would move."""
        if request.option("dry_run") is not True:
            return 200, {"moved": self.admin.rebalance(request.the_name(), now)}
        steps = self.admin.rebalance_plan(request.the_name())
        shown: list[Plain] = list(steps[:ROWS_MAX])
        return 200, {"moved": 0, "would_move": len(steps), "steps": shown}

    def on_export(self, request: Request, now: float) -> Later:
        """Return everything that was declared, as one JSON text."""
        work = export(self.admin, passwords=request.option("passwords") is True)
        return Later(work, lambda: (200, {"document": work.text}))

    def on_import(self, request: Request, now: float) -> Later:
        """Import the text of an EXPORT, or return what it would change."""
        text = str(request.option("document") or "")
        is_dry = request.option("dry_run") is True
        work = bring_in(self.admin, parse(text), dry_run=is_dry)
        return Later(work, lambda: (200, {"result": json.dumps(work.result())}))

    def on_pause(self, request: Request, now: float) -> Result:
        """Stop a queue, or let it go on."""
        name, way = request.the_name(), str(request.option("way") or BOTH)
        if request.operation == "RESUME":
            return 200, {"paused": self.admin.resume(name, way, now)}
        reason = str(request.option("reason") or "")
        return 200, {"paused": self.admin.pause(name, way, now, reason)}

    def on_close_group(self, request: Request, now: float) -> Result:
        """Take a group from its owner."""
        closed = self.admin.close_group(request.the_name(), str(request.option("group") or ""), now)
        return 200, {"closed": closed}

    def on_park(self, request: Request, now: float) -> Result:
        """Stop a group, or let it go on."""
        parked = request.operation == "PARK"
        group, reason = str(request.option("group") or ""), str(request.option("reason") or "")
        self.admin.park(request.the_name(), group, now, parked=parked, reason=reason)
        return 200, {"parked": parked}

    def on_transfer(self, request: Request, now: float) -> Result | Later:
        """Carry out an operation of `management_transfers`."""
        return Later(*TRANSFERS[request.operation](self.admin, request, now))

    def on_retire(self, request: Request, now: float) -> Result:
        """Give a consumer no new groups."""
        queue, _, number = request.the_name().rpartition("/")
        if not number.isdigit():
            raise RefusedError("a consumer's name is queue/number", "invalid")
        self.admin.retire(queue, int(number), now)
        return 200, {}

    def on_trace(self, request: Request, now: float) -> Result:
        """Return what has happened on a queue since the last event that the client knows."""
        return 200, self.admin.trace(request.the_name(), request.number("after", 0), now)


class RequestLink(IncomingLink):
    """A link to `$management`."""

    def take(self, delivery: int, data: bytes) -> None:
        """Carry out a request."""
        engine = self.engine
        serve(engine, AmqpMessage.decode(data, engine.wall_ms))
        self.answer(delivery, ACCEPTED_STATE)


def serve(engine: AmqpEngine, message: AmqpMessage) -> None:
    """Carry out a request, and send the answer to its reply-to when the result is safe."""
    assert engine.session is not None
    session = engine.session
    reply_to = message.lookup("amqp.reply_to")
    has_reply = isinstance(reply_to, str) and bool(reply_to)
    place = engine.nodes.replies(str(reply_to)) if has_reply else ()

    def tell(payload: bytes) -> None:
        if place:
            _reply_when_safe(engine, session, place, AmqpMessage.decode(payload, engine.wall_ms))

    engine.management.answer(Request(message), engine.now, tell)


def _encoded(message: AmqpMessage, result: Callable[[], Result]) -> bytes:
    try:
        status, body = result()
    except BrokerError as error:
        return encode_answer(message, STATUS.get(error.code, STATUS_FAILED), error.text, {})
    return encode_answer(message, status, "", body)


def _reply_when_safe(
    engine: AmqpEngine, session: Session, place: tuple[Destination, ...], answer: AmqpMessage
) -> None:
    """Send an answer when the request's changes are on disk; at once if there are none."""

    def reply() -> None:
        if not session.is_gone:
            with suppress(RefusedError):  # the answer's queue is gone: nobody waits for it
                engine.broker.publishing.answer(session, place, answer)

    engine.broker.promises.after(session, reply)


def _asked(request: Request, refusal: str = "not-found") -> tuple[str, ...]:
    """Return the types that a request asks for: one, or all."""
    text = str(request.option("entityType") or "")
    asked = type_name_of(text)
    if asked and asked not in TYPES:
        raise RefusedError(f"there is no type {text!r}", refusal)
    return (asked,) if asked else TYPES


def _named(request: Request) -> tuple[str, str]:
    """Return the type and name of a request's entity; raises RefusedError if they are missing."""
    request.check_type()
    if request.type_name != SELF_TYPE:
        return request.type_name, request.the_name()
    if request.operation == "READ":
        raise RefusedError(f"there is no {SELF_TYPE} {request.name}", "not-found")
    raise RefusedError(f"an {SELF_TYPE} takes no {request.operation}", "invalid")
