# Compiled by mypyc: see setup.py.
"""Quota: how much a queue may hold, and what happens to messages that find it full.

| full_policy | answer                                                                  |
|-------------|-------------------------------------------------------------------------|
| block       | the producer waits until there is room                                  |
| reject      | the producer is told no                                                 |
| drop head   | the oldest messages that nobody has acquired go; if too few, told no    |
| drop tail   | the newcomer is dropped, and counted                                    |

`has_room` only looks. So all queues take a send to many queues, or a whole transaction, or none
does. `take_room` acts, message by message. An acquired message is never dropped. A message on its
way to the disk may be dropped, since a ring (`drop head`) must not refuse a burst. What is larger
than the whole quota is always refused: no waiting would ever make room for it.

What a long commit has yet to bring counts already (`promised`): nobody else may have that room.

A sender may hold messages of the same queue. It does not wait for these: its acknowledgements come
behind its message. So a queue may exceed its quota by what its senders hold of it.

A queue that is paused for producers (`core.queue.pause`) is like a full one. Producers wait, or are
told no if that is the policy. Nothing is ever dropped for a pause.
"""

from __future__ import annotations

from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.entry import ACQUIRED, Entry
from covey.core.queue.pause import why_stopped
from covey.core.queue.queue import Queue
from covey.core.session import Session


def has_room(queue: Queue, count: int, size: int, *, drops: bool = True) -> bool:
    """Return True if so many messages may come now; False: they have to wait.

    Raises RefusedError if waiting does not help. Without `drops` nothing is dropped for them.
    """
    settings = queue.settings
    if queue.pause.coming is not None:
        if settings.full_policy == "reject":
            raise RefusedError(why_full(queue), "full")
        return False
    if not is_over(queue, count, size):
        return True
    if settings.full_policy == "drop tail" and drops:
        return True
    if _is_beyond(queue, count, size):
        raise RefusedError(
            f"{count} message(s) of {size} bytes can never fit queue {queue.name},"
            f" whose quota is {_quota_text(queue)}",
            "full",
        )
    if settings.full_policy == "block":
        return False
    if settings.full_policy == "drop head" and drops and _can_drop(queue, count, size):
        return True
    raise RefusedError(why_full(queue), "full")


def is_kept_out_by_itself(queue: Queue, session: Session, count: int, size: int) -> bool:
    """Return True if so much would fit once the sender had settled what it holds of the queue.

    Its acknowledgements come behind its message in the same stream: it would wait for itself.
    """
    if queue.pause.coming is not None:
        return False
    held = [
        entry
        for subscription in session.subscriptions.values()
        if queue in subscription.consumers
        for entry in subscription.consumers[queue].unsettled.values()
    ]
    for transaction in session.transactions.values():
        held += [done.entry for done in transaction.settlements if done.source is queue]
    if not held:
        return False
    return not is_over(queue, count - len(held), size - sum(entry.size for entry in held))


def take_room(queue: Queue, size: int) -> bool:
    """Make room for one message as the policy says; False: the message is dropped, and counted."""
    policy = queue.settings.full_policy
    while is_over(queue, 1, size):
        if policy == "drop tail":
            drop_newcomer(queue)
            return False
        oldest = oldest_available(queue) if policy == "drop head" else None
        if oldest is None:
            break  # `has_room` said yes before: the excess came with the same send
        queue.counters.dropped += 1
        queue.drop(oldest, EventKind.DROP)
    return True


def drop_newcomer(queue: Queue) -> None:
    """Count a message that came in and is dropped at once."""
    queue.counters.enqueued += 1
    queue.counters.dropped += 1


def why_full(queue: Queue) -> str:
    """Say in words what a waiting producer waits for."""
    if queue.pause.coming is not None:
        return f"queue {queue.name} takes nothing in: {why_stopped(queue.pause.coming)}"
    delayed = queue.timers.delayed
    count = queue.state.index.count + delayed.count
    held = f"{count} messages, {queue.size + delayed.size} bytes"
    return f"queue {queue.name} is full: it holds {held}, its quota is {_quota_text(queue)}"


def oldest_available(queue: Queue) -> Entry | None:
    """Return the oldest entry that nobody has acquired: `drop head` drops this one."""
    index = queue.state.index
    entry = index.at_or_after(queue.drop_cursor)
    while entry is not None and entry.state == ACQUIRED:
        entry = index.at_or_after(entry.seq + 1)
    if entry is not None:
        queue.drop_cursor = entry.seq
    return entry


def is_over(queue: Queue, count: int, size: int) -> bool:
    """Return True if so much more would exceed the quota; delayed messages count, too."""
    settings = queue.settings
    delayed = queue.timers.delayed
    held = queue.state.index.count + delayed.count + queue.promised
    if settings.quota_messages and held + count > settings.quota_messages:
        return True
    size += queue.size + delayed.size + queue.promised_size
    return bool(settings.quota) and size > settings.quota


def _is_beyond(queue: Queue, count: int, size: int) -> bool:
    settings = queue.settings
    if settings.quota_messages and count > settings.quota_messages:
        return True
    return bool(settings.quota) and size > settings.quota


def _can_drop(queue: Queue, count: int, size: int) -> bool:
    """Return True if dropping the oldest messages would make enough room."""
    index = queue.state.index
    entry = oldest_available(queue)
    while entry is not None:
        if entry.state != ACQUIRED:
            count -= 1
            size -= entry.size
            if not is_over(queue, count, size):
                return True
        entry = index.look_from(entry.seq + 1)
    return False


def _quota_text(queue: Queue) -> str:
    settings = queue.settings
    limits = []
    if settings.quota_messages:
        limits.append(f"{settings.quota_messages} messages")
    if settings.quota:
        limits.append(f"{settings.quota} bytes")
    return " and ".join(limits)
