"""Routes: the table of everything that can be asked over HTTP.

One row is one method and path. `routing.Route` says what stands in a row. The OpenAPI document is
made from this table, and so is the test that tries every row as everybody.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from covey import __version__
from covey.core.management.describe import Attributes
from covey.protocols.http import definitions, management, messages
from covey.protocols.http.answer import json_answer, text_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.metrics import MEDIA_TYPE
from covey.protocols.http.openapi import document
from covey.protocols.http.routing import Handler, Need, Param, Route
from covey.protocols.http.schemas import Body, DefinitionsBody, MessageBody, QueueBody
from covey.protocols.http.status_page import REFRESH_S, STYLE, page

API: Final = "/api/v1"
PAGE_MAX: Final = 1000  # entries of one answer
PAGE_USUAL: Final = 100

HOST: Final = Param("host", "", "a host name of the virtual host; the first one if none is given")
SHOWN: Final = Param("queue", "", "only queues whose names have this in them")
REFRESH: Final = Param("refresh", REFRESH_S, "seconds until it is loaded anew; 0: never", most=3600)
LIMIT: Final = Param("limit", PAGE_USUAL, "at most so many entries", least=1, most=PAGE_MAX)
OFFSET: Final = Param("offset", 0, "skip so many entries")
WAITING: Final = Param("waiting", False, "only groups that wait, the most urgent first")
FROM_SEQ: Final = Param("from_seq", 0, "the first sequence number to look at")
AFTER: Final = Param("after", 0, "the number of the last event known")
IF_EMPTY: Final = Param("if_empty", False, "refuse if it holds messages")
IF_UNUSED: Final = Param("if_unused", False, "refuse if somebody reads from it")


async def _live(ask: Ask) -> Response:
    """Answer: the event loop turns."""
    return json_answer({"status": "ok"})


async def _ready(ask: Ask) -> Response:
    """Answer whether messages can be taken, and why not; and what a start could not find.

    Strangers may ask: they learn how much is damaged, and no queue's name.
    """
    why = ask.unready()
    answer: Attributes = {"status": why or "ok"}
    if ask.broker.damages:
        answer["damages"] = len(ask.broker.damages)
        answer["lost"] = list(ask.broker.commits.store.losses)
    return json_answer(answer, 503 if why else 200)


async def _page(ask: Ask) -> Response:
    return text_answer(page(ask, __version__), "text/html")


async def _style(ask: Ask) -> Response:
    return text_answer(STYLE, "text/css")


async def _metrics(ask: Ask) -> Response:
    return text_answer(ask.metrics.totals(ask.now), MEDIA_TYPE)


async def _queue_metrics(ask: Ask) -> Response:
    return text_answer(ask.metrics.queues(), MEDIA_TYPE)


async def _group_metrics(ask: Ask) -> Response:
    return text_answer(ask.metrics.groups(ask.now), MEDIA_TYPE)


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
    )


def _list(path: str, entity: str) -> Route:
    query = (LIMIT, OFFSET)
    summary = f"List {path[1:]}"
    return _api("GET", path, management.list_entities, summary, entity=entity, query=query)


def _read(path: str, entity: str) -> Route:
    return _api("GET", path, management.read_entity, f"Show one {entity}", entity=entity)


def _delete(path: str, entity: str, *query: Param, summary: str) -> Route:
    return _api(
        "DELETE",
        path,
        management.delete_entity,
        summary,
        action="close" if entity == "connection" else "delete",
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


ROUTES: Final[tuple[Route, ...]] = (
    _probe("/livez", _live, "Is it alive?"),
    _probe("/readyz", _ready, "Can it take messages?"),
    Route(
        method="GET",
        path="/",
        need=Need.MANAGE,
        handler=_page,
        summary="A page for people",
        query=(HOST, SHOWN, REFRESH),
        media_type="text/html",
    ),
    _shown("/status.css", Need.LOGIN, _style, "text/css", "The page's style"),
    _shown("/metrics", Need.LOGIN, _metrics, "text/plain", "Totals for Prometheus"),
    _shown("/metrics/queues", Need.MANAGE, _queue_metrics, "text/plain", "The largest queues"),
    _shown("/metrics/groups", Need.MANAGE, _group_metrics, "text/plain", "Group skew"),
    _shown(f"{API}/openapi.json", Need.LOGIN, _openapi, "application/json", "This document"),
    _api("GET", "/broker", management.read_broker, "Show the broker", entity="broker"),
    _list("/queues", "queue"),
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
    _action("rebalance", management.rebalance_queue, "Share out the groups anew"),
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
    _action("consumers/{consumer}/retire", management.retire_consumer, "Give it no new groups"),
    _api(
        "GET",
        "/queues/{name}/groups",
        management.list_groups,
        "List a queue's groups",
        entity="group",
        query=(LIMIT, OFFSET, WAITING),
    ),
    _api(
        "GET",
        "/queues/{name}/groups/{group}",
        management.read_group,
        "Show one group",
        entity="group",
    ),
    _action("groups/{group}/close", management.close_group, "Take it from its owner", 200),
    _action("groups/{group}/park", management.park_group, "Stop a group"),
    _action("groups/{group}/unpark", management.unpark_group, "Let a group go on"),
    _api(
        "GET",
        "/queues/{name}/messages",
        messages.browse,
        "Look at a queue's messages",
        need=Need.BROWSE,
        query=(LIMIT, FROM_SEQ),
    ),
    _send("/queues/{name}/messages", "queue"),
    _list("/topics", "topic"),
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
    _list("/subscriptions", "subscription"),
    _read("/subscriptions/{name}", "subscription"),
    _delete(
        "/subscriptions/{name}",
        "subscription",
        IF_EMPTY,
        IF_UNUSED,
        summary="Destroy a durable subscription",
    ),
    _list("/connections", "connection"),
    _read("/connections/{name}", "connection"),
    _delete("/connections/{name}", "connection", summary="Close a connection"),
    _list("/consumers", "consumer"),
    _api("GET", "/users", management.list_users, "List users, without secrets"),
    _api("GET", "/definitions", definitions.export_definitions, "Export what was declared"),
    _api(
        "POST",
        "/definitions",
        definitions.import_definitions,
        "Import what was declared; users are left alone",
        action="import",
        body=DefinitionsBody,
    ),
)
