# Compiled by mypyc: see setup.py.
"""Paging: which bodies are in memory, and how the others come back in time.

In a backlog an entry stays in memory and its body leaves memory. Rules:

- The newest bodies leave first. A message may arrive while its queue is over its memory window. Its
  body is put out after the pump had its chance to deliver it, and when there are enough bodies for
  one write. A persistent body is in the store already. Any other is first spilled to the scratch
  file.
- The body of an acquired message never leaves. No lane's head leaves while anybody reads the queue.
- Bodies come back by number, ahead of the consumers. A lane is HELD while its head has no body.
  Ungrouped entries wait in order. Selectors and dead-letter queues need the body too, so it is read
  before they are asked. Nothing is ever decided about a message whose body is not in memory.
- A body that came back, and that a selector then refused, leaves again. A body that only a browser
  looks at does not come back: it is read for the browser alone (`core.dispatch.browsing`).
- Beyond `memory_entries_queue` the entries are packed, too (`core.dispatch.backlog`).
- Even over the window the head of each lane is read. So the window may be exceeded by one message
  for each group, but no consumer ever waits for another one's backlog.
- While memory is short (`core.storage.overload`), nothing is read for a queue that is over its
  window. Its consumers hold so much: they have to settle first.

A damaged body is reported in `damages`. Its entry leaves the queue, but what is left of the message
stays on the disk.

A `BodyBatch` is a page: the bodies of a queue that are read together next. What consumers come to
first is read first: messages that expired while consumers were away, then ungrouped ones in their
order, then the heads of lanes that wait for their body. Nothing is asked for twice. No page is so
large that the commits behind it would wait long. While the queue is over its window, only what a
consumer waits for is read, and nothing ahead of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from covey.config.settings import BrokerSettings
from covey.core.dispatch.browsing import ReadAhead
from covey.core.dispatch.level import NOTHING
from covey.core.errors import BrokerError
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import ASIDE, GONE, KEPT, NOWHERE, PENDING, STORING, Entry
from covey.core.model.message import Message
from covey.core.queue.queue import Queue
from covey.core.queue.storage_state import StorageState
from covey.core.storage.store import DAMAGES_MAX, BodyRecord

if TYPE_CHECKING:
    from covey.core.storage.commits import Commits

# Not Final, so that a test of the compiled pager can make it small.
PAGE_MESSAGES = 512  # read at a time: larger pages hold up the commits behind them
INDEX_PAGES_AHEAD: Final = 8  # index pages, of 256 numbers each, looked through at a time
PAGE_BYTES: Final = 512 * 1024  # the same in bytes; a page holds one message at least
LANES_PER_PAGE: Final = 256  # few enough for two messages of each lane, if there is room


class BodyBatch:
    """Entries to be read together, none of them twice."""

    __slots__ = ("asked", "entries", "is_full", "size")

    def __init__(self, loading: set[int]) -> None:
        """Begin an empty page; `loading` are the numbers that were asked for before."""
        self.entries: list[Entry] = []
        self.asked = set(loading)
        self.size = 0
        self.is_full = False

    def add(self, entry: Entry | None) -> bool:
        """Read an entry's body, too, unless it is here or asked for; False if the page is full."""
        if entry is None or entry.message is not None or entry.state in (GONE, STORING):
            return True  # no entry, no need, or not at its place in the store yet
        if entry.seq in self.asked or self.is_full:
            return not self.is_full
        self.asked.add(entry.seq)
        self.entries.append(entry)
        self.size += entry.size
        self.is_full = len(self.entries) >= PAGE_MESSAGES or self.size >= PAGE_BYTES
        return not self.is_full

    def add_all(self, entries: Iterable[Entry]) -> None:
        """Read the bodies of these entries, too, until the page is full."""
        for entry in entries:
            if not self.add(entry):
                return


def wanted(queue: Queue, *, is_over: bool) -> list[Entry]:
    """Return the entries whose bodies the queue's consumers need next."""
    state = queue.state
    storage_state = queue.storage_state
    page = BodyBatch(storage_state.loading)
    overdue = storage_state.overdue
    asked = 0  # `overdue` may be very long: stop as soon as the page is full
    while asked < len(overdue) and page.add(state.index.get(overdue[asked])):
        asked += 1
    del overdue[:asked]
    if state.consumers:
        _want_ungrouped(queue, page, is_over=is_over)
        _want_lanes(queue, page, is_over=is_over)
    return page.entries


def ahead_of(queue: Queue, browser: Consumer, read_ahead: ReadAhead) -> list[Entry]:
    """Return the entries that a browser sees next; none while it has enough to look at."""
    if (
        read_ahead.is_asked
        or len(read_ahead) > PAGE_MESSAGES // 2
        or not browser.window.has_credit()
    ):
        return []
    index = queue.state.index
    page = BodyBatch(set())
    entry = index.look_from(max(read_ahead.ahead, browser.cursor))
    while entry is not None and entry.message is None and entry.state != STORING:
        read_ahead.ahead = entry.seq + 1
        if not page.add(entry):
            break
        entry = index.look_from(read_ahead.ahead)
    return page.entries


def _want_ungrouped(queue: Queue, page: BodyBatch, *, is_over: bool) -> None:
    state = queue.state
    views = [view for view in state.views if view.members]
    for rank, level in [pair for view in views for pair in enumerate(view.levels())]:
        todo = level.todo
        pages = INDEX_PAGES_AHEAD
        while pages and level.unread != NOTHING and len(todo) < 2 * PAGE_MESSAGES:
            level.read_on(state.index, rank)
            pages -= 1
        if not todo:
            continue
        ahead = todo[min(len(todo) - 1, PAGE_MESSAGES // 2)]
        if todo[0].message is None or (ahead.message is None and not is_over):
            page.add_all(islice(todo, 2 * PAGE_MESSAGES))


def _want_lanes(queue: Queue, page: BodyBatch, *, is_over: bool) -> None:
    state = queue.state
    lanes = list(islice(state.unread, LANES_PER_PAGE))
    if not lanes:
        return
    ahead = 1 if is_over else PAGE_MESSAGES // len(lanes)
    for lane in lanes:
        if page.is_full:
            return
        state.take_unread(lane)
        if state.lanes.get(lane.name) is lane:
            head = lane.head
            if head is not None:
                page.add_all(lane.ahead(head, state.index, ahead))


# Not Final, so that a test of the compiled pager can make them small.
AGAIN_AT_ONCE: Final = 1000  # queues
PAGES_MAX: Final = 2  # of one queue under way: one being used up, one being read
SPILL_MESSAGES = 256  # bodies put out at a time; so many may exceed the window
SPILL_BYTES: Final = 256 * 1024  # the same in bytes, whichever is reached first
LOADED_MIN = 2 * PAGE_MESSAGES  # stay even over the window, or they would be read again for ever

Decoder = Callable[[bytes, bytes], Message]


class BodiesInMemory:
    """Bytes of bodies in memory, of all brokers of the process together."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class Pager:
    """Bodies of all queues of one broker, in memory and out of it."""

    def __init__(
        self,
        commits: Commits,
        limits: BrokerSettings,
        decoders: Mapping[str, Decoder],
        bodies: BodiesInMemory,
    ) -> None:
        self.commits = commits
        self.window_queue = limits.memory_window_queue
        self.window_total = limits.memory_window_total
        self.entries_max = limits.memory_entries_queue
        self.decoders = decoders
        self.bodies = bodies
        self.damages: list[str] = []
        self._ticket = 0
        self._asked: dict[int, _Asked] = {}
        self._fresh: list[tuple[Queue, Entry]] = []  # newcomers of queues over their window
        self._fresh_size = 0
        self._put_off: dict[Queue, None] = {}  # nothing is read for them: memory is short

    @property
    def pages_under_way(self) -> int:
        """Return how many pages were asked for and have not come."""
        return len(self._asked)

    # Out.

    def arrived(self, queue: Queue, entry: Entry) -> None:
        """Called for a new entry; its body may be put out after the pump if there is no room."""
        # `_is_over` by hand: this runs for each message.
        if (
            queue.storage_state.resident > self.window_queue
            or self.bodies.total > self.window_total
        ):
            message = entry.message
            if message is not None:  # else it went before it was stored
                self._fresh.append((queue, entry))
                self._fresh_size += message.weight

    def trim(self) -> None:
        """Put out the bodies of newcomers that found no room and no consumer, many at a time."""
        if len(self._fresh) < SPILL_MESSAGES and self._fresh_size < SPILL_BYTES:
            return
        fresh, self._fresh = self._fresh, []
        self._fresh_size = 0
        for queue, entry in fresh:
            if not self._is_over(queue):
                continue
            if entry.stored != NOWHERE:
                self.put_out(queue, entry)
            elif entry.state == PENDING and queue.storage_state.number:
                self.commits.spill(queue, entry)

    def serve(self, queue: Queue) -> bool:
        """Look after a queue whose pump has run: count, put out, read ahead, pack.

        Return True if there is more to pack.
        """
        storage_state = queue.storage_state
        resident = storage_state.resident if storage_state.number else 0  # 0: the queue was deleted
        self.bodies.total += resident - storage_state.counted
        storage_state.counted = resident
        if storage_state.loaded:
            self._trim_loaded(queue)
        if not storage_state.out or not storage_state.number:
            pass
        elif self.commits.overload.memory.reason and storage_state.resident > self.window_queue:
            self._put_off[queue] = None
        elif storage_state.pages < PAGES_MAX:
            needed = wanted(queue, is_over=self._is_over(queue))
            if needed:
                self._ask_for_all(queue, needed)
        if storage_state.out and storage_state.number:
            for browser in queue.state.browsers:
                self._read_ahead(queue, browser)
        if storage_state.out > self.entries_max and storage_state.number:
            return queue.dispatch.backlog.sweep(storage_state.out, self.entries_max)
        return False

    def look_again(self) -> None:
        """Look after queues again for which nothing was read, as memory was short."""
        for queue in list(islice(self._put_off, AGAIN_AT_ONCE)):
            del self._put_off[queue]
            if queue.storage_state.number:
                queue.mark()

    def _count(self, storage_state: StorageState, size: int) -> None:
        storage_state.resident += size
        if storage_state.number:
            storage_state.counted += size
            self.bodies.total += size

    def _is_over(self, queue: Queue) -> bool:
        return (
            queue.storage_state.resident > self.window_queue
            or self.bodies.total > self.window_total
        )

    def put_out(self, queue: Queue, entry: Entry) -> None:
        """Drop a body from memory that is on the disk, unless somebody needs it in memory."""
        lane = entry.lane
        state = queue.state
        is_head = lane.head is entry
        if entry.message is None or (entry.state != PENDING and entry.state != ASIDE):
            return
        if is_head and state.consumers:
            return
        levels = [view.level(lane.rank) for view in state.views]
        if not lane.is_grouped and any(level.back for level in levels):
            return  # it may be a returned one: dispatch takes those from `back` without a look
        weight = entry.message.weight
        entry.message = None
        entry.size = queue.storage_state.shared(entry.size)
        if entry.expires_ms:
            entry.expires_ms = queue.timers.expiry.rounded(entry.expires_ms)
        queue.storage_state.out += 1
        self._count(queue.storage_state, -weight)
        if is_head:
            queue.placement.resolve(lane)

    def _trim_loaded(self, queue: Queue) -> None:
        storage_state = queue.storage_state
        loaded = storage_state.loaded
        while loaded and loaded[0].message is None:
            loaded.popleft()
        # Each level of each view reads its own next messages: what one has read must not leave for
        # another, or both would read for ever.
        places = len(queue.state.views) * len(queue.state.levels)
        least = max(LOADED_MIN, PAGE_MESSAGES * (places + 1))
        while len(loaded) > least and self._is_over(queue):
            self.put_out(queue, loaded.popleft())
        if len(loaded) > storage_state.loaded_limit:
            storage_state.loaded = deque(entry for entry in loaded if entry.message is not None)
            storage_state.loaded_limit = max(LOADED_MIN, 2 * len(storage_state.loaded))

    # In.

    def paged(self, ticket: int, bodies: list[BodyRecord]) -> None:
        """Called with the bodies that the store has read; what it could not read is damaged."""
        asked = self._asked.pop(ticket)
        queue, read_ahead = asked.queue, asked.read_ahead
        if read_ahead is None:
            queue.storage_state.pages -= 1
            queue.storage_state.loading.difference_update(asked.numbers)
        else:
            read_ahead.is_asked = False
        if queue.storage_state.number == 0:
            return  # the queue was deleted meanwhile, and the bodies with it
        lost = dict.fromkeys(asked.numbers, "it is not there")
        if read_ahead is not None:
            bodies.sort(key=_seq)  # the store brings all kept ones before all spilled ones
        for record in bodies:
            try:
                message = self._decoded(record)
            except (BrokerError, LookupError, ValueError) as unreadable:
                lost[record.seq] = str(unreadable)
            else:
                lost.pop(record.seq, None)
                if read_ahead is None:
                    self._take_in(queue, record.seq, message)
                else:
                    read_ahead.put(record.seq, message)
        for seq, cause in lost.items():
            self._give_up(queue, seq, cause)
        queue.mark()
        self.commits.wake()

    def _take_in(self, queue: Queue, seq: int, message: Message) -> None:
        entry = queue.state.index.get(seq)
        if entry is None or entry.message is not None:
            return
        entry.message = message
        entry.expires_ms = message.expires_ms
        storage_state = queue.storage_state
        storage_state.out -= 1
        self._count(storage_state, message.weight)
        storage_state.loaded.append(entry)
        lane = entry.lane
        if queue.expire_if_due(entry):
            return
        if lane.is_grouped and lane.head is entry:
            queue.placement.resolve(lane)

    def _decoded(self, record: BodyRecord) -> Message:
        decoder = self.decoders.get(record.kind)
        if decoder is None:
            raise LookupError(f"nothing here reads messages of the kind {record.kind}")
        return decoder(record.head, record.body)

    def _give_up(self, queue: Queue, seq: int, cause: str) -> None:
        entry = queue.state.index.get(seq)
        if entry is None or entry.message is not None:
            return
        if len(self.damages) < DAMAGES_MAX:
            where = "the store" if entry.stored == KEPT else "the scratch file"
            place = f"queue {queue.name}: message {seq} cannot be read from {where}"
            self.damages.append(f"{place}: {cause}")
        entry.stored = NOWHERE  # so that what is left of the message stays on the disk
        queue.counters.dropped += 1
        queue.drop(entry, EventKind.DROP)

    def _ask_for_all(self, queue: Queue, entries: list[Entry]) -> None:
        numbers = [entry.seq for entry in entries]
        queue.storage_state.loading.update(numbers)
        queue.storage_state.pages += 1
        self._ask(_Asked(queue, numbers, None))

    def _read_ahead(self, queue: Queue, browser: Consumer) -> None:
        """Ask for a browser's next page once it has seen half of the one before."""
        read_ahead = browser.read_ahead
        entries = [] if read_ahead is None else ahead_of(queue, browser, read_ahead)
        if read_ahead is not None and entries:
            read_ahead.is_asked = True
            self._ask(_Asked(queue, [entry.seq for entry in entries], read_ahead))

    def _ask(self, asked: _Asked) -> None:
        self._ticket += 1
        self._asked[self._ticket] = asked
        number = asked.queue.storage_state.number
        self.commits.store.page(self._ticket, [(number, seq) for seq in asked.numbers])


class _Asked:
    """A page under way: whose messages, and whether a browser alone will see them."""

    __slots__ = ("numbers", "queue", "read_ahead")

    def __init__(self, queue: Queue, numbers: list[int], read_ahead: ReadAhead | None) -> None:
        self.queue = queue
        self.numbers = numbers
        self.read_ahead = read_ahead


def _seq(record: BodyRecord) -> int:
    return record.seq
