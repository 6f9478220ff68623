"""Entrance: the ways into a queue for a message that is not simply sent.

`restore` puts a message back at its number after a restart, `enter` gives one whose time has come
its number now. Both know it by its record; its body may be in the store.
"""

from __future__ import annotations

from covey.core.delayed import Waiting
from covey.core.entry import KEPT, PENDING, Entry
from covey.core.events import EventKind
from covey.core.queue import Queue
from covey.core.stores.base import MessageRecord


def restore(queue: Queue, record: MessageRecord) -> Entry:
    """Put a recovered message back at its number, without its body; numbers must ascend."""
    entry = _entry(queue, record.seq, record.group, record.priority, PENDING)
    entry.size = queue.shelf.shared(record.size)
    entry.expires_ms = record.expires_ms
    entry.deliveries = record.deliveries
    entry.stored = KEPT
    queue.next_seq = max(queue.next_seq, record.seq + 1)
    queue.insert(entry)
    queue.counts.restored += 1
    if entry.expires_ms:
        entry.expires_ms = queue.timers.expiry.rounded(entry.expires_ms)
    return entry


def enter(queue: Queue, waiting: Waiting, state: int) -> Entry:
    """Give a message whose time has come its number and its place."""
    entry = _entry(queue, queue.next_seq, waiting.key, waiting.priority, state)
    entry.message = waiting.message
    entry.size = waiting.size
    entry.expires_ms = waiting.expires_ms
    queue.next_seq += 1
    queue.insert(entry)
    queue.counts.enqueued += 1
    queue.board.record(EventKind.ENQUEUE, entry.lane.name, 0, entry.seq)
    return entry


def _entry(queue: Queue, seq: int, key: str, priority: int, state: int) -> Entry:
    """Make an entry without its body; the key is its group, or that of its last value."""
    discipline = queue.discipline
    group = key if discipline.has_groups else ""
    lane = queue.placement.lane_for(group) if group else discipline.plain_lane(priority)
    if discipline.last_values is not None:
        discipline.last_values.note(key, seq)
    return Entry(seq, None, lane, state)
