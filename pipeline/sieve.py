"""Sieve: which groups of a share need a judge; of the others it is plain that all went well.

A group passes if its messages were enqueued, delivered and acknowledged, each of it at most once,
by a consumer that never left, in the order of their numbers, and the consumer changed only while
nothing was unsettled. Whatever else happened (a release, an expiry, a selector) may be right as
well, but takes a `Fold` to say so. So what passes is innocent, and what does not is only suspect.

All of it is arithmetic on whole columns: a Fold costs 2 us an event, the sieve a tenth of that.
"""

from __future__ import annotations

import numpy as np

from covey.pipeline.fold import ACK, DELIVER, ENQUEUE
from covey.pipeline.share import Flags, Numbers


class Sorted:
    """Events sorted by group and, within a group, by their ids; groups are 0, 1, 2, ..."""

    def __init__(self, group: Numbers, kind: Numbers, consumer: Numbers, seq: Numbers) -> None:
        self.group = group
        self.kind = kind
        self.consumer = consumer
        self.seq = seq
        self.is_delivery = kind == DELIVER


def suspects(events: Sorted, is_grouped: Flags, is_doubtful: Flags) -> Flags:
    """Say for each group whether it needs a judge; doubtful events alone make it so."""
    is_bad = np.zeros(len(is_grouped), bool)
    is_bad[events.group[is_doubtful]] = True
    is_bad[_lives_that_differ(events)] = True
    is_bad[_numbers_not_rising(events)] = True
    is_unordered = np.zeros(len(is_grouped), bool)
    is_unordered[_out_of_turn(events, len(is_grouped))] = True
    is_unordered[_shared(events)] = True
    result: Flags = is_bad | (is_unordered & is_grouped)
    return result


def _lives_that_differ(events: Sorted) -> Numbers:
    """Return groups of messages whose life is not enqueue, deliver, ack, or its beginning."""
    by_message = np.lexsort((events.seq, events.group))  # stable: ids keep their order
    group, seq = events.group[by_message], events.seq[by_message]
    kind, consumer = events.kind[by_message], events.consumer[by_message]
    is_same = np.zeros(len(group), bool)
    is_same[1:] = (group[1:] == group[:-1]) & (seq[1:] == seq[:-1])
    before = np.zeros_like(kind)
    before[1:] = kind[:-1]
    holder = np.zeros_like(consumer)
    holder[1:] = consumer[:-1]
    begins = ~is_same & (kind == ENQUEUE)
    goes = is_same & (before == ENQUEUE) & (kind == DELIVER) & (consumer > 0)
    ends = is_same & (before == DELIVER) & (kind == ACK) & (consumer == holder)
    found: Numbers = group[~(begins | goes | ends)]
    return found


def _numbers_not_rising(events: Sorted) -> Numbers:
    """Return groups that got a smaller number after a larger one."""
    is_enqueue = events.kind == ENQUEUE
    group, seq = events.group[is_enqueue], events.seq[is_enqueue]
    found: Numbers = group[1:][(group[1:] == group[:-1]) & (seq[1:] <= seq[:-1])]
    return found


def _out_of_turn(events: Sorted, groups: int) -> Numbers:
    """Return groups whose n-th delivery is not their n-th message."""
    is_enqueue = events.kind == ENQUEUE
    enqueued, messages = events.group[is_enqueue], events.seq[is_enqueue]
    delivered, taken = events.group[events.is_delivery], events.seq[events.is_delivery]
    first = np.searchsorted(enqueued, np.arange(groups))
    turn = np.arange(len(delivered)) - np.searchsorted(delivered, delivered)
    if not len(messages):
        every: Numbers = delivered
        return every
    place = np.minimum(first[delivered] + turn, len(messages) - 1)
    found: Numbers = delivered[(messages[place] != taken) | (enqueued[place] != delivered)]
    return found


def _shared(events: Sorted) -> Numbers:
    """Return groups that went to another consumer while something was unsettled."""
    step = np.where(events.is_delivery, 1, np.where(events.kind == ACK, -1, 0))
    unsettled = np.cumsum(step) - step  # before each event, counted over all groups
    at = np.flatnonzero(events.is_delivery)
    group, consumer = events.group[at], events.consumer[at]
    of_earlier_groups = unsettled[np.searchsorted(events.group, group)]
    is_other = np.zeros(len(at), bool)
    is_other[1:] = (group[1:] == group[:-1]) & (consumer[1:] != consumer[:-1])
    found: Numbers = group[is_other & (unsettled[at] != of_earlier_groups)]
    return found
