"""Management: the handlers of `/api/v1` that look at the broker and change it.

All of them go through `core.management.admin`, as `$management` does. Nothing is decided here.
Lists come in pages, since a queue may have a million groups.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from covey.core.errors import RefusedError
from covey.core.management import cluster
from covey.core.management.describe import Attributes, Plain
from covey.core.management.pages import Walk
from covey.protocols.http.answer import empty_answer, json_answer, list_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.schemas import (
    DrainBody,
    MoveSpaceBody,
    PauseBody,
    QueueBody,
    ReasonBody,
    WayBody,
)

STEPS_SHOWN: Final = 1000  # groups of a rebalance that is only planned


async def list_entities(ask: Ask) -> Response:
    """Show one page of all things of a type."""
    start, count = ask.number("offset"), ask.number("limit")
    return await _listed(ask, ask.admin.walk(ask.route.entity, ask.now, start, count))


async def _listed(ask: Ask, walk: Walk) -> Response:
    """Answer with a page of a list when it was walked through."""
    listing = ask.admin.listing(ask.route.path, walk)
    await ask.until_over(listing)
    return await list_answer(listing.page.rows, listing.page.total)


async def read_entity(ask: Ask) -> Response:
    """Show one thing."""
    return json_answer(ask.admin.read(ask.route.entity, ask.name, ask.now))


async def read_broker(ask: Ask) -> Response:
    """Show the broker with its totals."""
    return json_answer(ask.admin.entities("broker", ask.now)[0])


async def create_entity(ask: Ask) -> Response:
    """Make a queue or a topic."""
    arguments = ask.body.arguments if isinstance(ask.body, QueueBody) else {}
    made = ask.admin.create(ask.route.entity, ask.name, arguments, ask.now)
    return json_answer(made, ask.route.status)


async def update_queue(ask: Ask) -> Response:
    """Change some arguments of a queue while it works."""
    assert isinstance(ask.body, QueueBody)
    return json_answer(ask.admin.update("queue", ask.name, ask.body.arguments, ask.now))


async def delete_entity(ask: Ask) -> Response:
    """Remove a thing, or refuse if it is in use and the query says so."""
    ask.admin.delete(
        ask.route.entity,
        ask.name,
        ask.now,
        if_empty=ask.settings.get("if_empty") is True,
        if_unused=ask.settings.get("if_unused") is True,
    )
    return empty_answer()


async def purge_queue(ask: Ask) -> Response:
    """Drop every message that no consumer holds."""
    purge = ask.admin.purge(ask.name, ask.now)
    await ask.until_over(purge)
    return json_answer({"purged": purge.count})


async def rebalance_queue(ask: Ask) -> Response:
    """Distribute the groups anew, or only tell what would move."""
    if not ask.is_set("dry_run"):
        return json_answer({"moved": ask.admin.rebalance(ask.name, ask.now)})
    steps = ask.admin.rebalance_plan(ask.name)
    shown: list[Plain] = list(steps[:STEPS_SHOWN])
    return json_answer({"moved": 0, "would_move": len(steps), "steps": shown})


async def pause_queue(ask: Ask) -> Response:
    """Stop a queue for producers, consumers or both."""
    body = ask.body if isinstance(ask.body, PauseBody) else PauseBody()
    return json_answer({"paused": ask.admin.pause(ask.name, body.way, ask.now, body.reason)})


async def resume_queue(ask: Ask) -> Response:
    """Let a queue go on."""
    body = ask.body if isinstance(ask.body, WayBody) else WayBody()
    return json_answer({"paused": ask.admin.resume(ask.name, body.way, ask.now)})


async def list_groups(ask: Ask) -> Response:
    """Show one page of a queue's groups: all, or those that wait, the most urgent first."""
    start, count = ask.number("offset"), ask.number("limit")
    waiting, parked = ask.is_set("waiting"), ask.is_set("parked")
    walk = ask.admin.groups(ask.name, ask.now, start, count, waiting=waiting, parked=parked)
    return await _listed(ask, walk)


async def list_consumers(ask: Ask) -> Response:
    """Show one page of a queue's consumers."""
    start, count = ask.number("offset"), ask.number("limit")
    return await _listed(ask, ask.admin.consumers(ask.name, start, count))


async def read_group(ask: Ask) -> Response:
    """Show one group."""
    return json_answer(ask.admin.group(ask.name, ask.names["group"], ask.now))


async def close_group(ask: Ask) -> Response:
    """Take a group from its owner; a group without messages is only forgotten."""
    had_messages = ask.admin.close_group(ask.name, ask.names["group"], ask.now)
    return json_answer({"had_messages": had_messages})


async def park_group(ask: Ask) -> Response:
    """Stop a group."""
    return _park(ask, parked=True)


async def unpark_group(ask: Ask) -> Response:
    """Let a group go on."""
    return _park(ask, parked=False)


async def retire_consumer(ask: Ask) -> Response:
    """Give a consumer no new groups."""
    number = ask.names["consumer"]
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise RefusedError(f"{number[:40]!r} is not the number of a consumer", "invalid")
    ask.admin.retire(ask.name, int(number), ask.now)
    return empty_answer()


async def trace_queue(ask: Ask) -> Response:
    """Tell what has happened on a queue since the last event known."""
    return json_answer(ask.admin.trace(ask.name, ask.number("after"), ask.now))


async def set_entry(ask: Ask) -> Response:
    """Set a user, a permission or a policy, whether it exists already or not."""
    assert ask.body is not None
    fields = ask.body.model_dump(exclude_unset=True)
    fields = fields.get("settings", fields)
    admin, kind = ask.admin, ask.route.entity
    try:
        admin.read(kind, ask.name, ask.now)
    except RefusedError as error:
        if error.code != "not-found":
            raise
        return json_answer(admin.create(kind, ask.name, fields, ask.now))
    return json_answer(admin.update(kind, ask.name, fields, ask.now))


async def read_cluster(ask: Ask) -> Response:
    """Show the brokers of the cluster, and who serves what."""
    return json_answer(cluster.listing(ask.broker.shared.cluster, ask.now))


async def move_space(ask: Ask) -> Response:
    """Have another broker serve a virtual host."""
    assert isinstance(ask.body, MoveSpaceBody)
    wanted = {"owner": ask.body.node}
    return json_answer(ask.admin.update("space", ask.name, wanted, ask.now), ask.route.status)


async def drain_node(ask: Ask) -> Response:
    """Have a broker give away all its virtual hosts, or let it serve some again."""
    assert isinstance(ask.body, DrainBody)
    wanted = {"draining": ask.body.draining}
    return json_answer(ask.admin.update("node", ask.name, wanted, ask.now), ask.route.status)


def users_of(ask: Ask) -> list[Attributes]:
    """Return all users, without anything about their passwords."""
    return [{"name": user.name, "roles": list(user.roles)} for user in ask.broker.settings.users]


def _park(ask: Ask, *, parked: bool) -> Response:
    reason = ask.body.reason if isinstance(ask.body, ReasonBody) else ""
    ask.admin.park(ask.name, ask.names["group"], ask.now, parked=parked, reason=reason)
    return empty_answer()
