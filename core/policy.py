"""Policy: a queue's settings put to work, on a new queue or on one that is in use.

A changed policy never breaks a promise: another strategy takes over as each group drains, a lower
quota drops nothing that is there. Some settings decide where messages already are, so they can only
change while the queue is empty: the group header, the mirror, priorities and the last-value key.
"""

from __future__ import annotations

from typing import Final

from covey.config.queues import QueueSettings
from covey.config.settings import BrokerSettings
from covey.core.commands import change_strategy
from covey.core.destination import TEMPORARY_ROOT
from covey.core.errors import RefusedError
from covey.core.path import encode
from covey.core.queue import Queue
from covey.groups import make
from covey.groups.base import GroupStrategy
from covey.groups.key import GroupKey

STRATEGY_OPTIONS = ("strategy", "bucket_count", "cache_size", "ring_points", "lru_strict_activemq")
FIXED_WHILE_FULL = ("mirrored", "priorities", "lvq_key")
GROUPS_FIXED_WHILE_FULL = ("header", "default_group")
QUEUE_PREFIX: Final = "/queue/"  # may be written before the name of a dead-letter queue


def strategy_of(settings: QueueSettings) -> GroupStrategy:
    """Make the strategy a queue's settings ask for."""
    groups = settings.groups
    return make(
        groups.strategy,
        bucket_count=groups.bucket_count,
        cache_size=groups.cache_size,
        ring_points=groups.ring_points,
        lru_strict_activemq=groups.lru_strict_activemq,
    )


def key_of(settings: QueueSettings, strategy: GroupStrategy, limits: BrokerSettings) -> GroupKey:
    """Make the rule by which a queue finds the group of a message."""
    default_group = ""
    if strategy.uses_default_group:
        given = settings.groups.default_group
        default_group = limits.default_message_group if given is None else given
    return GroupKey(settings.groups.header, default_group, limits.group_id_length_max)


def dead_letter_name(template: str, queue: str) -> str:
    """Return the name of a queue's dead-letter queue, in the one form that clients' names get."""
    return encode(template.removeprefix(QUEUE_PREFIX).replace("*", queue), keep=".")


def change_policy(
    queue: Queue, settings: QueueSettings, limits: BrokerSettings, now: float
) -> None:
    """Let other settings hold from now on; raises RefusedError if messages stand against it."""
    old = queue.settings
    if queue.board.index.count or queue.timers.delayed.count:
        _refuse_rearranging(queue, settings)
    if any(
        getattr(old.groups, name) != getattr(settings.groups, name) for name in STRATEGY_OPTIONS
    ):
        change_strategy(queue, strategy_of(settings), now)
    queue.discipline.key = key_of(settings, queue.board.strategy, limits)
    queue.apply(settings)
    queue.is_durable = settings.durable and not queue.name.startswith(TEMPORARY_ROOT)
    queue.mark()


def _refuse_rearranging(queue: Queue, settings: QueueSettings) -> None:
    old = queue.settings
    changed = [
        f"groups.{name}"
        for name in GROUPS_FIXED_WHILE_FULL
        if getattr(old.groups, name) != getattr(settings.groups, name)
    ]
    changed += [name for name in FIXED_WHILE_FULL if getattr(old, name) != getattr(settings, name)]
    if changed:
        count = queue.board.index.count + queue.timers.delayed.count
        raise RefusedError(
            f"queue {queue.name} holds {count} messages:"
            f" {', '.join(changed)} can change only while it is empty",
            "conflict",
        )
