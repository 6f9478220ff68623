"""Recovery: what a restart does. It makes hosts, queues and subscriptions from the store's rows.

Messages come back without their bodies. A body is read when a consumer is about to get the message
(`core.storage.paging`). So a restart costs one walk over the small rows. Group ownership does not
come back: every group is free. Rows of a virtual host that the configuration no longer has stay on
disk as they are.

The walk is made of pieces (`Recovery.pieces`). Reading a piece from the store may wait, and changes
nothing else, so any thread may do that. Placing what was read is the loop's work, and never waits.
A start does both in a row (`recover`). A broker that takes over a virtual host while it serves
others reads beside its loop, and serves the others between two pieces.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, TypeVar

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.errors import RefusedError, StoreError
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import DURABLE_PREFIX
from covey.core.publishing.arrivals import restore
from covey.core.queue.queue import Queue
from covey.core.selector import compile_selector
from covey.core.storage.commits import Commits
from covey.core.storage.ledger import FLOOR, SYNTAX
from covey.core.storage.store import (
    DAMAGES_MAX,
    DURABLE,
    DurableRecord,
    IdRecord,
    MessageRecord,
    NamedRecord,
    QueueRecord,
)

QUEUE_OPTIONS: Final = frozenset(QueueSettings.model_fields)
GROUP_OPTIONS: Final = frozenset(GroupSettings.model_fields)
PIECE: Final = 1000  # rows that are placed at a time: some milliseconds

Place = Callable[[], None]
Record = TypeVar("Record")


def recover(hosts: list[VirtualHost], commits: Commits) -> None:
    """Bring back what the store holds, all of it at once."""
    with uncollected():
        for place in Recovery(hosts, commits).pieces():
            place()


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the garbage collector: it would walk the growing backlog again and again in vain."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


class Recovery:
    """The way back of what a store holds."""

    def __init__(self, hosts: list[VirtualHost], commits: Commits) -> None:
        self._hosts = {host.id: host for host in hosts}
        self._commits = commits
        self._entries_max = 0 if commits.pager is None else commits.pager.entries_max
        self._queues: dict[int, Queue] = {}
        self._known: set[int] = set()  # numbers of queues that have a row
        self._others: dict[int, int] = {}  # messages of unknown queues, by the store's numbers

    def pieces(self) -> Iterator[Place]:
        """Read one piece after the other; they are placed in this order, on the loop's thread."""
        store = self._commits.store
        yield partial(self._place_records, store.records())
        records = store.queues()
        for recalled in _cut(records):
            yield partial(self._recall_queues, recalled)
        for made in _cut(records):
            yield partial(self._place_queues, made)
        for durables in _cut(store.durables()):
            yield partial(self._place_durables, durables)
        for ids in _cut(store.ids()):
            yield partial(self._place_ids, ids)
        for messages in _cut(store.messages()):
            yield partial(self._place_messages, messages)
        yield self._leave
        yield self._go_on_dying

    def _place_records(self, records: list[NamedRecord]) -> None:
        for record in records:
            self._commits.ledger.recall_record(record)
        for host in self._hosts.values():
            host.queue_factory.parked.recall()
            host.queue_factory.paused.recall()
            host.queue_factory.dying.recall()

    def _go_on_dying(self) -> None:
        for host in self._hosts.values():
            known = {queue.name: queue for queue in self._queues.values() if host.has(queue)}
            _go_on_dying(host, known)

    def _recall_queues(self, records: list[QueueRecord]) -> None:
        """Recall all queues' numbers, those of swept ones included, before any queue is made."""
        for record in records:
            self._known.add(record.number)
            self._commits.ledger.recall(record)
            host = self._hosts.get(record.host)
            if host is not None:
                host.queue_factory.numbers.recall(
                    record.name, record.next_seq, is_floor=record.kind == FLOOR
                )

    def _place_queues(self, records: list[QueueRecord]) -> None:
        for record in records:
            host = self._hosts.get(record.host)
            if host is not None and record.is_live:
                queue = self._queues[record.number] = _recover_queue(host, record)
                # A restart skips some sequence numbers, but no messages. So the gap does not count
                # as dropped: only what the record says was dropped.
                queue.dropped_to = queue.storage_state.dropped_to = record.dropped_to

    def _place_durables(self, records: list[DurableRecord]) -> None:
        for record in records:
            host = self._hosts.get(record.host)
            if host is not None:
                self._commits.ledger.recall_durable(record)
                _recover_durable(host, record)

    def _place_ids(self, records: list[IdRecord]) -> None:
        for record in records:
            queue = self._queues.get(record.queue)
            if queue is None:
                self._others.setdefault(record.queue, 0)
            elif queue.discipline.duplicates is not None:
                queue.discipline.duplicates.restore(record.number, record.digest)

    def _place_messages(self, records: list[MessageRecord]) -> None:
        """Bring messages back; those of unknown queues are counted."""
        for number, run in groupby(records, itemgetter(0)):
            of_queue = list(run)
            queue = self._queues.get(number)
            if queue is None:
                self._others[number] = self._others.get(number, 0) + len(of_queue)
            else:
                restore(queue, of_queue, self._entries_max)

    def _leave(self) -> None:
        """Leave rows of unknown queues on disk, and never give their numbers to other queues.

        A queue is unknown if its row was lost, or if its virtual host is not configured any more. A
        lost row is reported as damage.
        """
        damages = self._commits.store.damages
        for number, count in self._others.items():
            self._commits.ledger.leave(number)
            if number not in self._known and len(damages) < DAMAGES_MAX:
                damages.append(
                    f"queue number {number}: its name is lost;"
                    f" {count} messages of it stay on the disk"
                )


def _cut(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Cut records into pieces."""
    rest = iter(records)
    while piece := list(islice(rest, PIECE)):
        yield piece


def _recover_queue(host: VirtualHost, record: QueueRecord) -> Queue:
    if record.kind == DURABLE:
        return host.make_durable(record.name.removeprefix(DURABLE_PREFIX)).queue
    if not record.settings:
        return host.queue(record.name)
    try:
        settings = _settings(record.settings)
    except (ValueError, AttributeError) as error:  # not JSON, not a table, or an unknown value
        raise StoreError(
            f"queue {record.name}: its stored settings cannot be read: {error}"
        ) from error
    host.declared.add(record.name)
    return host.queue(record.name, settings)


def _settings(text: str) -> QueueSettings:
    """Read a stored policy, without the options that this version no longer has."""
    stored = {name: value for name, value in json.loads(text).items() if name in QUEUE_OPTIONS}
    groups = stored.get("groups", {})
    stored["groups"] = {name: value for name, value in groups.items() if name in GROUP_OPTIONS}
    return QueueSettings.model_validate(stored)


def _recover_durable(host: VirtualHost, record: DurableRecord) -> None:
    durable = host.make_durable(record.name)
    durable.binding.not_from = record.not_from
    try:
        destinations = [
            place
            for text in record.destinations
            for place in SYNTAX.parse(text, allow_patterns=True)
        ]
        if record.selector:
            durable.binding.selector = compile_selector(record.selector)
    except RefusedError as error:
        raise StoreError(f"durable subscription {record.name} cannot be read: {error}") from error
    host.bind(durable, tuple(destinations))


def _go_on_dying(host: VirtualHost, queues: dict[str, Queue]) -> None:
    """Go on with what follows dead messages; what was held at the end follows, too."""
    dying = host.queue_factory.dying
    for name in dying.queues():
        queue = queues.get(name)
        for group, record in dying.of(name).items():
            lane = None if queue is None else queue.state.lanes.get(group)
            if queue is None or lane is None or queue.settings.dlq is None:
                dying.end(name, group)
            else:
                queue.placement.seize(lane)
                queue.owner.rest_dies(queue, group, record.why)
                queue.mark()
