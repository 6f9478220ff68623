"""Live: what the streams of events tell, and the history behind the charts.

    /api/v1/events/broker            the broker and its alarms, a sample, the busiest queues
    /api/v1/events/queues            one page of the queues, with rates and a line of their depth
    /api/v1/events/queues/{name}     a queue, its consumers, its groups, and who had the hottest
    /api/v1/events/queues/{name}/trace   what happens on a queue
    /api/v1/history, /api/v1/queues/{name}/history     samples of ten minutes or of a day

Each stream also tells the time of day every ten seconds (`clock`), so that the page can show ages.

A group is a short row, since there may be thousands of them, four times a second:

    [name, messages, held by a consumer, owner, marks, blocked since, owned since]

Times are seconds of the wall clock, not ages, so that a row stays the same while only time passes.
The constants below, from `PARKED_MARK` on, say what the marks mean. If there are too many groups,
the rows are those of the largest groups and of parked ones.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final

from anyio.lowlevel import checkpoint
from starlette.responses import Response

from covey.config.record import human_size
from covey.core.dispatch.lane import Lane
from covey.core.errors import RefusedError
from covey.core.management import catalogue, describe
from covey.core.management.describe import Attributes, Plain
from covey.core.management.pages import whole
from covey.core.queue.policy import dead_letter_name
from covey.core.queue.queue import Queue
from covey.protocols.http.answer import json_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.console.events import EventStream, Part, Rows
from covey.protocols.http.console.sign_in import rights_on
from covey.protocols.http.listing import chosen_queues
from covey.protocols.http.routing import Need

SECOND: Final = 1.0
MAP_EVERY_S: Final = 0.24  # four times a second, and a little in hand
CLOCK_EVERY_S: Final = 10.0
STILL_S: Final = 5.0  # how often a broker is told of in which no message moves
LANES_PORTION: Final = 2000
CONSUMERS_SHOWN: Final = 200
BUSIEST_SHOWN: Final = 8
SPARK_STEP: Final = 3
SPARK_S: Final = 120.0

# A group's marks are the state of its lane (`core.dispatch.lane`), 0 to 4, plus these bits.
PARKED_MARK: Final = 8
SPILLED_MARK: Final = 16  # its next message is in the store, not in memory
UNREAD_MARK: Final = 32  # its owner cannot take its next message, mostly for lack of credit

ADVICE: Final = {
    "disk": "Free some room on the disk, or lower disk_free_min of [store] and reload.",
    "memory": "Add consumers, or raise memory_limit of [broker] and reload.",
}


async def read_history(ask: Ask) -> Response:
    """Show the history of the broker and of a virtual host."""
    span_s = ask.number("span")
    history = ask.console.history
    return json_answer(
        {"broker": history.broker.read(span_s), "host": history.host(ask.host).read(span_s)}
    )


async def read_queue_history(ask: Ask) -> Response:
    """Show a queue's history since somebody first looked at it, or since it moved messages."""
    series = ask.console.history.queue(ask.admin.backlog(ask.name), ask.now)
    if series is None:
        raise RefusedError("no history is kept of queues: history_queues_max is 0", "not-found")
    return json_answer(series.read(ask.number("span")))


async def broker_events(ask: Ask) -> Response:
    """Tell of the broker while somebody listens."""

    async def broker() -> Plain:
        return _broker(ask)

    told: list[Attributes] = []

    async def sample() -> Plain:
        history = ask.console.history
        found: Attributes = {
            "broker": _latest(history.broker.read(3)),
            "host": _latest(history.host(ask.host).read(3)),
        }
        if not told or not _is_still(told[0], found):
            told[:] = [found]
        return told[0]

    async def busiest() -> Plain:
        return _busiest(ask)

    parts = [Part("broker", SECOND, broker), Part("sample", SECOND, sample)]
    parts.append(Part("busiest", 2 * SECOND, busiest))
    return _stream(ask, parts)


async def queues_events(ask: Ask) -> Response:
    """Tell of one page of the queues while somebody listens."""

    async def rows() -> tuple[dict[str, Plain], Attributes]:
        queues, total = await chosen_queues(ask)
        found: dict[str, Plain] = {queue.name: queue_row(ask, queue) for queue in queues}
        return found, {"total": total, "order": list(found)}

    return _stream(ask, [Rows("queues", SECOND, rows)])


async def queue_events(ask: Ask) -> Response:
    """Tell of one queue, its consumers and its groups while somebody listens."""
    admin = ask.admin
    place = admin.place(ask.name)
    admin.backlog(ask.name)  # refuse an unknown queue before the stream begins

    async def queue() -> Plain:
        found = admin.backlog(ask.name)
        rights = rights_on(ask.identity, place)
        dlq = found.settings.dlq
        beside: Attributes = {
            "rights": rights,
            "dlq": "" if dlq is None else dead_letter_name(dlq, found.name),
        }
        return describe.queue(found, ask.host) | queue_row(ask, found) | beside

    async def consumers() -> tuple[dict[str, Plain], Attributes]:
        rows, total = whole(catalogue.consumers(admin.backlog(ask.name), 0, CONSUMERS_SHOWN))
        return {str(row["id"]): row for row in rows}, {"total": total}

    async def groups() -> tuple[dict[str, Plain], Attributes]:
        return await _map(ask, admin.backlog(ask.name), ask.number("groups"))

    async def sample() -> Plain:
        series = ask.console.history.queue(admin.backlog(ask.name), ask.broker.now)
        return None if series is None else _latest(series.read(3))

    async def owners() -> Plain:
        return ask.console.history.owners(admin.backlog(ask.name), ask.broker.now)

    parts = [Part("queue", SECOND, queue), Rows("consumers", SECOND, consumers)]
    if ask.number("groups"):
        parts.append(Rows("groups", MAP_EVERY_S, groups))
        parts.append(Part("sample", SECOND, sample))
        parts.append(Part("owners", 2 * SECOND, owners))
    return _stream(ask, parts, subject=ask.name)


async def trace_events(ask: Ask) -> Response:
    """Tell what happens on a queue, event by event."""
    last = [ask.number("after")]

    async def trace() -> Plain:
        page = ask.admin.trace(ask.name, last[0], ask.broker.now)
        number = page["last"]
        assert isinstance(number, int)
        last[0] = number
        return page if page["events"] else None

    return _stream(ask, [Part("trace", MAP_EVERY_S, trace)], subject=ask.name)


def queue_row(ask: Ask, queue: Queue) -> Attributes:
    """Return a queue as a row of a list: what it holds and how it moves."""
    state = queue.state
    broker = ask.broker
    first = queue.first_seq
    held = sum([len(each.unsettled) for each in state.consumers.values()])
    oldest_s = queue.ages.age(first, broker.now) if state.index.count else 0.0
    row: Attributes = {
        "name": queue.name,
        "messages": state.index.count,
        "unsettled": held,
        "bytes": queue.size,
        "consumers": len(state.consumers),
        "groups": len(state.lanes),
        "strategy": state.strategy.name,
        "declared": queue.name in ask.host.declared,
        "durable": queue.is_durable,
        "paused": queue.pause.way,
        "parked": len(state.parked),
        "oldest_at": round(broker.clock.wall_ms / 1000 - oldest_s) if oldest_s else 0,
        "rates": None,
        "spark": [],
        "flow": [],
    }
    series = ask.console.history.known(queue)
    if series is None:
        ask.console.history.queue(queue, broker.now)
    else:
        series.seen_at = broker.now
        read = series.read(SPARK_S)
        row["spark"] = _some(read, "messages")
        row["flow"] = _some(read, "enqueued")
        # Without the sample's time, so that a row stays the same while nothing moves.
        rates = _latest(read)
        row["rates"] = {k: v for k, v in rates.items() if k != "at"} if rates else None
    return row


def _some(read: Attributes, name: str) -> list[Plain]:
    """Return each third value, always the same ones, so that a line moves without trembling."""
    times, values = read["times"], read[name]
    assert isinstance(times, list)
    assert isinstance(values, list)
    pairs = zip(times, values, strict=True)
    return [
        value for at, value in pairs if isinstance(at, int | float) and int(at) % SPARK_STEP == 0
    ]


def _latest(read: Attributes) -> Attributes | None:
    """Return the last sample of those that were read, None if there is none yet."""
    times = read["times"]
    if not isinstance(times, list) or not times:
        return None
    columns = [(name, values) for name, values in read.items() if isinstance(values, list)]
    return {"at" if name == "times" else name: values[-1] for name, values in columns}


def _is_still(former: Attributes, found: Attributes) -> bool:
    """Return True if a sample tells no news: nothing has moved, and the last one is not old."""
    then, now = _moving(former), _moving(found)
    if then is None or now is None:
        return False
    return now[0] - then[0] < STILL_S and then[1] == now[1]


def _moving(sample: Attributes) -> tuple[float, Attributes] | None:
    """Return when a sample was taken, and what of it may move."""
    broker, host = sample["broker"], sample["host"]
    if not isinstance(broker, dict) or not isinstance(host, dict):
        return None
    at = host["at"]
    assert isinstance(at, int | float)
    return at, host | {"at": 0} | {name: broker[name] for name in ("connections", "blocked")}


def _broker(ask: Ask) -> Attributes:
    broker = ask.broker
    limits = broker.limits
    alarms: list[Plain] = [
        {"cause": cause, "text": reason, "advice": ADVICE[cause]}
        for cause, reason in ask.directory.alarms.items()
        if reason
    ]
    host = ask.host
    return {
        "name": limits.id,
        "host": host.id,
        "queues": len(host.queues),
        "topics": len(host.topics),
        "subscriptions": len(host.durables),
        "connections": len(ask.directory.shared.sessions),
        "alarms": alarms,
        "damages": ask.directory.damages[: describe.DAMAGES_SHOWN],
        "memory_limit": ask.directory.shared.memory_allowed(limits),
        "disk_free_min": ask.directory.settings.store.disk_free_min,
        "disk_shown": human_size(ask.directory.settings.store.disk_free_min),
        "internal_errors": ask.directory.failures,
    }


def _busiest(ask: Ask) -> Plain:
    """Return the queues that hold and move most, of those that have a history."""
    queues = [queue for queue in ask.console.history.queues() if ask.host.has(queue)]
    rows = [queue_row(ask, queue) for queue in queues]
    largest = nlargest(BUSIEST_SHOWN, rows, key=_weight)
    return list(largest)


def _weight(row: Attributes) -> float:
    rates = row["rates"]
    moved = 0.0
    if isinstance(rates, dict):
        for name in ("enqueued", "delivered"):
            rate = rates[name]
            moved += rate if isinstance(rate, int | float) else 0.0
    messages = row["messages"]
    return moved * 10 + (messages if isinstance(messages, int) else 0)


async def _map(ask: Ask, queue: Queue, most: int) -> tuple[dict[str, Plain], Attributes]:
    """Return a row for each group; if too many, for the largest groups and parked ones."""
    offset = ask.broker.clock.offset
    lanes = list(queue.state.lanes.values())
    total = len(lanes)
    if total > most:
        lanes = await _largest(lanes, most)
    found: dict[str, Plain] = {}
    for start in range(0, len(lanes), LANES_PORTION):
        if start:
            await checkpoint()
        for lane in lanes[start : start + LANES_PORTION]:
            found[lane.name] = _group(lane, offset)
    return found, {"total": total}


async def _largest(lanes: list[Lane], most: int) -> list[Lane]:
    found: list[Lane] = []
    for start in range(0, len(lanes), LANES_PORTION):
        if start:
            await checkpoint()
        found = nlargest(most, found + lanes[start : start + LANES_PORTION], key=_size)
    return found


def _size(lane: Lane) -> tuple[bool, int]:
    return lane.is_parked, lane.count


def _group(lane: Lane, offset: float) -> list[Plain]:
    owner = lane.owner
    marks = lane.where
    if lane.is_parked:
        marks |= PARKED_MARK
    head = lane.head
    if head is not None and head.message is None:
        marks |= SPILLED_MARK
    since = 0
    number = 0
    if owner is not None:
        number = owner.id
        since = int(lane.owned_since + offset)
        if head is not None and not owner.is_willing():
            marks |= UNREAD_MARK
    blocked = int(lane.blocked_since + offset) if lane.blocked_since else 0
    return [lane.name, lane.count, lane.unsettled, number, marks, blocked, since]


def _stream(ask: Ask, parts: list[Part], subject: str = "") -> Response:
    """Answer with a stream that ends when the user may not see its subject any more."""
    console = ask.console

    def check() -> None:
        ask.check_login()
        if subject:
            ask.admin.check_manage("queue", subject)
        elif ask.route.need is Need.SOME:
            ask.check_manage_some()
        else:
            ask.admin.check_manage("broker")

    async def clock() -> Plain:
        return round(ask.broker.clock.wall_ms / 1000, 1)

    identity = ask.identity
    return EventStream(
        console.streams,
        [*parts, Part("clock", CLOCK_EVERY_S, clock)],
        streams_max=console.settings.event_streams_max,
        last_id=ask.headers.get("last-event-id", "") or ask.text("resume"),
        user=identity.name,
        owner=f"{identity.name} {identity.remote.rpartition(':')[0]} {ask.route.path} {subject}",
        check=check,
    )
