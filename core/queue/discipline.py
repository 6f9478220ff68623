# Compiled by mypyc: see setup.py.
"""Discipline: what a queue does with its messages besides keeping them in order.

    groups         each in a lane of its own                           `core.dispatch.lane`
    priorities     the highest first, oldest first within one          `core.dispatch.level`
    last values    a newer message replaces the older one of its key   `LastValues`
    duplicates     a message sent twice enters once                    `Duplicates`

Priorities and last values take messages out of the middle, which would break a group's order. So
such a queue has no groups, whatever its messages carry.

`LastValues` know which message of a last-value queue holds the newest value of each key. The older
message of a key is dropped, and the newer comes in at the end. An acquired message is left to its
consumer. If it comes back after a newer one came in, it is dropped then. A message without the key
is an ordinary one. The table has keys and sequence numbers. The queue's index knows whether a
number still stands for a message, so consuming costs nothing here. Keys are compared as text. So a
number from one protocol equals the same number sent as text by another.

`Duplicates` remember the last message ids of a queue. Only ids that clients gave count: the broker
makes none twice. A message whose id is known is taken, receipted and dropped. Known are the ids of
the last `window` messages that had one, also after they were consumed. Ids of persistent messages
survive a restart. With `duplicate_window_s` ids are known for that time. It is exact to a second,
or to a tenth of the time if that is less. After a restart the time of all ids begins again. An id
may be as long as a header, so a digest of fixed size is kept instead. Two different ids with the
same digest are less likely than a disk that invents one of two messages.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final

from covey.config.queues import QueueSettings
from covey.core.dispatch.claims import check_claim
from covey.core.dispatch.index import Index
from covey.core.dispatch.lane import Lane
from covey.core.dispatch.level import rank_of
from covey.core.dispatch.state import DispatchState
from covey.core.model.consumer import Consumer
from covey.core.model.entry import ACQUIRED, Entry
from covey.core.model.message import Message
from covey.groups.key import GroupKey

DEAD_SPARED: Final = 64  # so few keys without a message are not worth a walk


class LastValues:
    """The newest message of each key."""

    __slots__ = ("_index", "_newest", "header")

    def __init__(self, header: str, index: Index) -> None:
        self.header = header
        self._index = index
        self._newest: dict[str, int] = {}

    def key_of(self, message: Message) -> str:
        """Return the message's key; "" if it has none."""
        value = message.lookup(self.header)
        return "" if value is None else str(value)

    def older(self, key: str) -> Entry | None:
        """Return the entry that a newer message of this key replaces."""
        entry = self._index.get(self._newest.get(key, 0)) if key else None
        return None if entry is None or entry.state == ACQUIRED else entry

    def note(self, key: str, seq: int) -> None:
        """Note the newest message of a key."""
        if not key:
            return
        self._newest[key] = seq
        if len(self._newest) > 2 * self._index.count + DEAD_SPARED:
            living = self._newest.items()
            self._newest = {key: seq for key, seq in living if self._index.has(seq)}

    def is_outdated(self, entry: Entry) -> bool:
        """Return True if a newer message of the same key has come since, and is still there."""
        seq = self._newest.get(self.key_of(entry.content), 0)
        return seq > entry.seq and self._index.has(seq)


DIGEST_BYTES: Final = 16
FIRST_ID: Final = 1
IDS_MAX: Final = 1 << 41  # no id's number gets so high
IDS_BY_TIME_MAX: Final = 1_000_000  # so many are remembered if only a time is set
PRUNE_EVERY: Final = 1000  # fewer outdated ids in the store are not worth a statement


class Duplicates:
    """The ids one queue remembers."""

    __slots__ = (
        "_forgotten",
        "_known",
        "_restored",
        "_times",
        "next_number",
        "pruned",
        "window",
        "window_s",
    )

    def __init__(self, window: int, window_s: float = 0.0) -> None:
        """Remember `window` ids for `window_s` seconds; 0 seconds: without limit."""
        self.window = window
        self.window_s = window_s
        self._times: deque[tuple[float, int]] = deque()  # time, last number given by then
        self._forgotten = FIRST_ID  # no number below it is known
        self._restored = 0  # ids up to this number have no time yet: it begins at the next look
        self._known: dict[bytes, int] = {}  # digest to number; in order of arrival
        self.next_number = FIRST_ID
        self.pruned = FIRST_ID  # the store has no number below it

    @property
    def count(self) -> int:
        """Return how many ids are known."""
        return len(self._known)

    def holds(self, message: Message, now: float = 0.0) -> bool:
        """Return True if a message of this id was taken before."""
        if self.window_s:
            self._forget_old(now)
        given = message.duplicate_id()
        return bool(given) and digest(given) in self._known

    def add(self, message: Message, now: float = 0.0) -> tuple[int, bytes] | None:
        """Remember a message's id; return its number and digest, None if it has no id."""
        given = message.duplicate_id()
        if not given:
            return None
        known = digest(given)
        number = self.next_number
        self._add(number, known)
        if self.window_s:
            times = self._times
            if times and now < times[-1][0] + self._grain:
                times[-1] = (times[-1][0], number)
            else:
                times.append((now, number))
        return number, known

    def restore(self, number: int, known: bytes) -> None:
        """Remember an id that a restart found; numbers ascend."""
        self._add(number, known)
        self._restored = number

    def take_outdated(self) -> int:
        """Return the number below which the store must forget, 0 if that is not worth it yet.

        A number is returned once. From then on the ids below it count as forgotten by the store.
        """
        limit = max(self.next_number - self.window, self._forgotten)
        if limit - self.pruned < PRUNE_EVERY:
            return 0
        self.pruned = limit
        return limit

    def resize(self, window: int, window_s: float = 0.0) -> None:
        """Remember another number of ids from now on, for another time."""
        self.window = window
        if window_s and not self.window_s:
            self._restored = self.next_number - 1  # their times were not noted
        self.window_s = window_s
        self._trim()

    @property
    def _grain(self) -> float:
        """Return how exact the times are, in seconds."""
        return min(1.0, self.window_s / 10)

    def _forget_old(self, now: float) -> None:
        """Forget the ids whose time is over."""
        times = self._times
        if self._restored:
            times.clear()
            times.append((now, self._restored))
            self._restored = 0
        while times and times[0][0] + self._grain + self.window_s <= now:
            self._forgotten = times.popleft()[1] + 1
        known = self._known
        while known:
            first = next(iter(known))
            if known[first] >= self._forgotten:
                return
            del known[first]

    def _add(self, number: int, known: bytes) -> None:
        self.next_number = number + 1
        self._known[known] = number
        self._trim()

    def _trim(self) -> None:
        while len(self._known) > self.window:
            del self._known[next(iter(self._known))]


def digest(given: str) -> bytes:
    """Return the digest that is kept for an id."""
    return blake2b(given.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


class Discipline:
    """The queueing discipline of one queue, as its policy asks for it."""

    __slots__ = ("duplicates", "has_groups", "is_usual", "key", "last_values", "state")

    def __init__(self, state: DispatchState, key: GroupKey) -> None:
        self.state = state
        self.key = key  # finds a message's group
        self.duplicates: Duplicates | None = None
        self.last_values: LastValues | None = None
        self.has_groups = True
        self.is_usual = True  # no last values and no duplicates: a new message needs no look-up

    def apply(self, settings: QueueSettings) -> None:
        """Follow a (new) policy; priorities and keys change on an empty queue only."""
        levels = max(1, settings.priorities)
        if levels != len(self.state.levels):
            self.state.set_levels(levels)
        header = settings.lvq_key
        if header is None:
            self.last_values = None
        elif self.last_values is None or self.last_values.header != header:
            self.last_values = LastValues(header, self.state.index)
        window_s = settings.duplicate_window_s
        window = settings.duplicate_window or (IDS_BY_TIME_MAX if window_s else 0)
        if not window:
            self.duplicates = None
        elif self.duplicates is None:
            self.duplicates = Duplicates(window, window_s)
        else:
            self.duplicates.resize(window, window_s)
        self.has_groups = levels == 1 and self.last_values is None
        self.is_usual = self.last_values is None and self.duplicates is None

    def group_of(self, message: Message) -> str:
        """Return the group a message belongs to here, "" for none."""
        if not self.has_groups:
            return ""
        key = self.key
        if key.header is not None:
            found = message.lookup(key.header)
            if isinstance(found, str) and 0 < len(found) <= key.safe_length:
                return found
            return key.resolve(message.group, message.lookup)
        group = message.group
        if not group:
            return key.default_group
        if len(group) <= key.safe_length:
            return group
        return key.checked(message.group_place(), group)

    def lane_of(self, message: Message) -> Lane:
        """Return the lane of a new message without a group."""
        levels = self.state.levels
        return levels[0] if len(levels) == 1 else self.ungrouped_lane(message.priority)

    def ungrouped_lane(self, priority: int) -> Lane:
        """Return the lane of the messages that have no group and this priority."""
        levels = self.state.levels
        return levels[rank_of(priority, len(levels))]

    def check_claim(self, queue: str, consumer: Consumer) -> None:
        """Raise RefusedError if a consumer asks for one group and cannot have it."""
        if consumer.group_asked:
            length_max = self.key.id_bytes_max
            check_claim(queue, consumer, has_groups=self.has_groups, length_max=length_max)

    @property
    def remembers(self) -> bool:
        """Return True if even the empty queue remembers something that its end would lose."""
        return self.duplicates is not None and self.duplicates.count > 0
