"""Policy: a queue's settings put to work, and what an operator may do to a queue while it works.

A changed policy never breaks a promise. Another strategy takes over as each group drains. A lower
quota drops nothing that is there. A higher quota lets in producers that wait. Some settings decide
where messages already are: the group header, the mirror, priorities and the last-value key. These
can change only while the queue is empty.

The commands break no promise either. A group that is closed, moved or re-assigned goes to its new
owner once its unsettled messages are settled. An acquired message is never purged
(`core.queue.purge`).
"""

from __future__ import annotations

from typing import Final

from covey.config.queues import QueueSettings
from covey.config.settings import BrokerSettings
from covey.core.dispatch.state import NOT_SAID, ParkRecord
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.naming.destination import TEMPORARY_ROOT
from covey.core.naming.path import encode
from covey.core.queue.pause import BITS
from covey.core.queue.queue import Queue
from covey.groups import make
from covey.groups.key import GroupKey
from covey.groups.strategy import GroupStrategy


def close_group(queue: Queue, group: str, now: float) -> bool:
    """Take a group from its owner; False if it has no message on the queue."""
    state = queue.state
    state.turn(now)
    lane = state.lanes.get(group)
    if lane is None:
        state.record(EventKind.GROUP_CLOSE, group, 0, 0)  # its owner is forgotten all the same
        state.strategy.closed(group)
        return False
    queue.dispatch.close(lane)
    queue.placement.resolve(lane)
    queue.mark()
    return True


def rebalance(queue: Queue, now: float) -> int:
    """Give each consumer its share of the groups, moving no more than needed; return how many."""
    state = queue.state
    state.turn(now)
    return queue.balancer.rebalance()


def change_strategy(queue: Queue, strategy: GroupStrategy, now: float) -> None:
    """Let another strategy decide from now on; order is kept: a group drains before it moves."""
    state = queue.state
    state.turn(now)
    state.use(strategy)
    for consumer in state.consumers.values():
        if not (consumer.is_barred or consumer.is_retiring or consumer.group_asked):
            strategy.joined(consumer.id, consumer.weight)
    for group in state.lanes:
        strategy.opened(group)
    for consumer in state.consumers.values():
        queue.dispatch.reline(consumer)
    queue.membership.ask_all()
    queue.mark()


def park(
    queue: Queue, group: str, now: float, *, parked: bool, record: ParkRecord = NOT_SAID
) -> None:
    """Stop one group until it is let go on, whether it has messages or not."""
    state = queue.state
    state.turn(now)
    lane = state.lanes.get(group)
    if lane is None:
        if not parked:
            return
        lane = queue.placement.lane_for(group)
    lane.is_parked = parked
    state.set_parked(group, record if parked else None)
    lane.failures = 0
    state.record(EventKind.PARK if parked else EventKind.UNPARK, group, 0, 0)
    queue.placement.resolve(lane)
    queue.mark()


def pause(queue: Queue, way: str, now: float, record: ParkRecord | None) -> None:
    """Stop a queue for producers ("in"), consumers ("out") or both, or (None) let it go on."""
    state = queue.state
    state.turn(now)
    queue.pause.set(way, record)
    queue.choose_way()
    kind = EventKind.RESUME if record is None else EventKind.PAUSE
    state.record(kind, "", 0, BITS[way])
    if queue.is_awaited:
        queue.owner.freed(queue)  # waiting producers may go on, or hear the new reason to wait
    queue.mark()


def retire(queue: Queue, consumer: Consumer, now: float) -> None:
    """Give a consumer no new groups; it keeps its own until they are empty (rolling deploy)."""
    queue.state.turn(now)
    queue.membership.retire(consumer)
    queue.mark()


FIXED_WHILE_FULL = ("mirrored", "priorities", "lvq_key")
GROUPS_FIXED_WHILE_FULL = ("header", "default_group")
QUEUE_PREFIX: Final = "/queue/"  # may be written before the name of a dead-letter queue


def strategy_of(settings: QueueSettings) -> GroupStrategy:
    """Make the strategy a queue's settings ask for."""
    return make(settings.groups.strategy, **settings.groups.strategy_options())


def key_of(settings: QueueSettings, strategy: GroupStrategy, limits: BrokerSettings) -> GroupKey:
    """Make the rule by which a queue finds the group of a message."""
    default_group = ""
    if strategy.uses_default_group:
        given = settings.groups.default_group
        default_group = limits.default_message_group if given is None else given
    return GroupKey(settings.groups.header, default_group, limits.group_id_length_max)


def dead_letter_name(template: str, queue: str) -> str:
    """Return the name of a queue's dead-letter queue, encoded as names from clients are."""
    return encode(template.removeprefix(QUEUE_PREFIX).replace("*", queue), keep=".")


def change_policy(
    queue: Queue, settings: QueueSettings, limits: BrokerSettings, now: float
) -> None:
    """Use other settings from now on; raises RefusedError if the queue must be empty for that."""
    old = queue.settings
    if queue.state.index.count or queue.timers.delayed.count:
        _refuse_rearranging(queue, settings)
    is_same = (
        settings.groups.strategy == old.groups.strategy
        and settings.groups.strategy_options() == old.groups.strategy_options()
    )
    queue.report_policy(settings)
    if not is_same:
        change_strategy(queue, strategy_of(settings), now)
    queue.discipline.key = key_of(settings, queue.state.strategy, limits)
    queue.apply(settings)
    queue.is_durable = settings.durable and not queue.name.startswith(TEMPORARY_ROOT)
    if queue.is_awaited:
        queue.owner.freed(queue)  # waiting producers may find room, or be told no
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
        count = queue.state.index.count + queue.timers.delayed.count
        raise RefusedError(
            f"queue {queue.name} holds {count} messages:"
            f" {', '.join(changed)} can change only while it is empty",
            "conflict",
        )
