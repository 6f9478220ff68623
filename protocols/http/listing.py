"""Listing: lists that are searched, sorted and cut into pages here, whatever their length.

    search   only things with this text in their name or another text of theirs; case is ignored
    sort     the attribute to sort by; by default, the order in which things were made
    order    asc or desc; by default, texts begin with A, and numbers with the largest

There may be tens of thousands of queues. The sort keys are read from the queues themselves, and
only the queues on the page are described. The walk and the sorting are done in portions, so that
others can work in between.

Whoever may manage the broker sees everything. Whoever may manage only some queues or topics sees
just those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint
from starlette.responses import Response

from covey.core.errors import RefusedError
from covey.core.host.subscription import Durable
from covey.core.host.topic import Topic
from covey.core.management import catalogue, describe
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.queue import Queue
from covey.core.security.users import Verb, may
from covey.core.session import Session
from covey.protocols.http.answer import list_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.console.sign_in import rights_on

PORTION: Final = 1000

Thing = TypeVar("Thing")
Key = Callable[[Thing], str | float]


def _held(queue: Queue) -> int:
    return sum([len(each.unsettled) for each in queue.state.consumers.values()])


QUEUE_KEYS: Final[dict[str, Key[Queue]]] = {
    "name": lambda queue: queue.name,
    "messages": lambda queue: queue.state.index.count,
    "unsettled": _held,
    "bytes": lambda queue: queue.size,
    "consumers": lambda queue: len(queue.state.consumers),
    "groups": lambda queue: len(queue.state.lanes),
    "strategy": lambda queue: queue.state.strategy.name,
    "enqueued": lambda queue: queue.counters.enqueued,
    "acknowledged": lambda queue: queue.counters.acked,
    "returned": lambda queue: queue.counters.returned,
    "dead": lambda queue: queue.counters.dead,
}
TOPIC_KEYS: Final[dict[str, Key[Topic]]] = {
    "name": lambda topic: topic.name,
    "subscribers": lambda topic: topic.audience,
    "published": lambda topic: topic.published,
    "delivered": lambda topic: topic.delivered,
}
DURABLE_KEYS: Final[dict[str, Key[Durable]]] = {
    "name": lambda durable: durable.name,
    "messages": lambda durable: durable.queue.state.index.count,
    "bytes": lambda durable: durable.queue.size,
    "consumers": lambda durable: len(durable.queue.state.consumers),
}
CONNECTION_KEYS: Final[dict[str, Key[Session]]] = {
    "name": lambda session: session.id,
    "user": lambda session: session.identity.name,
    "protocol": lambda session: session.protocol,
    "client_id": lambda session: session.client_id,
    "remote": lambda session: session.remote,
    "age_s": lambda session: -session.connected_at,
    "sent": lambda session: session.sent,
    "blocked_on": lambda session: int(session.is_blocked),
}


async def list_queues(ask: Ask) -> Response:
    """Show one page of the queues."""
    queues, total = await chosen_queues(ask)
    return await list_answer((describe.queue(queue, ask.host) for queue in queues), total)


async def chosen_queues(ask: Ask) -> tuple[list[Queue], int]:
    """Return the queues of a page, and how many there are in all."""
    things = list(ask.host.queues.values())

    def is_shown(queue: Queue) -> bool:
        return _may_see(ask, Kind.QUEUE, queue.name)

    return await _chosen(ask, things, QUEUE_KEYS, _words_of_queue, is_shown)


async def list_topics(ask: Ask) -> Response:
    """Show one page of the topics."""
    things = list(ask.host.topics.values())

    def is_shown(topic: Topic) -> bool:
        return _may_see(ask, Kind.TOPIC, topic.name)

    topics, total = await _chosen(ask, things, TOPIC_KEYS, _name_of_topic, is_shown)
    rows = (
        describe.topic(topic)
        | {"rights": rights_on(ask.identity, str(Destination(Kind.TOPIC, topic.name)))}
        for topic in topics
    )
    return await list_answer(rows, total)


async def list_subscriptions(ask: Ask) -> Response:
    """Show one page of the durable subscriptions."""
    things = list(ask.host.durables.values())

    def is_shown(durable: Durable) -> bool:
        return _may_see(ask, Kind.DSUB, durable.name)

    durables, total = await _chosen(ask, things, DURABLE_KEYS, _words_of_durable, is_shown)
    return await list_answer((describe.subscription(durable) for durable in durables), total)


async def list_connections(ask: Ask) -> Response:
    """Show one page of the connections."""
    things = ask.admin.catalogue.sessions()
    sessions, total = await _chosen(ask, things, CONNECTION_KEYS, _words_of_session, _everything)
    return await list_answer((describe.connection(session, ask.now) for session in sessions), total)


async def list_consumers_of(ask: Ask) -> Response:
    """Show one page of what a connection reads, with how much of it it may hold at once."""
    start, count = ask.number("offset"), ask.number("limit")
    rows, total = catalogue.consumers_of(ask.admin.catalogue.session(ask.name), start, count)
    return await list_answer(rows, total)


async def _chosen(
    ask: Ask,
    things: Sequence[Thing],
    keys: dict[str, Key[Thing]],
    words: Callable[[Thing], str],
    is_shown: Callable[[Thing], bool],
) -> tuple[list[Thing], int]:
    """Search, sort and cut out a page; return the page, and how many things were found."""
    text = ask.text("search").casefold()
    start, count = ask.number("offset"), ask.number("limit")
    is_all = not text and may(ask.identity, Verb.MANAGE, "broker")
    key, is_reversed = _sorting(ask, keys)
    runs: list[list[Thing]] = []
    for place in range(0, len(things), PORTION):
        if place:
            await checkpoint()
        portion = list(things[place : place + PORTION])
        if not is_all:
            portion = [one for one in portion if text in words(one).casefold() and is_shown(one)]
        if key is not None:
            portion.sort(key=key, reverse=is_reversed)
        runs.append(portion)
    total = sum(map(len, runs))
    found: list[Thing] = []
    ordered = merge(*runs, key=key, reverse=is_reversed) if key else _joined(runs)
    for number, one in enumerate(ordered):
        if number >= start + count:
            break
        if number >= start:
            found.append(one)
        elif number % PORTION == PORTION - 1:
            await checkpoint()
    return found, total


def _sorting(ask: Ask, keys: dict[str, Key[Thing]]) -> tuple[Key[Thing] | None, bool]:
    name, order = ask.text("sort"), ask.text("order")
    if order not in ("", "asc", "desc"):
        raise RefusedError(f"order: {order[:40]!r} is neither asc nor desc", "invalid")
    if not name:
        return None, False
    if name not in keys:
        raise RefusedError(f"sort: {name[:40]!r} is none of {', '.join(keys)}", "invalid")
    is_text = name in ("name", "strategy", "user", "protocol", "client_id", "remote")
    return keys[name], order == "desc" if order else not is_text


def _joined(runs: list[list[Thing]]) -> list[Thing]:
    return [one for run in runs for one in run]


def _may_see(ask: Ask, kind: Kind, name: str) -> bool:
    identity = ask.identity
    if may(identity, Verb.MANAGE, "broker"):
        return True
    return may(identity, Verb.MANAGE, str(Destination(kind, name)))


def _everything(thing: object) -> bool:
    return True


def _words_of_queue(queue: Queue) -> str:
    return queue.name


def _name_of_topic(topic: Topic) -> str:
    return topic.name


def _words_of_durable(durable: Durable) -> str:
    return " ".join([durable.name, *map(str, durable.destinations)])


def _words_of_session(session: Session) -> str:
    words = (str(session.id), session.identity.name, session.protocol, session.remote)
    return " ".join([*words, session.client_id])
