"""Definitions: everything that was declared, as one JSON document, out and in again.

Queues with their arguments and durable subscriptions come back as they were. Users are listed for
people, without secrets, and an import leaves them alone.

Importing is idempotent: what exists is changed to what the document says. An entry that is refused
ends the import with a sentence that names the entry. What stood before it is done, and the whole
document can be imported again.
"""

from __future__ import annotations

import time

from starlette.responses import Response

from covey.core.errors import RefusedError
from covey.core.management.describe import Attributes, Plain, queue
from covey.core.management.inspection import SYNTAX
from covey.core.naming.destination import Destination
from covey.core.selector import Selector, compile_selector
from covey.protocols.http.answer import json_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.management import users_of
from covey.protocols.http.schemas import (
    DEFINITIONS_VERSION,
    DefinitionsBody,
    QueueDefinition,
    SubscriptionDefinition,
)


async def export_definitions(ask: Ask) -> Response:
    """Write down all declared queues, durable subscriptions and users."""
    host = ask.host
    queues: list[Plain] = [
        {"name": name, "arguments": queue(host.queues[name], host)["arguments"]}
        for name in sorted(host.declared)
    ]
    subscriptions: list[Plain] = [
        {
            "name": durable.name,
            "destinations": [SYNTAX.render(one) for one in durable.destinations],
            "selector": "" if durable.binding.selector is None else durable.binding.selector.text,
        }
        for durable in host.durables.values()
    ]
    users: list[Plain] = list(users_of(ask))
    document: Attributes = {
        "version": DEFINITIONS_VERSION,
        "queues": queues,
        "subscriptions": subscriptions,
        "users": users,
    }
    return json_answer(document)


async def import_definitions(ask: Ask) -> Response:
    """Make or change everything a document defines."""
    body = ask.body
    assert isinstance(body, DefinitionsBody)
    with ask.admin.acting("import", "broker", ""):
        changed: list[Plain] = [_import_queue(ask, one) for one in body.queues]
        if body.subscriptions:
            changed += _import_subscriptions(ask, body.subscriptions)
    return json_answer({"changed": changed, "users_left_alone": len(body.users)})


def _import_queue(ask: Ask, definition: QueueDefinition) -> str:
    admin = ask.admin
    try:
        admin.queue(definition.name)
    except RefusedError as error:
        if error.code != "not-found":
            raise
        admin.create("queue", definition.name, definition.arguments, ask.now)
    else:
        admin.update("queue", definition.name, definition.arguments, ask.now)
    return f"queue {definition.name}"


def _import_subscriptions(ask: Ask, definitions: tuple[SubscriptionDefinition, ...]) -> list[Plain]:
    """Make durable subscriptions in the name of who asks, whose permissions hold."""
    session = ask.broker.open(ask.host, ask.identity, ask.now)
    try:
        for one in definitions:
            with ask.admin.acting("declare", "subscription", one.name):
                name = SYNTAX.durable(one.name).name
                ask.broker.make_durable(session, name, _topics(one), _selector(ask, one), ask.now)
    finally:
        ask.broker.drop(session, time.monotonic())
    return [f"subscription {one.name}" for one in definitions]


def _topics(definition: SubscriptionDefinition) -> tuple[Destination, ...]:
    found: list[Destination] = []
    for text in definition.destinations:
        try:
            found.extend(SYNTAX.parse(text, allow_patterns=True))
        except RefusedError as error:
            raise _refused(definition, error) from error
    return tuple(found)


def _selector(ask: Ask, definition: SubscriptionDefinition) -> Selector | None:
    if not definition.selector:
        return None
    limits = ask.broker.limits
    try:
        return compile_selector(
            definition.selector,
            length_max=limits.selector_length_max,
            depth_max=limits.selector_depth_max,
        )
    except RefusedError as error:
        raise _refused(definition, error) from error


def _refused(definition: SubscriptionDefinition, error: RefusedError) -> RefusedError:
    return RefusedError(f"subscription {definition.name}: {error.text}", error.code)
