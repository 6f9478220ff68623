"""Metrics: the broker's numbers in Prometheus' text format, worked out when somebody asks.

The core counts anyway, so a scrape costs a walk over the queues, and a message costs nothing.

    /metrics          totals of the whole broker; no label has a client's word in it
    /metrics/queues   the largest queues by name
    /metrics/groups   group skew: groups a consumer, blocked messages, oldest wait, largest groups;
                      a walk over every group, so to be asked less often

Counters must never fall: what ended queues and topics have counted is in the totals, too. A queue's
own counters end with the queue. `process_` metrics have the names that Prometheus' own clients use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from covey.core.broker.broker import Broker
from covey.core.dispatch.lane import Lane
from covey.core.queue.counters import Counters
from covey.core.queue.queue import Queue
from covey.protocols.process import Process, resident_bytes

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Each name is a time series that Prometheus keeps: a scrape stays bounded, the largest are shown.
QUEUES_SHOWN_MAX: Final = 500
CONSUMERS_SHOWN_MAX: Final = 100  # of one queue
GROUPS_SHOWN_MAX: Final = 10  # of one queue

COUNTERS: Final = (
    ("restored", "Messages that the start found in the store."),
    ("enqueued", "Messages that queues took."),
    ("acked", "Messages that consumers accepted."),
    ("returned", "Deliveries that came back."),
    ("expired", "Messages whose time ran out."),
    ("dropped", "Messages dropped by a limit, a purge or with their queue."),
    ("dead", "Messages that were dead-lettered or given up."),
    ("duplicates", "Messages that were sent before and left out."),
)

Labels = dict[str, str]


class Family:
    """One metric: its name, what it means, and its samples."""

    def __init__(self, name: str, kind: str, text: str) -> None:
        self.lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        self.name = name

    def add(self, value: float, labels: Labels | None = None) -> None:
        """Add one sample."""
        self.lines.append(f"{self.name}{_labels(labels or {})} {value}")


class Metrics:
    """The numbers of one broker."""

    def __init__(self, broker: Broker, version: str) -> None:
        self.broker = broker
        self.version = version
        self.process = Process()

    def totals(self, now: float) -> str:
        """Write the totals of the whole broker."""
        hosts = self.broker.hosts
        queues = [queue for host in hosts for queue in host.all_queues()]
        unsettled = sum(_unsettled(queue) for queue in queues)
        held = sum(queue.state.index.count for queue in queues)
        info = Family("covey_info", "gauge", "The version that runs.")
        info.add(1, {"version": self.version})
        sessions = self.broker.sessions.values()
        connections = Family("covey_connections", "gauge", "Open connections by protocol.")
        for protocol, count in sorted(Counter(one.protocol for one in sessions).items()):
            connections.add(count, {"protocol": protocol})
        waits = [now - one.blocked_since for one in sessions if one.is_blocked]
        gauges = [
            _gauge("covey_queues", "Queues.", sum(len(host.queues) for host in hosts)),
            _gauge("covey_topics", "Topics.", sum(len(host.topics) for host in hosts)),
            _gauge(
                "covey_subscriptions",
                "Durable subscriptions.",
                sum(len(host.durables) for host in hosts),
            ),
            _gauge(
                "covey_consumers", "Consumers.", sum(len(one.state.consumers) for one in queues)
            ),
            _gauge("covey_groups", "Groups that have messages.", sum(map(_groups, queues))),
            _gauge("covey_messages_ready", "Messages nobody holds.", held - unsettled),
            _gauge("covey_messages_unsettled", "Messages consumers hold.", unsettled),
            _gauge("covey_message_bytes", "Bytes of all messages.", sum(q.size for q in queues)),
            _gauge(
                "covey_messages_delayed",
                "Messages that wait for their time.",
                sum(one.timers.delayed.count for one in queues),
            ),
            _gauge("covey_connections_blocked", "Producers that wait for room.", len(waits)),
            _gauge(
                "covey_blocked_oldest_seconds", "The longest such wait.", max(waits, default=0.0)
            ),
        ]
        alarms = Family("covey_alarm", "gauge", "1 while producers wait for this, by cause.")
        for cause, reason in self.broker.commits.overload.alarms.items():
            alarms.add(int(bool(reason)), {"cause": cause})
        blocks = Family("covey_producer_blocks_total", "counter", "Times a producer had to wait.")
        blocks.add(self.broker.blocks_gone + sum(one.blocks for one in sessions))
        failures = Family(
            "covey_internal_errors_total", "counter", "Failures of the broker itself; see its log."
        )
        failures.add(self.broker.internal_errors)
        counters = [failures, blocks, *self._counters(queues), *self._topic_counters()]
        return _text([info, connections, *gauges, alarms, *counters, *self._process()])

    def queues(self) -> str:
        """Write the numbers of the largest queues."""
        ready = Family("covey_queue_messages_ready", "gauge", "Messages nobody holds.")
        unsettled = Family("covey_queue_messages_unsettled", "gauge", "Messages consumers hold.")
        size = Family("covey_queue_message_bytes", "gauge", "Bytes of all messages.")
        consumers = Family("covey_queue_consumers", "gauge", "Consumers.")
        counters = [
            (name, Family(f"covey_queue_messages_{name}_total", "counter", text))
            for name, text in COUNTERS
        ]
        for labels, queue in self._largest():
            held = _unsettled(queue)
            for name, family in counters:
                family.add(getattr(queue.counters, name), labels)
            ready.add(queue.state.index.count - held, labels)
            unsettled.add(held, labels)
            size.add(queue.size, labels)
            consumers.add(len(queue.state.consumers), labels)
        return _text([ready, unsettled, size, consumers, *[family for _, family in counters]])

    def groups(self, now: float) -> str:
        """Write how unevenly groups lie, and who waits."""
        count = Family("covey_queue_groups", "gauge", "Groups that have messages.")
        blocked = Family("covey_queue_groups_blocked", "gauge", "Groups that wait.")
        waiting = Family("covey_queue_messages_blocked", "gauge", "Messages of groups that wait.")
        oldest = Family("covey_queue_group_oldest_wait_seconds", "gauge", "The longest such wait.")
        grown = Family(
            "covey_queue_groups_over_size", "gauge", "1 while a bounded map of groups had to grow."
        )
        owned = Family("covey_consumer_groups", "gauge", "Groups that a consumer owns.")
        largest = Family("covey_group_messages", "gauge", "Messages of the largest groups.")
        for labels, queue in self._largest():
            lanes = queue.state.lanes.values()
            stuck = [lane for lane in lanes if lane.blocked_since]
            count.add(len(lanes), labels)
            grown.add(int(queue.state.strategy.over_size), labels)
            blocked.add(len(stuck), labels)
            waiting.add(sum(lane.count - lane.unsettled for lane in stuck), labels)
            since = min((lane.blocked_since for lane in stuck), default=now)
            oldest.add(max(0.0, now - since), labels)
            members = queue.state.consumers.values()
            for one in nlargest(CONSUMERS_SHOWN_MAX, members, key=lambda each: len(each.lanes)):
                owned.add(len(one.lanes), {**labels, "consumer": str(one.id)})
            for lane in nlargest(GROUPS_SHOWN_MAX, lanes, key=_lane_size):
                largest.add(lane.count, {**labels, "group": lane.name})
        return _text([count, blocked, waiting, oldest, grown, owned, largest])

    def _largest(self) -> list[tuple[Labels, Queue]]:
        found = [
            ({"host": host.id, "queue": queue.name}, queue)
            for host in self.broker.hosts
            for queue in host.all_queues()
        ]
        return nlargest(QUEUES_SHOWN_MAX, found, key=lambda row: row[1].state.index.count)

    def _counters(self, queues: list[Queue]) -> list[Family]:
        total = Counters()
        for host in self.broker.hosts:
            total.add(host.queue_factory.gone)
        for queue in queues:
            total.add(queue.counters)
        families = []
        for name, text in COUNTERS:
            family = Family(f"covey_messages_{name}_total", "counter", text)
            family.add(getattr(total, name))
            families.append(family)
        return families

    def _topic_counters(self) -> list[Family]:
        published = Family(
            "covey_topic_messages_published_total", "counter", "Messages that topics took."
        )
        delivered = Family(
            "covey_topic_messages_delivered_total", "counter", "Messages handed to subscribers."
        )
        topics = [topic for host in self.broker.hosts for topic in host.topics.values()]
        hosts = self.broker.hosts
        published.add(
            sum(one.published for one in topics) + sum(one.published_gone for one in hosts)
        )
        delivered.add(
            sum(one.delivered for one in topics) + sum(one.delivered_gone for one in hosts)
        )
        return [published, delivered]

    def _process(self) -> list[Family]:
        process = self.process
        cpu = Family("process_cpu_seconds_total", "counter", "Time of the processor used.")
        cpu.add(process.cpu_s())
        return [
            cpu,
            _gauge("process_resident_memory_bytes", "Memory used.", resident_bytes()),
            _gauge("process_open_fds", "Open files and sockets.", process.open_files()),
            _gauge("process_max_fds", "Most that may be open.", process.open_files_max()),
            _gauge("process_start_time_seconds", "When it started.", process.started_s),
        ]


def _groups(queue: Queue) -> int:
    return len(queue.state.lanes)


def _unsettled(queue: Queue) -> int:
    return sum(len(each.unsettled) for each in queue.state.consumers.values())


def _lane_size(lane: Lane) -> int:
    return lane.count


def _gauge(name: str, text: str, value: float) -> Family:
    family = Family(name, "gauge", text)
    family.add(value)
    return family


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _text(families: Iterable[Family]) -> str:
    return "\n".join([line for family in families for line in family.lines]) + "\n"
