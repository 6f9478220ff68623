"""Routes: the table of all requests over HTTP.

One row is one method and path. `routing.Route` says what is in a row. The OpenAPI document is made
from this table. So is the test that tries every row as every kind of user.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from covey import __version__
from covey.core.management.describe import Attributes
from covey.protocols.http import (
    configuration,
    listing,
    management,
    messages,
    transfers,
)
from covey.protocols.http.answer import json_answer, text_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.console import assets, hosts, live, sign_in
from covey.protocols.http.console.events import MEDIA_TYPE as EVENTS
from covey.protocols.http.metrics import MEDIA_TYPE, merged
from covey.protocols.http.openapi import document
from covey.protocols.http.routing import Handler, Need, Param, Route
from covey.protocols.http.schemas import (
    Body,
    BuryGroupBody,
    BurySeqsBody,
    DefinitionsBody,
    DrainBody,
    HeldBody,
    MessageBody,
    MoveGroupBody,
    MoveSeqsBody,
    MoveSpaceBody,
    PauseBody,
    PermissionBody,
    PolicyBody,
    QueueBody,
    ReasonBody,
    RetryBody,
    SeqsBody,
    SignInBody,
    UserBody,
    WayBody,
)

API: Final = "/api/v1"
PAGE_MAX: Final = 1000  # entries of one answer
PAGE_USUAL: Final = 100

HOST: Final = Param("host", "", "a host name of the virtual host; the first one if none is given")
LIMIT: Final = Param("limit", PAGE_USUAL, "at most so many entries", least=1, most=PAGE_MAX)
OFFSET: Final = Param("offset", 0, "skip so many entries")
SEARCH: Final = Param("search", "", "only those whose name, or another word, has this in it")
SORT: Final = Param("sort", "", "the attribute to sort by; without one, in the order they came")
ORDER: Final = Param("order", "", "asc or desc; else texts begin with A, numbers with the largest")
SPAN: Final = Param("span", 600, "seconds; up to 600 one sample a second, else a minute", 2, 86_400)
RESUME: Final = Param("resume", "", "the id of the last event known, as Last-Event-ID")
GROUPS: Final = Param("groups", 5000, "at most so many groups, the largest; 0: none", 0, 10_000)
USER: Final = Param("user", "", "a user's name; none: who asks")
VERB: Final = Param("verb", "manage", "connect, create, send, consume, browse, destroy or manage")
ON: Final = Param("on", "", "a destination, as /queue/orders; none: the broker")
WAITING: Final = Param("waiting", False, "only groups that wait, the most urgent first")
ONLY_PARKED: Final = Param("parked", False, "only groups that are parked")
DRY_RUN: Final = Param("dry_run", False, "tell what would move, and move nothing")
DRY_IMPORT: Final = Param("dry_run", False, "tell what would change, and change nothing")
PASSWORDS: Final = Param("passwords", False, "with the records of passwords; needs the role admin")
FROM_SEQ: Final = Param("from_seq", 0, "the first sequence number to look at")
GROUP: Final = Param("group", "", "only messages of this group")
SELECTOR: Final = Param("selector", "", "only messages that it selects")
AFTER: Final = Param("after", 0, "the number of the last event known")
IF_EMPTY: Final = Param("if_empty", False, "refuse if it holds messages")
IF_UNUSED: Final = Param("if_unused", False, "refuse if somebody reads from it")


async def _live(ask: Ask) -> Response:
    """Answer that the event loop is running."""
    return json_answer({"status": "ok"})


async def _ready(ask: Ask) -> Response:
    """Answer whether messages can be taken, why not, and how much of a store is damaged.

    Strangers may ask. They learn how many damages there are, but no queue's name.
    """
    why = ask.unready()
    for place, found in (await ask.others()).items():
        if found is None:
            why = why or f"worker {place} does not answer"
        elif found[0] != 200:
            why = why or str(json.loads(found[1]).get("status"))
    answer: Attributes = {"status": why or "ok"}
    damages = ask.directory.damages
    if damages:
        brokers = ask.directory.brokers.values()
        answer["damages"] = len(damages)
        answer["lost"] = [loss for one in brokers for loss in one.commits.store.losses]
    return json_answer(answer, 503 if why else 200)


async def _metrics(ask: Ask) -> Response:
    return await _of_all(ask, await ask.metrics.totals(ask.now), is_labelled=True)


async def _queue_metrics(ask: Ask) -> Response:
    return await _of_all(ask, await ask.metrics.queues())


async def _group_metrics(ask: Ask) -> Response:
    return await _of_all(ask, await ask.metrics.groups(ask.now))


async def _of_all(ask: Ask, text: str, *, is_labelled: bool = False) -> Response:
    """Answer with the metrics of all workers; totals have the worker's number as a label."""
    if ask.owners is not None and ask.owners.places:
        found = await ask.others()
        texts = {place: one and one[1].decode() for place, one in found.items()}
        text = merged({ask.owners.here: text, **texts}, is_labelled=is_labelled)
    return text_answer(text, MEDIA_TYPE)


async def _openapi(ask: Ask) -> Response:
    return json_answer(document(ROUTES, __version__))


def _probe(path: str, handler: Handler, summary: str) -> Route:
    return Route(method="GET", path=path, need=Need.NOTHING, handler=handler, summary=summary)


def _shown(path: str, need: Need, handler: Handler, media_type: str, summary: str) -> Route:
    return Route(
        method="GET",
        path=path,
        need=need,
        handler=handler,
        summary=summary,
        media_type=media_type,
    )


def _api(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    need: Need = Need.MANAGE,
    action: str = "",
    entity: str = "",
    query: tuple[Param, ...] = (),
    body: type[Body] | None = None,
    status: int = 200,
    media_type: str = "application/json",
) -> Route:
    return Route(
        method=method,
        path=API + path,
        need=need,
        handler=handler,
        summary=summary,
        action=action,
        entity=entity,
        query=(*query, HOST),
        body=body,
        status=status,
        media_type=media_type,
    )


def _list(path: str, entity: str) -> Route:
    query = (LIMIT, OFFSET)
    summary = f"List {path[1:]}"
    return _api("GET", path, management.list_entities, summary, entity=entity, query=query)


def _sorted_list(path: str, entity: str, handler: Handler, need: Need = Need.SOME) -> Route:
    query = (LIMIT, OFFSET, SEARCH, SORT, ORDER)
    return _api("GET", path, handler, f"List {path[1:]}", need=need, entity=entity, query=query)


def _events(
    path: str, handler: Handler, summary: str, *query: Param, need: Need = Need.MANAGE
) -> Route:
    return _api(
        "GET",
        f"/events{path}",
        handler,
        summary,
        need=need,
        entity="queue" if need is Need.SOME else "",
        query=(*query, RESUME),
        media_type=EVENTS,
    )


def _read(path: str, entity: str) -> Route:
    return _api("GET", path, management.read_entity, f"Show one {entity}", entity=entity)


def _delete(path: str, entity: str, *query: Param, summary: str) -> Route:
    return _api(
        "DELETE",
        path,
        management.delete_entity,
        summary,
        action={"connection": "close", "job": "stop"}.get(entity, "delete"),
        entity=entity,
        query=query,
        status=204,
    )


def _action(path: str, handler: Handler, summary: str, status: int = 204) -> Route:
    action = path.rpartition("/")[2]
    return _api("POST", f"/queues/{{name}}/{path}", handler, summary, action=action, status=status)


def _send(path: str, entity: str) -> Route:
    return _api(
        "POST",
        path,
        messages.send,
        f"Send a message to a {entity}; answered once it is safe",
        need=Need.SEND,
        entity=entity,
        body=MessageBody,
        status=201,
    )


def _run_time(entity: str, plural: str, body: type[Body], what: str) -> tuple[Route, ...]:
    """Return the routes of an entity that is set at run time, over the configuration file."""
    return (
        _list(f"/{plural}", entity),
        _read(f"/{plural}/{{name}}", entity),
        _api(
            "PUT",
            f"/{plural}/{{name}}",
            management.set_entry,
            f"Set {what}",
            action="change",
            entity=entity,
            body=body,
        ),
        _delete(f"/{plural}/{{name}}", entity, summary=f"Remove what was set of a {entity}"),
    )


def _transfer(path: str, handler: Handler, summary: str, body: type[Body] | None) -> Route:
    """Return the row of a command on single groups or messages; its body may be left out."""
    action = path.rpartition("/")[2]
    place = f"/queues/{{name}}/{path}"
    # The audit's word "delete" is for whole queues.
    told = "purge" if action == "delete" else action
    return _api("POST", place, handler, summary, action=told, body=body)


TRANSFER_ROUTES: Final[tuple[Route, ...]] = (
    _api(
        "GET",
        "/queues/{name}/groups/{group}/messages",
        transfers.peek_group,
        "Look at a group's messages",
        entity="message",
        query=(LIMIT,),
    ),
    _transfer(
        "groups/{group}/move", transfers.move_group, "Move a group to another queue", MoveGroupBody
    ),
    _transfer("groups/{group}/purge", transfers.purge_group, "Drop a group's messages", HeldBody),
    _transfer(
        "groups/{group}/dead-letter",
        transfers.dead_letter_group,
        "Send a group to the dead-letter queue",
        BuryGroupBody,
    ),
    _transfer(
        "groups/{group}/retry", transfers.retry_group, "Send a group's dead letters back", None
    ),
    _transfer("retry", transfers.retry_queue, "Send dead letters back", RetryBody),
    _api(
        "GET",
        "/queues/{name}/messages/{seq}",
        transfers.show_message,
        "Show one message",
        entity="message",
    ),
    _transfer(
        "messages/move", transfers.move_messages, "Move messages by their numbers", MoveSeqsBody
    ),
    _transfer(
        "messages/delete", transfers.delete_messages, "Drop messages by their numbers", SeqsBody
    ),
    _transfer(
        "messages/dead-letter",
        transfers.dead_letter_messages,
        "Send messages to the dead-letter queue",
        BurySeqsBody,
    ),
    _transfer(
        "messages/retry", transfers.retry_messages, "Send dead letters back by number", SeqsBody
    ),
)

# Any broker of a cluster answers these, also one that serves nothing: they name no virtual host.
HOSTLESS: Final[tuple[Route, ...]] = (
    _api(
        "POST",
        "/session",
        sign_in.sign_in,
        "Sign a browser in: it gets a cookie",
        need=Need.OPEN,
        body=SignInBody,
        status=201,
    ),
    _api("GET", "/session", sign_in.read_session, "Who asks, and their rights", need=Need.LOGIN),
    _api("DELETE", "/session", sign_in.sign_out, "Sign out", need=Need.LOGIN, status=204),
    _api("GET", "/sessions", sign_in.list_sessions, "List browsers that are signed in"),
    _api(
        "DELETE",
        "/sessions/{name}",
        sign_in.end_session,
        "Sign a browser out",
        action="close",
        status=204,
    ),
    _api("GET", "/hosts", hosts.list_hosts, "Show all virtual hosts, and who serves each"),
    _api("GET", "/cluster", management.read_cluster, "Show who serves what, and all brokers"),
    _api(
        "POST",
        "/cluster/spaces/{name}/move",
        management.move_space,
        "Have another broker serve a virtual host",
        action="change",
        body=MoveSpaceBody,
        status=202,
    ),
    _api(
        "POST",
        "/cluster/nodes/{name}/drain",
        management.drain_node,
        "Have a broker give away what it serves",
        action="change",
        body=DrainBody,
        status=202,
    ),
)

ROUTES: Final[tuple[Route, ...]] = (
    _probe("/livez", _live, "Is it alive?"),
    _probe("/readyz", _ready, "Can it take messages?"),
    _shown("/", Need.OPEN, assets.show_page, "text/html", "The console, a page for people"),
    _shown(
        "/console/{release}/{file}", Need.OPEN, assets.show_file, "text/javascript", "Its files"
    ),
    _shown("/metrics", Need.LOGIN, _metrics, "text/plain", "Totals for Prometheus"),
    _shown("/metrics/queues", Need.MANAGE, _queue_metrics, "text/plain", "The largest queues"),
    _shown("/metrics/groups", Need.MANAGE, _group_metrics, "text/plain", "Group skew"),
    _shown(f"{API}/openapi.json", Need.LOGIN, _openapi, "application/json", "This document"),
    _api("GET", "/broker", management.read_broker, "Show the broker", entity="broker"),
    _api("GET", "/history", live.read_history, "How it was, second by second", query=(SPAN,)),
    _events("/broker", live.broker_events, "Hear of the broker, its alarms and busiest queues"),
    _events(
        "/queues",
        live.queues_events,
        "Hear of one page of the queues",
        LIMIT,
        OFFSET,
        SEARCH,
        SORT,
        ORDER,
        need=Need.SOME,
    ),
    _events(
        "/queues/{name}",
        live.queue_events,
        "Hear of a queue, its consumers and its groups",
        GROUPS,
    ),
    _events("/queues/{name}/trace", live.trace_events, "Hear what happens on a queue", AFTER),
    _sorted_list("/queues", "queue", listing.list_queues),
    _read("/queues/{name}", "queue"),
    _api(
        "PUT",
        "/queues/{name}",
        management.create_entity,
        "Declare a queue that stays until it is deleted",
        action="declare",
        entity="queue",
        body=QueueBody,
        status=201,
    ),
    _api(
        "PATCH",
        "/queues/{name}",
        management.update_queue,
        "Change some arguments of a queue while it works",
        action="change",
        entity="queue",
        body=QueueBody,
    ),
    _delete("/queues/{name}", "queue", IF_EMPTY, IF_UNUSED, summary="Delete a queue"),
    _action("purge", management.purge_queue, "Drop every message nobody holds", 200),
    _api(
        "POST",
        "/queues/{name}/rebalance",
        management.rebalance_queue,
        "Share out the groups anew",
        action="rebalance",
        query=(DRY_RUN,),
    ),
    _api(
        "GET",
        "/queues/{name}/history",
        live.read_queue_history,
        "How a queue was, second by second",
        query=(SPAN,),
    ),
    _api(
        "GET",
        "/queues/{name}/policy",
        configuration.read_policy,
        "Show a queue's settings and where each is from",
    ),
    _api(
        "GET",
        "/queues/{name}/trace",
        management.trace_queue,
        "Tell what happens on a queue; asking starts the trace",
        query=(AFTER,),
    ),
    _api(
        "GET",
        "/queues/{name}/consumers",
        management.list_consumers,
        "List a queue's consumers",
        entity="consumer",
        query=(LIMIT, OFFSET),
    ),
    _transfer("pause", management.pause_queue, "Stop a queue, also over a restart", PauseBody),
    _transfer("resume", management.resume_queue, "Let a queue go on", WayBody),
    _action("consumers/{consumer}/retire", management.retire_consumer, "Give it no new groups"),
    _api(
        "GET",
        "/queues/{name}/groups",
        management.list_groups,
        "List a queue's groups",
        entity="group",
        query=(LIMIT, OFFSET, WAITING, ONLY_PARKED),
    ),
    _api(
        "GET",
        "/queues/{name}/groups/{group}",
        management.read_group,
        "Show one group",
        entity="group",
    ),
    _action("groups/{group}/close", management.close_group, "Take it from its owner", 200),
    _api(
        "POST",
        "/queues/{name}/groups/{group}/park",
        management.park_group,
        "Stop a group, also over a restart",
        action="park",
        body=ReasonBody,
        status=204,
    ),
    _action("groups/{group}/unpark", management.unpark_group, "Let a group go on"),
    *[replace(route, query=()) for route in HOSTLESS],
    *TRANSFER_ROUTES,
    _api(
        "GET",
        "/queues/{name}/messages",
        messages.browse,
        "Look at a queue's messages",
        need=Need.BROWSE,
        query=(LIMIT, FROM_SEQ, GROUP, SELECTOR),
    ),
    _send("/queues/{name}/messages", "queue"),
    _sorted_list("/topics", "topic", listing.list_topics),
    _read("/topics/{name}", "topic"),
    _api(
        "PUT",
        "/topics/{name}",
        management.create_entity,
        "Make a topic",
        action="declare",
        entity="topic",
        status=201,
    ),
    _delete("/topics/{name}", "topic", IF_UNUSED, summary="Forget a topic"),
    _send("/topics/{name}/messages", "topic"),
    _sorted_list("/subscriptions", "subscription", listing.list_subscriptions),
    _read("/subscriptions/{name}", "subscription"),
    _delete(
        "/subscriptions/{name}",
        "subscription",
        IF_EMPTY,
        IF_UNUSED,
        summary="Destroy a durable subscription",
    ),
    _sorted_list("/connections", "connection", listing.list_connections, Need.MANAGE),
    _read("/connections/{name}", "connection"),
    _api(
        "GET",
        "/connections/{name}/consumers",
        listing.list_consumers_of,
        "List a connection's consumers",
        entity="consumer",
        query=(LIMIT, OFFSET),
    ),
    _delete("/connections/{name}", "connection", summary="Close a connection"),
    _list("/consumers", "consumer"),
    _list("/jobs", "job"),
    _read("/jobs/{name}", "job"),
    _delete("/jobs/{name}", "job", summary="Stop an operator's job; what is done stays done"),
    _api(
        "GET",
        "/permissions/check",
        sign_in.check_permission,
        "May somebody do something, and why?",
        query=(USER, VERB, ON),
    ),
    *_run_time("user", "users", UserBody, "a user; a password is kept as its record"),
    *_run_time("permission", "permissions", PermissionBody, "a permission"),
    *_run_time("policy", "policies", PolicyBody, "a policy of queues"),
    _api(
        "GET",
        "/configuration",
        configuration.read_configuration,
        "Show every setting and where it is from",
    ),
    _api(
        "GET",
        "/configuration/schema",
        configuration.read_schema,
        "Show every setting that a policy of queues may have",
    ),
    _api(
        "POST",
        "/configuration/reload",
        configuration.reload_configuration,
        "Read the configuration again, and tell what became of it",
        action="reload",
    ),
    _api(
        "GET",
        "/definitions",
        configuration.export_definitions,
        "Export what was declared",
        query=(PASSWORDS,),
    ),
    _api(
        "POST",
        "/definitions",
        configuration.import_definitions,
        "Import what was declared; nothing is deleted",
        action="import",
        query=(DRY_IMPORT,),
        body=DefinitionsBody,
    ),
)
