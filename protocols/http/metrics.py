"""Metrics: the broker's numbers in Prometheus' text format, worked out when somebody asks.

The core counts anyway. So a scrape costs a walk over the queues, and costs nothing per message.

    /metrics          totals of the whole broker; no label has a client's word in it
    /metrics/queues   the largest queues by name
    /metrics/groups   group skew: groups a consumer, blocked messages, oldest wait, largest groups;
                      a walk over every group, so to be asked less often

Counters must never fall, so the totals include the counts of deleted queues and topics. A queue's
own counters end with the queue. `process_` metrics have the names that Prometheus' own clients use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

from covey.core.broker.directory import Directory
from covey.core.dispatch.lane import Lane
from covey.core.jobs.turn_length import BOUNDS
from covey.core.queue.counters import Counters
from covey.core.queue.pause import BOTH, WAYS
from covey.core.queue.queue import Queue
from covey.protocols.process import Process, resident_bytes

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Prometheus keeps a time series for each name. So only the largest queues are shown.
QUEUES_SHOWN_MAX: Final = 500
CONSUMERS_SHOWN_MAX: Final = 100  # of one queue
GROUPS_SHOWN_MAX: Final = 10  # of one queue
PORTION: Final = 500  # queues looked at before others get their turn

COUNTERS: Final = (
    ("restored", "Messages that the start found in the store."),
    ("enqueued", "Messages that queues took."),
    ("acked", "Messages that consumers accepted."),
    ("returned", "Deliveries that came back."),
    ("expired", "Messages whose time ran out."),
    ("dropped", "Messages dropped by a limit, a purge or with their queue."),
    ("dead", "Messages that were dead-lettered or given up."),
    ("duplicates", "Messages that were sent before and left out."),
    ("moved", "Messages that an operator has put into another queue."),
    ("spilled", "Groups that left an owner without credit."),
    ("rebalanced", "Groups with messages that a rebalance gave to another consumer."),
    ("overdue", "Deliveries that were taken back after their deadline."),
    ("late", "Acknowledgements that came after that."),
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


Walked = TypeVar("Walked")


async def _in_portions(things: Sequence[Walked]) -> AsyncIterator[Walked]:
    """Walk over very many things; others get their turn in between."""
    for number, thing in enumerate(things):
        if number % PORTION == PORTION - 1:
            await checkpoint()
        yield thing


class Skew:
    """How a queue's groups are, found some groups at a time."""

    def __init__(self, now: float) -> None:
        self.full = 0  # groups with messages; a parked group may have none
        self.parked = 0
        self.stuck = 0
        self.waiting = 0  # messages of groups that are stuck
        self.since = now  # when the first of them was
        self.largest: list[Lane] = []

    def look(self, lanes: Sequence[Lane]) -> None:
        """Count some more groups."""
        full = [lane for lane in lanes if lane.count]
        stuck = [lane for lane in lanes if lane.blocked_since]
        self.full += len(full)
        self.parked += sum(lane.is_parked for lane in lanes)
        self.stuck += len(stuck)
        self.waiting += sum(lane.count - lane.unsettled for lane in stuck)
        self.since = min([self.since, *[lane.blocked_since for lane in stuck]])
        self.largest = nlargest(GROUPS_SHOWN_MAX, self.largest + full, key=_lane_size)


class Totals:
    """What all queues have together."""

    def __init__(self) -> None:
        self.held = 0
        self.unsettled = 0
        self.consumers = 0
        self.groups = 0
        self.size = 0
        self.delayed = 0
        self.paused = dict.fromkeys(WAYS[BOTH], 0)  # by way
        self.counters = Counters()

    def add(self, queue: Queue) -> None:
        """Add what a queue has."""
        state = queue.state
        self.held += state.index.count
        if state.consumers:
            self.unsettled += _unsettled(queue)
            self.consumers += len(state.consumers)
        self.groups += len(state.lanes)
        self.size += queue.size
        self.delayed += queue.timers.delayed.count
        for way, _ in queue.pause.records():
            self.paused[way] += 1
        self.counters.add(queue.counters)


class Metrics:
    """The numbers of one process, which may have several brokers."""

    def __init__(self, directory: Directory, version: str) -> None:
        self.directory = directory
        self.version = version
        self.process = Process()

    async def totals(self, now: float) -> str:
        """Write the totals of the whole broker."""
        hosts = self.directory.hosts
        found = Totals()
        for host in hosts:  # first: a queue that ends meanwhile must not count twice
            found.counters.add(host.queue_factory.gone)
        async for queue in _in_portions(self.directory.queues):
            found.add(queue)
        info = Family("covey_info", "gauge", "The version that runs.")
        info.add(1, {"version": self.version})
        brokers = self.directory.brokers.values()
        sessions = self.directory.shared.sessions.values()
        connections = Family("covey_connections", "gauge", "Open connections by protocol.")
        for protocol, count in sorted(Counter(one.protocol for one in sessions).items()):
            connections.add(count, {"protocol": protocol})
        paused = Family("covey_queues_paused", "gauge", "Queues that an operator paused, by way.")
        for way, count in found.paused.items():
            paused.add(count, {"way": way})
        waits = [now - one.blocked_since for one in sessions if one.is_blocked]
        gauges = [
            _gauge("covey_queues", "Queues.", sum(len(host.queues) for host in hosts)),
            paused,
            _gauge("covey_topics", "Topics.", sum(len(host.topics) for host in hosts)),
            _gauge(
                "covey_subscriptions",
                "Durable subscriptions.",
                sum(len(host.durables) for host in hosts),
            ),
            _gauge("covey_consumers", "Consumers.", found.consumers),
            _gauge("covey_groups", "Groups that have messages.", found.groups),
            _gauge("covey_messages_ready", "Messages nobody holds.", found.held - found.unsettled),
            _gauge("covey_messages_unsettled", "Messages consumers hold.", found.unsettled),
            _gauge("covey_message_bytes", "Bytes of all messages.", found.size),
            _gauge("covey_messages_delayed", "Messages that wait for their time.", found.delayed),
            _gauge("covey_connections_blocked", "Producers that wait for room.", len(waits)),
            _gauge(
                "covey_blocked_oldest_seconds", "The longest such wait.", max(waits, default=0.0)
            ),
        ]
        alarms = Family("covey_alarm", "gauge", "1 while producers wait for this, by cause.")
        for cause, reason in self.directory.alarms.items():
            alarms.add(int(bool(reason)), {"cause": cause})
        blocks = Family("covey_producer_blocks_total", "counter", "Times a producer had to wait.")
        blocks.add(sum(one.blocks_gone for one in brokers) + sum(one.blocks for one in sessions))
        failures = Family(
            "covey_internal_errors_total", "counter", "Failures of the broker itself; see its log."
        )
        failures.add(self.directory.failures)
        gauges += [*self._work(), *self._cluster(now)]
        jobs = Family("covey_jobs_finished_total", "counter", "Long work that is done.")
        jobs.add(sum(one.jobs.finished for one in brokers))
        counters = [
            self._turns(),
            jobs,
            failures,
            blocks,
            *self._counters(found.counters),
            *await self._topic_counters(),
        ]
        return _text([info, connections, *gauges, alarms, *counters, *self._process()])

    async def queues(self) -> str:
        """Write the numbers of the largest queues."""
        ready = Family("covey_queue_messages_ready", "gauge", "Messages nobody holds.")
        unsettled = Family("covey_queue_messages_unsettled", "gauge", "Messages consumers hold.")
        size = Family("covey_queue_message_bytes", "gauge", "Bytes of all messages.")
        consumers = Family("covey_queue_consumers", "gauge", "Consumers.")
        paused = Family("covey_queue_paused", "gauge", "1 while an operator has paused it, by way.")
        counters = [
            (name, Family(f"covey_queue_messages_{name}_total", "counter", text))
            for name, text in COUNTERS
        ]
        for labels, queue in await self._largest():
            held = _unsettled(queue)
            for name, family in counters:
                family.add(getattr(queue.counters, name), labels)
            ready.add(queue.state.index.count - held, labels)
            unsettled.add(held, labels)
            size.add(queue.size, labels)
            consumers.add(len(queue.state.consumers), labels)
            stopped = dict(queue.pause.records())
            for way in WAYS[BOTH]:
                paused.add(int(way in stopped), {**labels, "way": way})
        return _text(
            [ready, unsettled, size, consumers, paused, *[family for _, family in counters]]
        )

    async def groups(self, now: float) -> str:
        """Write how unevenly groups are distributed, and which groups wait."""
        count = Family("covey_queue_groups", "gauge", "Groups that have messages.")
        blocked = Family("covey_queue_groups_blocked", "gauge", "Groups that wait.")
        parked = Family("covey_queue_groups_parked", "gauge", "Groups that are parked.")
        claimed = Family(
            "covey_queue_groups_claimed", "gauge", "Groups that one consumer has for itself."
        )
        hung = Family(
            "covey_queue_consumers_overdue", "gauge", "Consumers that let a deadline pass."
        )
        waiting = Family("covey_queue_messages_blocked", "gauge", "Messages of groups that wait.")
        oldest = Family("covey_queue_group_oldest_wait_seconds", "gauge", "The longest such wait.")
        grown = Family(
            "covey_queue_groups_over_size", "gauge", "1 while a bounded map of groups had to grow."
        )
        owned = Family("covey_consumer_groups", "gauge", "Groups that a consumer owns.")
        largest = Family("covey_group_messages", "gauge", "Messages of the largest groups.")
        for labels, queue in await self._largest():
            skew = Skew(now)
            lanes = list(queue.state.lanes.values())
            for place in range(0, max(1, len(lanes)), PORTION):
                await checkpoint()  # a queue may have very many groups
                skew.look(lanes[place : place + PORTION])
            count.add(skew.full, labels)
            parked.add(skew.parked, labels)
            claimed.add(len(queue.state.claims.taken), labels)
            hung.add(sum(each.is_overdue for each in queue.state.consumers.values()), labels)
            grown.add(int(queue.state.strategy.over_size), labels)
            blocked.add(skew.stuck, labels)
            waiting.add(skew.waiting, labels)
            oldest.add(max(0.0, now - skew.since), labels)
            members = queue.state.consumers.values()
            for one in nlargest(CONSUMERS_SHOWN_MAX, members, key=lambda each: len(each.lanes)):
                owned.add(len(one.lanes), {**labels, "consumer": str(one.id)})
            for lane in skew.largest:
                largest.add(lane.count, {**labels, "group": lane.name})
        return _text(
            [count, blocked, parked, claimed, hung, waiting, oldest, grown, owned, largest]
        )

    async def _largest(self) -> list[tuple[Labels, Queue]]:
        found: list[tuple[int, int, Labels, Queue]] = []
        for host in self.directory.hosts:
            async for queue in _in_portions(list(host.all_queues())):
                labels = {"host": host.id, "queue": queue.name}
                found.append((queue.state.index.count, -len(found), labels, queue))
                if len(found) > 2 * QUEUES_SHOWN_MAX:
                    found = nlargest(QUEUES_SHOWN_MAX, found)
        return [row[2:] for row in nlargest(QUEUES_SHOWN_MAX, found)]

    def _counters(self, total: Counters) -> list[Family]:
        families = []
        for name, text in COUNTERS:
            family = Family(f"covey_messages_{name}_total", "counter", text)
            family.add(getattr(total, name))
            families.append(family)
        return families

    def _work(self) -> list[Family]:
        """Write which jobs are under way, and the longest turn."""
        running = sum(len(one.jobs.running()) for one in self.directory.brokers.values())
        longest_s = self.directory.shared.turn_lengths.longest_collection_s
        return [
            _gauge("covey_jobs", "Long work that is under way.", running),
            _gauge(
                "covey_collection_longest_seconds", "The longest garbage collection.", longest_s
            ),
        ]

    def _cluster(self, now: float) -> list[Family]:
        """Write this broker's part in the cluster; nothing if there is no cluster."""
        cluster = self.directory.shared.cluster
        if cluster is None:
            return []
        owned = Family("covey_space_owned", "gauge", "1 if this broker serves the virtual host.")
        epoch = Family("covey_space_epoch", "gauge", "How often it has changed its owner.")
        left = Family("covey_lease_remaining_seconds", "gauge", "Until its lease would be over.")
        commit = Family("covey_commit_seconds", "gauge", "The slowest commit of the last second.")
        view = cluster.view(now)
        for row in view.spaces:
            labels = {"space": row.space}
            broker = self.directory.brokers.get(row.space)
            owned.add(int(broker is not None), labels)
            epoch.add(row.epoch, labels)
            left.add(round(max(0.0, row.lease_left_s), 3), labels)
            if broker is not None:
                commit.add(round(broker.commits.slowest_s, 6), labels)
        taken = Family("covey_takeovers_total", "counter", "Virtual hosts taken here, by reason.")
        for reason in ("first", "free", "moved"):
            taken.add(cluster.takeovers[reason], {"reason": reason})
        fenced = Family("covey_fenced_total", "counter", "Virtual hosts that others took from it.")
        fenced.add(cluster.fenced)
        again = Family("covey_store_reconnects_total", "counter", "New connections after a break.")
        again.add(cluster.reconnects)
        config = Family("covey_config_digest", "gauge", "1, with what the configuration hashes to.")
        for node in view.nodes:
            config.add(1, {"node": node.node, "digest": node.digest})
        forwarded = _gauge(
            "covey_forwarded_connections", "Connections passed on to others.", cluster.forwarded
        )
        return [owned, epoch, left, commit, taken, fenced, again, config, forwarded]

    def _turns(self) -> Family:
        """Write how long the turns of the event loop took."""
        lengths = self.directory.shared.turn_lengths
        family = Family(
            "covey_turn_seconds", "histogram", "How long the broker was busy at a time."
        )
        count = 0
        for bound, found in zip((*BOUNDS, "+Inf"), lengths.counts, strict=True):
            count += found
            family.lines.append(f'covey_turn_seconds_bucket{{le="{bound}"}} {count}')
        family.lines.append(f"covey_turn_seconds_sum {lengths.total_s}")
        family.lines.append(f"covey_turn_seconds_count {count}")
        return family

    async def _topic_counters(self) -> list[Family]:
        published = Family(
            "covey_topic_messages_published_total", "counter", "Messages that topics took."
        )
        delivered = Family(
            "covey_topic_messages_delivered_total", "counter", "Messages handed to subscribers."
        )
        hosts = self.directory.hosts
        counts = [
            sum(one.published_gone for one in hosts),
            sum(one.delivered_gone for one in hosts),
        ]
        async for topic in _in_portions([one for host in hosts for one in host.topics.values()]):
            counts[0] += topic.published
            counts[1] += topic.delivered
        published.add(counts[0])
        delivered.add(counts[1])
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


def merged(texts: Mapping[str, str | None], *, is_labelled: bool) -> str:
    """Join the texts of the workers, by their numbers; None is a worker that did not answer.

    Nothing is added up. A sum would fall when a worker starts again or does not answer, and
    Prometheus would take that for a reset counter, so the rate would show very many events.
    """
    up = Family("covey_worker_up", "gauge", "1 if a worker has answered; else its numbers lack.")
    families: dict[str, list[str]] = {"covey_worker_up": up.lines}
    for number, text in sorted(texts.items()):
        up.add(int(text is not None), {"worker": number})
        lines: list[str] = []
        for line in (text or "").splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                lines = families.setdefault(name, [])
                is_known = bool(lines)
            if not line.startswith("#"):
                lines.append(_labelled(line, number) if is_labelled else line)
            elif not is_known:
                lines.append(line)
    return "\n".join([line for lines in families.values() for line in lines]) + "\n"


def _labelled(sample: str, worker: str) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{worker="{worker}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{worker="{worker}"}} {value}'


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
