"""Recovery: what a restart does. It makes hosts, queues and subscriptions from the store's rows.

Messages come back without their bodies. A body is read when a consumer is about to get the message
(`core.storage.paging`). So a restart costs one walk over the small rows. Group ownership does not
come back: every group is free. Rows of a virtual host that the configuration no longer has stay on
disk as they are.
"""

from __future__ import annotations

import gc
import json
from typing import Final

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.errors import RefusedError, StoreError
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import DURABLE_PREFIX
from covey.core.publishing.arrivals import restore
from covey.core.queue.queue import Queue
from covey.core.queue.timers import PLACE
from covey.core.selector import compile_selector
from covey.core.storage.commits import Commits
from covey.core.storage.ledger import FLOOR, SYNTAX
from covey.core.storage.store import DAMAGES_MAX, DURABLE, DurableRecord, QueueRecord

QUEUE_OPTIONS: Final = frozenset(QueueSettings.model_fields)
GROUP_OPTIONS: Final = frozenset(GroupSettings.model_fields)


def recover(hosts: list[VirtualHost], commits: Commits) -> int:
    """Bring back what the store holds; return the number of messages."""
    # The garbage collector would walk the growing backlog again and again, and find nothing.
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        for record in commits.store.records():
            commits.ledger.recall_record(record)
        for host in hosts:
            host.queue_factory.parked.recall()
            host.queue_factory.paused.recall()
            host.queue_factory.dying.recall()
        records = commits.store.queues()
        queues = _recover_queues(hosts, commits, records)
        _recover_durables(hosts, commits)
        others: dict[int, int] = {}
        _recover_ids(queues, commits, others)
        count = _recover_messages(queues, commits, others)
        _leave({record.number for record in records}, commits, others)
        for host in hosts:
            _go_on_dying(host, {each.name: each for each in queues.values() if host.has(each)})
        return count
    finally:
        if was_collecting:
            gc.enable()


def _recover_queues(
    hosts: list[VirtualHost], commits: Commits, records: list[QueueRecord]
) -> dict[int, Queue]:
    known = {host.id: host for host in hosts}
    for record in records:
        commits.ledger.recall(record)
        host = known.get(record.host)
        if host is not None:
            host.queue_factory.numbers.recall(
                record.name, record.next_seq, is_floor=record.kind == FLOOR
            )
    queues: dict[int, Queue] = {}
    for record in records:
        host = known.get(record.host)
        if host is not None and record.is_live:
            queue = queues[record.number] = _recover_queue(host, record)
            # A restart skips some sequence numbers, but no messages. So the gap does not count as
            # dropped: only what the record says was dropped.
            queue.dropped_to = queue.storage_state.dropped_to = record.dropped_to
    return queues


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


def _recover_durables(hosts: list[VirtualHost], commits: Commits) -> None:
    known = {host.id: host for host in hosts}
    for record in commits.store.durables():
        host = known.get(record.host)
        if host is not None:
            commits.ledger.recall_durable(record)
            _recover_durable(host, record)


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


def _recover_messages(queues: dict[int, Queue], commits: Commits, others: dict[int, int]) -> int:
    """Bring messages back; count in `others` those of unknown queues, by the store's numbers."""
    count = 0
    for record in commits.store.messages():
        queue = queues.get(record.queue)
        if queue is None:
            others[record.queue] = others.get(record.queue, 0) + 1
            continue
        if record.seq < PLACE:
            restore(queue, record)
        else:
            queue.timers.delayed.restore(record)
            queue.mark()
        count += 1
    return count


def _recover_ids(queues: dict[int, Queue], commits: Commits, others: dict[int, int]) -> None:
    for record in commits.store.ids():
        queue = queues.get(record.queue)
        if queue is None:
            others.setdefault(record.queue, 0)
        elif queue.discipline.duplicates is not None:
            queue.discipline.duplicates.restore(record.number, record.digest)


def _leave(known: set[int], commits: Commits, others: dict[int, int]) -> None:
    """Leave rows of unknown queues on disk, and never give the numbers of those queues to others.

    A queue is unknown if its row was lost, or if its virtual host is not configured any more. A
    lost row is reported as damage.
    """
    for number, count in others.items():
        commits.ledger.leave(number)
        if number not in known and len(commits.store.damages) < DAMAGES_MAX:
            commits.store.damages.append(
                f"queue number {number}: its name is lost; {count} messages of it stay on the disk"
            )


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
