"""Waiting: why a group waits, in a sentence an operator can act on.

Every state of a lane has its own answer (see `core.dispatch.lane`). "" means that the group does
not wait. The sentence names the consumer that could end the wait, by its number and its own name.
`longest_waits` finds the most urgent of a million groups, without making a sentence for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from operator import attrgetter
from typing import Final

from covey.core.dispatch.claims import NEXT
from covey.core.dispatch.lane import DRAINING, HELD, IDLE, OPEN, PARKED, READY, Lane
from covey.core.model.consumer import Consumer
from covey.core.queue.pause import why_stopped
from covey.core.queue.queue import Queue

BLOCKED_SINCE: Final = attrgetter("blocked_since")
NEXT_NUMBER: Final = attrgetter("head.seq")


def why_waits(queue: Queue, lane: Lane) -> str:
    """Say what has to happen before the group's next message can go."""
    if lane.is_parked:
        record = queue.state.parked.get(lane.name)
        if record is None:
            return f"{PARKED}: its messages failed too often in a row"
        by = f"{PARKED} by {record.by}" if record.by else PARKED
        return f"{by}: {record.why}" if record.why else by
    if lane.head is not None and queue.pause.going is not None:
        return f"the queue is {why_stopped(queue.pause.going)}"
    if lane.where == HELD:
        # Bodies are read from the store only for a consumer. So if there is no consumer, that is
        # the reason to give.
        is_unread = lane.head is not None and lane.head.message is None
        return (is_unread and _why_untaken(queue)) or lane.why
    if lane.where == DRAINING:
        return _why_draining(lane)
    if lane.where == READY and lane.target is not None:
        return _why_not_begun(queue) or _why_unwilling(lane.target)
    if lane.where == OPEN:
        return _why_untaken(queue) or _why_refused(queue, lane)
    if lane.where == IDLE and lane.aside is not None:
        return f"{lane.aside.count} messages set aside: no consumer here may take them"
    return ""


def longest_waits(
    queue: Queue, some: Iterable[Lane], now: float, most: int
) -> tuple[list[tuple[float, Lane]], int]:
    """Of some groups return the most urgent that wait, with their waits in seconds, and how many.

    Groups that are blocked (parked, draining, held) come first, because they may need an operator.
    Then come the groups that have waited longest for a consumer.
    """
    is_untaken = bool(_why_untaken(queue))
    lanes = [lane for lane in some if _waits(queue, lane, is_untaken=is_untaken)]
    blocked = nsmallest(most, [lane for lane in lanes if lane.blocked_since], key=BLOCKED_SINCE)
    # A group that is not blocked has waited since its next message came. A lower sequence number
    # means a longer wait.
    behind = [lane for lane in lanes if lane.head is not None and not lane.blocked_since]
    found = [(now - lane.blocked_since, lane) for lane in blocked]
    for lane in nsmallest(most, behind, key=NEXT_NUMBER):
        assert lane.head is not None
        found.append((queue.ages.age(lane.head.seq, now), lane))
    found += [(0.0, lane) for lane in lanes if lane.head is None and not lane.blocked_since]
    return nlargest(most, found, key=urgency), len(lanes)


def urgency(wait: tuple[float, Lane]) -> tuple[bool, float]:
    """Return the sort key of a group that waits; the most urgent group has the largest."""
    waited_s, lane = wait
    return bool(lane.blocked_since), waited_s


def _waits(queue: Queue, lane: Lane, *, is_untaken: bool) -> bool:
    """Return True if `why_waits` has an answer, but avoid making the sentence."""
    if lane.head is not None and queue.pause.going is not None:
        return True
    if lane.where == READY and lane.target is not None:
        return not queue.start.has_begun or not lane.target.is_willing()
    if lane.where == OPEN:
        return is_untaken or (queue.state.has_selectors and bool(_why_refused(queue, lane)))
    return lane.where in (DRAINING, HELD) or lane.is_parked or lane.aside is not None


def named(consumer: Consumer) -> str:
    """Name a consumer for people."""
    shown = f" ({consumer.name})" if consumer.name else ""
    return f"consumer {consumer.id}{shown}"


def _why_draining(lane: Lane) -> str:
    holder = lane.holder
    assert holder is not None, "a lane drains while somebody holds its messages"
    if holder.is_gone:
        return f"{named(holder)} left {lane.unsettled} messages in a transaction that is open"
    return f"waiting for {named(holder)} to settle {lane.unsettled} messages"


def _why_not_begun(queue: Queue) -> str:
    if queue.start.has_begun:
        return ""
    if queue.state.rules.consumers_before_dispatch:
        return "waiting for more consumers before the first dispatch"
    return "waiting for time_before_dispatch_ms to pass before the first dispatch"


def _why_unwilling(consumer: Consumer) -> str:
    if consumer.is_willing():
        return ""
    if consumer.is_overdue:
        return _why_all_overdue([consumer])
    if consumer.window.is_paused:
        return f"{named(consumer)} does not read what was sent to it"
    if len(consumer.unsettled) >= consumer.unsettled_max:
        return f"{named(consumer)} holds {len(consumer.unsettled)} messages, the most it may"
    return f"{named(consumer)} has no credit; it holds {len(consumer.unsettled)} messages"


def _why_all_overdue(consumers: list[Consumer]) -> str:
    if len(consumers) == 1:
        one = consumers[0]
        return f"{named(one)} held a message for over {one.deadline_s:g} s, and settles nothing"
    return f"all {len(consumers)} consumers held messages beyond their deadline, and settle nothing"


def _why_untaken(queue: Queue) -> str:
    consumers = [each for each in queue.state.consumers.values() if not each.is_gone]
    if not queue.start.has_begun and (consumers or queue.state.rules.consumers_before_dispatch):
        return _why_not_begun(queue)
    if not consumers:
        return "no consumer reads this queue"
    consumers = [each for each in consumers if each.group_asked in ("", NEXT)]
    if not consumers:
        return "all consumers here want one other group"
    consumers = [each for each in consumers if not each.group]
    if not consumers:
        return "all consumers here work on one group each, and take no other until it is done"
    taking = [each for each in consumers if not each.is_retiring]
    if not taking:
        return f"all {len(consumers)} consumers retire and take no new groups"
    overdue = [each for each in taking if each.is_overdue]
    if len(overdue) == len(taking):
        return _why_all_overdue(overdue)
    if not any(each.is_willing() for each in taking):
        return f"none of {len(taking)} consumers has credit"
    return ""


def _why_refused(queue: Queue, lane: Lane) -> str:
    """Say why nobody takes a free group, although a consumer has credit."""
    state = queue.state
    head = lane.head
    if not state.has_selectors or head is None or head.message is None:
        return ""
    admits = queue.placement.admission.admits
    wanting = [
        each
        for each in state.consumers.values()
        if each.view is not None and not each.is_retiring and admits(each.view, head)
    ]
    if not wanting:
        return "only consumers that retire may take its next message"
    if any(each.is_willing() for each in wanting):
        return ""
    if len(wanting) == 1:
        return _why_unwilling(wanting[0])
    return f"none of the {len(wanting)} consumers that may take its next message has credit"
