"""Describe: what an operator sees of each thing in the broker.

One function per type gives a flat record of plain values (texts, numbers, truth values, lists and
maps of them), so that every front end can write it in its own form. `ATTRIBUTES` names the fields
of each type in the order they are shown. A test compares it with the functions' own results.

Times are seconds of the broker's monotonic clock, turned into ages: an age means the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from covey.config.qpid import arguments_of, options_of
from covey.config.queues import QueueSettings
from covey.core.broker.broker import Broker
from covey.core.broker.trace import TracePage
from covey.core.dispatch.lane import DRAINING, WHERE_NAMES, Lane
from covey.core.dispatch.state import NOT_SAID
from covey.core.events.event import KIND_NAMES
from covey.core.host.subscription import Durable
from covey.core.host.topic import Topic
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job
from covey.core.management.waiting import why_waits
from covey.core.model.consumer import Consumer, Source
from covey.core.queue.queue import Queue
from covey.core.session import Session

# Deliveries of one consumer to look at. They are in order, so the oldest is among the first.
HELD_LOOKED_AT: Final = 1000
DAMAGES_SHOWN: Final = 100  # the log has them all

Plain = None | bool | int | float | str | Sequence["Plain"] | dict[str, "Plain"]
Attributes = dict[str, Plain]

ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "broker": (
        "name", "type", "host", "hosts", "connections", "queues", "topics", "subscriptions",
        "consumers", "messages", "bytes", "auto_create", "alarm", "damages", "build", "host_names",
    ),
    "queue": (
        "name", "type", "messages", "bytes", "unsettled", "consumers", "browsers", "groups",
        "groups_tracked", "groups_over_size", "strategy", "group_header", "durable", "declared",
        "arguments", "options", "first_seq", "next_seq", "retained_from",
        "restored", "enqueued", "acknowledged", "returned", "expired", "dropped", "dead",
        "duplicates", "delayed", "overdue", "late", "moved", "spilled",
        "rebalanced", "paused", "pauses",
    ),
    "topic": ("name", "type", "subscribers", "published", "delivered", "retained"),
    "subscription": (
        "name", "type", "destinations", "selector", "messages", "bytes", "unsettled", "consumers",
        "first_seq", "next_seq", "retained_from", "paused", "pauses",
    ),
    "group": (
        "name", "type", "queue", "group", "messages", "unsettled", "owner", "owner_name",
        "owner_client", "owner_connection", "state", "why", "parked",
        "parked_by", "parked_at_ms", "parked_why", "oldest_seq", "oldest_s",
        "owned_s", "blocked_s", "draining_s",
    ),
    "connection": (
        "name", "type", "user", "protocol", "remote", "client_id", "host", "age_s", "sent",
        "consumers", "transactions", "blocked_on", "unread_s",
    ),
    "consumer": (
        "name", "type", "id", "source", "link", "client", "connection", "credit", "unsettled",
        "delivered", "groups", "selector", "priority", "browser", "exclusive", "retiring",
        "overdue", "deadline_s", "group", "group_asked",
    ),
    "job": (
        "name", "type", "verb", "target", "user", "connection", "host", "done", "total", "age_s",
        "waited_for", "stoppable",
    ),
    "user": ("name", "type", "roles", "origin"),
    "permission": ("name", "type", "who", "may", "on", "origin"),
    "policy": ("name", "type", "settings", "origin"),
    "space": (
        "name", "type", "space", "owner", "epoch", "since", "lease_left_s", "messages",
        "connections", "moves_to", "pinned",
    ),
    "node": (
        "name", "type", "node", "address", "version", "draining", "load", "config_digest", "up_s",
    ),
}  # fmt: skip


def broker(broker: Broker, host: VirtualHost) -> Attributes:
    """Describe the whole broker, with the totals of one virtual host."""
    durables = [durable.queue for durable in host.durables.values()]
    holding = [*host.queues.values(), *durables]
    return {
        "name": broker.limits.id,
        "type": "broker",
        "host": host.id,
        "hosts": [each.id for each in broker.settings.virtual_hosts],
        "connections": len(broker.sessions),
        "queues": len(host.queues),
        "topics": len(host.topics),
        "subscriptions": len(host.durables),
        "consumers": host.consumers.count,
        "messages": sum(queue.state.index.count for queue in holding),
        "bytes": sum(queue.size for queue in holding),
        "auto_create": broker.limits.auto_create,
        "alarm": broker.commits.overload.alarm,
        "damages": broker.damages[:DAMAGES_SHOWN],
        "build": broker.shared.build,
        # By one of these, in the order of `hosts`, a client asks for each of them.
        "host_names": [min(each.host_names, default="") for each in broker.settings.virtual_hosts],
    }


def queue(queue: Queue, host: VirtualHost) -> Attributes:
    """Describe a queue: what it holds, how it was declared, what has happened."""
    state = queue.state
    declared = _declared(queue.settings)
    counts = queue.counters
    return {
        "name": queue.name,
        "type": "queue",
        **_contents(queue),
        "browsers": len(state.browsers),
        "groups": len(state.lanes),
        "groups_tracked": state.strategy.tracked(),
        "groups_over_size": state.strategy.over_size,
        "strategy": state.strategy.name,
        "group_header": queue.discipline.key.header,
        "durable": queue.is_durable,
        "declared": queue.name in host.declared,
        "arguments": dict(declared.arguments),
        "options": list(declared.options),
        **_numbers(queue),
        "restored": counts.restored,
        "enqueued": counts.enqueued,
        "acknowledged": counts.acked,
        "returned": counts.returned,
        "expired": counts.expired,
        "dropped": counts.dropped,
        "dead": counts.dead,
        "duplicates": counts.duplicates,
        "delayed": queue.timers.delayed.count,
        "overdue": counts.overdue,
        "late": counts.late,
        "moved": counts.moved,
        "spilled": counts.spilled,
        "rebalanced": counts.rebalanced,
        **_stopped(queue),
    }


def topic(topic: Topic) -> Attributes:
    """Describe a topic."""
    return {
        "name": topic.name,
        "type": "topic",
        "subscribers": topic.audience,
        "published": topic.published,
        "delivered": topic.delivered,
        "retained": topic.retained is not None,
    }


def subscription(durable: Durable) -> Attributes:
    """Describe a durable subscription."""
    selector = durable.binding.selector
    return {
        "name": durable.name,
        "type": "subscription",
        "destinations": [str(destination) for destination in durable.destinations],
        "selector": "" if selector is None else selector.text,
        **_contents(durable.queue),
        **_numbers(durable.queue),
        **_stopped(durable.queue),
    }


def group(queue: Queue, lane: Lane, now: float) -> Attributes:
    """Describe a message group that has messages on a queue."""
    return groups(queue, [lane], now)[0]


def groups(queue: Queue, lanes: Iterable[Lane], now: float) -> list[Attributes]:
    """Describe message groups of a queue, as the Qpid page's query does."""
    shown = list(lanes)
    held = _oldest_held(shown)
    return [_group(queue, lane, held.get(lane, 0), now) for lane in shown]


def _oldest_held(lanes: list[Lane]) -> dict[Lane, int]:
    """Return the sequence number of each group's oldest held message, if the group has one.

    A message that is settled in a transaction counts as held until the transaction ends.
    """
    oldest: dict[Lane, int] = {}
    for holder in {lane.holder for lane in lanes if lane.holder is not None}:
        transactions = holder.session.transactions.values()
        settled = [done.entry for each in transactions for done in each.settlements]
        for entry in [*islice(holder.unsettled.values(), HELD_LOOKED_AT), *settled]:
            oldest[entry.lane] = min(entry.seq, oldest.get(entry.lane, entry.seq))
    return oldest


def _group(queue: Queue, lane: Lane, held: int, now: float) -> Attributes:
    owner = lane.owner
    numbers = [held] if held else []
    if lane.head is not None:
        numbers.append(lane.head.seq)
    if lane.aside is not None:
        numbers.append(lane.aside.first())
    oldest = min(numbers, default=0)
    record = queue.state.parked.get(lane.name, NOT_SAID)
    return {
        "name": f"{queue.name}/{lane.name}",
        "type": "group",
        "queue": queue.name,
        "group": lane.name,
        "messages": lane.count,
        "unsettled": lane.unsettled,
        "owner": 0 if owner is None else owner.id,
        "owner_name": "" if owner is None else owner.name,
        "owner_client": "" if owner is None else client_of(owner.session),
        "owner_connection": "" if owner is None else str(owner.session.id),
        "state": WHERE_NAMES[lane.where],
        "why": why_waits(queue, lane),
        "parked": lane.is_parked,
        "parked_by": record.by,
        "parked_at_ms": record.at_ms,
        "parked_why": record.why,
        "oldest_seq": oldest,
        "oldest_s": queue.ages.age(oldest, now) if oldest else 0.0,
        "owned_s": 0.0 if owner is None else now - lane.owned_since,
        "blocked_s": now - lane.blocked_since if lane.blocked_since else 0.0,
        "draining_s": now - lane.draining_since if lane.where == DRAINING else 0.0,
    }


def client_of(session: Session) -> str:
    """Name the program behind a connection: by its client id, or else by its address.

    Many clients give their subscriptions the same name, so a consumer's own name tells little.
    """
    return session.client_id or session.remote


def connection(session: Session, now: float) -> Attributes:
    """Describe a connection."""
    return {
        "name": str(session.id),
        "type": "connection",
        "user": session.identity.name,
        "protocol": session.protocol,
        "remote": session.remote,
        "client_id": session.client_id,
        "host": session.host.id,
        "age_s": now - session.connected_at,
        "sent": session.sent,
        "consumers": sum(len(each.consumers) for each in session.subscriptions.values()),
        "transactions": len(session.transactions),
        "blocked_on": session.blocked_on,
        "unread_s": session.paused_s(now),
    }


def consumer(consumer: Consumer, source: Source) -> Attributes:
    """Describe one reader of a queue or topic."""
    window = consumer.window
    return {
        "name": f"{source.name}/{consumer.id}",
        "type": "consumer",
        "id": consumer.id,
        "source": source.name,
        "link": consumer.name,
        "client": client_of(consumer.session),
        "connection": str(consumer.session.id),
        "credit": -1 if window.is_automatic else window.count,
        "unsettled": len(consumer.unsettled),
        "delivered": consumer.delivered,
        "groups": len(consumer.lanes),
        "selector": "" if consumer.selector is None else consumer.selector.text,
        "priority": consumer.priority,
        "browser": consumer.is_browser,
        "exclusive": consumer.is_exclusive,
        "retiring": consumer.is_retiring,
        "overdue": consumer.is_overdue,
        "deadline_s": consumer.deadline_s,
        "group": consumer.group,
        "group_asked": consumer.group_asked,
    }


def job(job: Job, now: float) -> Attributes:
    """Describe long work that is under way: what is done, how far, for whom."""
    session = job.session
    return {
        "name": str(job.number),
        "type": "job",
        "verb": job.verb,
        "target": job.target,
        "user": "" if session is None else session.identity.name,
        "connection": "" if session is None or not session.id else str(session.id),
        "host": "" if session is None else session.host.id,
        "done": job.done,
        "total": max(job.done, job.total),
        "age_s": now - job.begun_at,
        "waited_for": job.is_waited_for,
        "stoppable": job.is_stoppable,
    }


def trace(page: TracePage) -> Attributes:
    """Describe one answer of a trace."""
    events: list[Plain] = [
        {
            "number": number,
            "time_ms": time_ms,
            "event": KIND_NAMES[kind],
            "seq": seq,
            "group": group,
            "consumer": consumer,
        }
        for number, time_ms, kind, seq, group, consumer in page.events
    ]
    return {"events": events, "last": page.last, "missed": page.missed}


def _stopped(queue: Queue) -> Attributes:
    """Describe what of a queue an operator has paused, and who did so."""
    pauses: list[Plain] = [
        {"way": way, "by": record.by, "at_ms": record.at_ms, "why": record.why}
        for way, record in queue.pause.records()
    ]
    return {"paused": queue.pause.way, "pauses": pauses}


def _contents(queue: Queue) -> Attributes:
    state = queue.state
    return {
        "messages": state.index.count,
        "bytes": queue.size,
        "unsettled": sum(len(each.unsettled) for each in state.consumers.values()),
        "consumers": len(state.consumers),
    }


def _numbers(queue: Queue) -> Attributes:
    """Return the sequence numbers where a reader can start and end, and may have missed some."""
    return {
        "first_seq": queue.first_seq,
        "next_seq": queue.next_seq,
        "retained_from": queue.retained_from,
    }


class Declared:
    """A policy's settings as the arguments and options that would declare them."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.arguments = {key: _plain(value) for key, value in arguments_of(settings).items()}
        self.options = list(options_of(settings))


DECLARED_MAX: Final = 1000  # policies that are remembered: most queues share a few
_known: dict[int, Declared] = {}


def _declared(settings: QueueSettings) -> Declared:
    """Return a policy's arguments; worked out once for a policy, not once for each queue."""
    found = _known.get(id(settings))
    if found is None or found.settings is not settings:
        if len(_known) >= DECLARED_MAX:
            _known.clear()
        found = _known[id(settings)] = Declared(settings)
    return found


def _plain(value: object) -> Plain:
    return value if isinstance(value, bool | int | float | str) else str(value)
