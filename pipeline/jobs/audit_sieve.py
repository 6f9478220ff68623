"""Sieve: finds the groups that are plainly innocent, by arithmetic on whole columns.

A group passes the sieve if all of this is true:
- each of its messages was enqueued, delivered and acknowledged, each at most once;
- deliveries were in the order of the messages' numbers;
- its consumers had joined, and never left;
- the consumer changed only while nothing was unsettled, and the owner never changed;
- nothing was unsettled where another run went on with the store, or where events are missing.

Other events (a release, an expiry, a selector) may be right as well, but only a `Fold`
(`audit_fold`) can tell. So a group that passes is innocent, and one that does not is only suspect.
A Fold costs 2 us an event, the sieve a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey.pipeline.event_log.histories import RUN_BITS
from covey.pipeline.jobs.audit_rules import ACK, ASSIGN, DELIVER, ENQUEUE, NEVER, REVOKE
from covey.pipeline.jobs.audit_story import Story

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

QUEUE_PART: Final = -1  # the part number of events of a whole queue
KEY_NAMES: Final = ("history", "name", "group_id", "part")


class Key(NamedTuple):
    """A group, or one part of a queue's messages without a group."""

    history: int
    name: str
    group: str
    part: int


class Sorted:
    """Events sorted by group and, within a group, by their ids; groups are 0, 1, 2, ..."""

    def __init__(self, group: Numbers, kind: Numbers, consumer: Numbers, seq: Numbers) -> None:
        self.group = group
        self.kind = kind
        self.consumer = consumer
        self.seq = seq
        self.is_delivery = kind == DELIVER


def suspects(events: Sorted, is_grouped: Flags, is_doubtful: Flags) -> Flags:
    """Return for each group whether a fold must judge it; one doubtful event is enough."""
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
    """Return groups with a message whose events are not (a beginning of) enqueue, deliver, ack."""
    by_message = np.lexsort((events.seq, events.group))  # stable: events keep their order
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
    """Return groups in which a message got a smaller number than the one before it."""
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
    unsettled = np.cumsum(step) - step  # before each event, summed over all groups
    at = np.flatnonzero(events.is_delivery)
    group, consumer = events.group[at], events.consumer[at]
    of_earlier_groups = unsettled[np.searchsorted(events.group, group)]
    is_other = np.zeros(len(at), bool)
    is_other[1:] = (group[1:] == group[:-1]) & (consumer[1:] != consumer[:-1])
    found: Numbers = group[is_other & (unsettled[at] != of_earlier_groups)]
    return found


class Piece:
    """Sorted rows, cut into groups."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        count = table.num_rows
        is_new = np.zeros(count, bool)
        is_new[:1] = True
        for name in ("history", "part"):
            column = table[name].to_numpy()
            is_new[1:] |= column[1:] != column[:-1]
        for name in ("name", "group_id"):
            codes = _codes(table[name])
            is_new[1:] |= codes[1:] != codes[:-1]
        self.part = table["part"].to_numpy()
        is_new[1:] &= (self.part[1:] != QUEUE_PART) | (self.part[:-1] != QUEUE_PART)
        self.starts = np.flatnonzero(is_new).tolist()
        self.ends = [*self.starts[1:], count]

    def key(self, number: int) -> Key:
        """Return the key of the n-th group."""
        at = self.starts[number]
        return Key(*(self.table[name][at].as_py() for name in KEY_NAMES))

    def rows(self, number: int) -> pa.Table:
        """Return the events of the n-th group."""
        return self.table.slice(self.starts[number], self.ends[number] - self.starts[number])

    def suspects(self, first: int, end: int, story: Callable[[int, str], Story]) -> Iterator[int]:
        """Yield the numbers of those groups in a range that a fold must judge."""
        begin, stop = self.starts[first], self.ends[end - 1]
        table = self.table.slice(begin, stop - begin)
        lengths = np.diff([*self.starts[first:end], stop])
        group = np.repeat(np.arange(end - first), lengths)
        kind, consumer, seq, pos = (
            table[name].to_numpy().astype("i8") for name in ("kind", "consumer", "seq", "pos")
        )
        keys = [self.key(number) for number in range(first, end)]
        stories = [story(key.history, key.name) for key in keys]
        is_owner = (kind == ASSIGN) | (kind == REVOKE)
        rest = ~is_owner
        events = Sorted(group[rest], kind[rest], consumer[rest], seq[rest])
        is_grouped = np.array([key.group != "" for key in keys])
        is_doubtful = _doubtful(events, pos[rest], stories)
        is_suspect = suspects(events, is_grouped, is_doubtful)
        is_suspect[_with_two_owners(group[kind == ASSIGN], consumer[kind == ASSIGN])] = True
        step = (events.kind == ENQUEUE).astype("i8") - (events.kind == ACK)
        unsettled = np.bincount(events.group, step, end - first)
        is_quiet = np.array([one.is_simple for one in stories])
        is_suspect |= (unsettled != 0) & ~is_quiet
        kept_from = np.array([one.kept_from for one in stories], "i8")
        is_suspect[events.group[pos[rest] > kept_from[events.group]]] = True
        for number in np.flatnonzero(is_suspect).tolist():
            yield first + number


def _doubtful(events: Sorted, pos: Numbers, stories: list[Story]) -> Flags:
    """Mark events whose queue was deleted, or whose consumer left or never joined."""
    is_doubtful = np.zeros(len(pos), bool)
    places: dict[int, int] = {}
    number_of = [places.setdefault(id(story), len(places)) for story in stories]
    place = np.array(number_of, "i8")[events.group] if len(stories) else np.zeros(0, "i8")
    known = {number: story for number, story in zip(number_of, stories, strict=True)}
    who = place << 32 | events.consumer
    for number, story in known.items():
        if story.has_deletes:
            is_doubtful |= place == number
    left = [number << 32 | gone for number, story in known.items() for gone in story.left]
    if left:
        is_doubtful |= np.isin(who, left)
    strict = [n for n, story in known.items() if story.surroundings.joins_known_from < NEVER]
    if strict:
        code = (place << 54) | ((pos >> RUN_BITS) << 32) | events.consumer
        joined = [
            number << 54 | run << 32 | there
            for number in strict
            for run, there in known[number].joined
        ]
        is_doubtful |= np.isin(place, strict) & events.is_delivery & ~np.isin(code, joined)
    return is_doubtful


def _with_two_owners(group: Numbers, owner: Numbers) -> Numbers:
    is_other = (group[1:] == group[:-1]) & (owner[1:] != owner[:-1])
    found: Numbers = group[1:][is_other]
    return found


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return a number for each text, the same for the same text."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes: Numbers = encoded.indices.to_numpy()
    return codes
