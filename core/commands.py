"""Commands: what an operator may do to a queue while it works.

None of them breaks a promise: a group that is closed, moved or re-assigned goes to its new owner
once its unsettled messages are settled, and an acquired message is never purged.
"""

from __future__ import annotations

from covey.core.consumer import Consumer
from covey.core.entry import ACQUIRED
from covey.core.events import EventKind
from covey.core.queue import Queue
from covey.groups.base import GroupStrategy


def close_group(queue: Queue, group: str, now: float) -> bool:
    """Take a group from its owner; False if it has no message on the queue."""
    board = queue.board
    board.now = now
    lane = board.lanes.get(group)
    if lane is None:
        board.strategy.closed(group)
        return False
    queue.dispatch.close(lane)
    queue.placement.resolve(lane)
    queue.mark()
    return True


def rebalance(queue: Queue, now: float) -> None:
    """Forget all owners and ask anew."""
    board = queue.board
    board.now = now
    board.record(EventKind.REBALANCE, "", 0, 0)
    board.strategy.reset()
    for consumer in board.consumers.values():
        queue.dispatch.reline(consumer)
    queue.membership.ask_all()
    queue.mark()


def change_strategy(queue: Queue, strategy: GroupStrategy, now: float) -> None:
    """Let another strategy decide from now on; order holds, drained groups move."""
    board = queue.board
    board.now = now
    board.use(strategy)
    for consumer in board.consumers.values():
        if not consumer.is_gone and not consumer.is_retiring:
            strategy.joined(consumer.id, consumer.weight)
    for group in board.lanes:
        strategy.opened(group)
    for consumer in board.consumers.values():
        queue.dispatch.reline(consumer)
    queue.membership.ask_all()
    queue.mark()


def park(queue: Queue, group: str, now: float, *, parked: bool) -> bool:
    """Stop one group until it is let go on, empty or not; False if there is no such group."""
    board = queue.board
    board.now = now
    lane = board.lanes.get(group)
    if lane is None:
        return False
    lane.is_parked = parked
    if parked:
        board.parked.add(group)
    else:
        board.parked.discard(group)
    lane.failures = 0
    board.record(EventKind.PARK if parked else EventKind.UNPARK, group, 0, 0)
    queue.placement.resolve(lane)
    queue.mark()
    return True


def retire(queue: Queue, consumer: Consumer, now: float) -> None:
    """Give a consumer no new groups; it keeps its own until they are empty (rolling deploy)."""
    queue.board.now = now
    queue.membership.retire(consumer)
    queue.mark()


def purge(queue: Queue, now: float) -> int:
    """Drop every message nobody has acquired; return how many."""
    return trim(queue, queue.next_seq - 1, now)


def trim(queue: Queue, last: int, now: float) -> int:
    """Drop the messages up to a number that nobody has acquired; return how many."""
    queue.board.now = now
    index = queue.board.index
    count = 0
    entry = index.at_or_after(0)
    while entry is not None and entry.seq <= last:
        seq = entry.seq
        if entry.state != ACQUIRED:
            count += 1
            queue.drop(entry, EventKind.DROP)
        entry = index.at_or_after(seq + 1)
    queue.counts.dropped += count
    queue.mark()
    return count
