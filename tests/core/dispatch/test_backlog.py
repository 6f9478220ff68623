"""The backlog: what may be packed, what it costs then, and that it comes back as it was."""

from __future__ import annotations

import sys
from array import array
from operator import attrgetter

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.dispatch.backlog import PAGES_PACKED, PAGES_SEEN
from covey.core.dispatch.index import PAGE_SIZE
from covey.core.dispatch.level import TODO_MAX
from covey.core.model.entry import KEPT, PENDING, Entry, Outcome
from covey.core.publishing.arrivals import restore
from covey.core.queue.owner import Unowned
from covey.core.queue.policy import strategy_of
from covey.core.queue.purge import Purge
from covey.core.queue.queue import Queue
from covey.core.storage.store import MessageRecord
from covey.groups.key import GroupKey
from tests.core.support import Bench
from tests.doubles import at_once

NEVER = 10**9
SIZE = 1024


def queue_of(settings: QueueSettings | None = None) -> Queue:
    simple = settings or QueueSettings(groups=GroupSettings(strategy="simple"))
    return Queue("a", simple, strategy_of(simple), GroupKey(), Unowned())


def fill(queue: Queue, count: int, groups: int, entries_max: int = NEVER, **also: int) -> None:
    first = queue.next_seq
    records = [
        MessageRecord(
            *(1, seq, f"g{seq % groups}" if groups else "", also.get("deliveries", 0), SIZE, 4),
            *(also.get("expires_ms", 0), 0),
        )
        for seq in range(first, first + count)
    ]
    restore(queue, records, entries_max)


def sweep(queue: Queue, most: int = 0) -> int:
    """Sweep to the end; return how many turns it took."""
    turns = 1
    while queue.dispatch.backlog.sweep(queue.storage_state.out, most):
        turns += 1
    return turns


def shown(queue: Queue) -> list[tuple[object, ...]]:
    look = attrgetter("seq", "lane.name", "size", "expires_ms", "deliveries", "state", "stored")
    return [look(entry) for entry in queue.state.index]


def lines(queue: Queue) -> dict[str, list[int]]:
    """Walk each lane's FIFO, which makes entries of all of it."""
    index = queue.state.index
    return {
        name: [] if lane.first is None else [entry.seq for entry in index.line(lane.first)]
        for name, lane in queue.state.lanes.items()
    }


def test_what_is_packed_is_shown_and_comes_back_as_it_was() -> None:
    queue = queue_of()
    fill(queue, 600, 3)
    fill(queue, 600, 3, deliveries=2, expires_ms=2_000_000_000_500)
    fill(queue, 100, 0)
    before = shown(queue)
    queue.dispatch.backlog.pack_all()
    assert queue.state.index.packed == 1200 - 2 * 3
    assert shown(queue) == before
    assert queue.state.index.packed == 1200 - 2 * 3, "to look makes no entries"
    for seq in range(1, 1301):
        entry = queue.state.index.get(seq)
        assert entry is not None and queue.state.index.get(seq) is entry
    assert queue.state.index.packed == 0
    assert shown(queue) == before
    assert lines(queue) == {f"g{n}": list(range(n or 3, 1201, 3)) for n in range(3)}


def test_first_last_and_head_of_a_lane_stay_entries_and_so_does_what_a_view_lists() -> None:
    queue = queue_of()
    fill(queue, 40, 4)
    fill(queue, TODO_MAX + 2 * PAGE_SIZE, 0)
    kept = {
        entry.seq: entry
        for lane in queue.state.lanes.values()
        for entry in (lane.first, lane.last, lane.head)
        if entry is not None
    }
    listed = list(queue.state.default_view.todo)
    queue.dispatch.backlog.pack_all()
    assert queue.state.index.packed > 40 - len(kept)
    for entry in [*kept.values(), *listed]:
        assert queue.state.index.get(entry.seq) is entry


def test_nothing_is_packed_that_is_more_than_waiting_with_its_body_on_the_disk() -> None:
    bench = Bench()
    queue = bench.queue
    for _ in range(8):
        bench.send("a")
    changed = [entry for entry in queue.state.index if entry.seq not in (1, 8)]
    for entry in changed[1:]:
        entry.message = None
        entry.stored = KEPT
    changed[2].stored = 0  # only in memory, and out of it
    changed[3].state = 3
    changed[4].is_first = True
    queue.dispatch.backlog.pack_all()
    index = queue.state.index
    assert index.packed == 2  # the first and the last of those that were put out
    found = index.get(changed[1].seq)
    assert found is not None and found is not changed[1]
    assert (found.state, found.stored, found.next) == (PENDING, KEPT, changed[1].seq + 1)


def test_numbers_that_are_too_large_keep_an_entry_as_it_is() -> None:
    queue = queue_of()
    fill(queue, 4, 1)
    second, third = (queue.state.index.get(seq) for seq in (2, 3))
    assert second is not None and third is not None
    second.size = 1 << 32
    third.next = third.seq + (1 << 32)
    queue.dispatch.backlog.pack_all()
    assert queue.state.index.packed == 0


def bytes_each(queue: Queue) -> float:
    """Return what pages and columns take for each message."""
    pages = queue.state.index._pages.values()
    parts = [
        part
        for page in pages
        for part in (page, page.places, page.links, page.sizes, page.expiries, page.tries)
        if not isinstance(part, int)
    ]
    return sum(map(sys.getsizeof, parts)) / queue.state.index.count


def test_a_packed_message_whose_numbers_are_those_of_its_page_takes_ten_bytes() -> None:
    queue = queue_of()
    groups = 1000
    fill(queue, 100 * groups, groups, 0, expires_ms=2_000_000_000_500)
    index = queue.state.index
    assert index.packed == 100 * groups - 2 * groups
    assert bytes_each(queue) <= 10
    places = [place for page in index._pages.values() for place in page.places]
    assert sum(isinstance(place, Entry) for place in places) == 2 * groups


def test_a_column_is_an_array_once_a_page_has_two_values() -> None:
    queue = queue_of()
    fill(queue, 1000, 7, deliveries=1)
    fill(queue, 10 * PAGE_SIZE, 7, expires_ms=2_000_000_000_500)
    for number, entry in enumerate(queue.state.index):
        entry.size = 100 if number < 10 * PAGE_SIZE else 100 + number % 5
    before = shown(queue)
    queue.dispatch.backlog.pack_all()
    assert shown(queue) == before
    assert bytes_each(queue) <= 20
    sizes = [page.sizes for page in queue.state.index._pages.values()]
    assert sizes[0] == 100
    assert isinstance(sizes[-1], array) and sizes[-1].itemsize == 4
    for entry in list(queue.state.index):
        assert queue.state.index.get(entry.seq) is not None
    assert shown(queue) == before
    assert queue.state.index.packed == 0


def test_a_small_queue_is_never_packed() -> None:
    queue = queue_of()
    fill(queue, 1000, 10, 1000)
    assert sweep(queue, 1000) == 1
    assert queue.state.index.packed == 0


def test_a_sweep_goes_in_portions_then_rests_until_it_is_worth_another() -> None:
    queue = queue_of()
    pages = 3 * PAGES_PACKED
    fill(queue, pages * PAGE_SIZE, 10)
    assert sweep(queue, 1000) > pages // PAGES_PACKED - 1
    packed = queue.state.index.packed
    assert packed == pages * PAGE_SIZE - 20
    fill(queue, 900, 10)
    assert sweep(queue, 1000) == 1 and queue.state.index.packed == packed
    fill(queue, 200, 10)
    sweep(queue, 1000)
    assert queue.state.index.packed > packed + 1000
    assert PAGES_SEEN > pages


def test_what_cannot_be_packed_is_not_looked_at_again_and_again() -> None:
    queue = queue_of()
    fill(queue, 5000, 5000)
    backlog = queue.dispatch.backlog
    sweep(queue, 100)
    assert queue.state.index.packed == 0 and backlog._left == 5000
    fill(queue, 1000, 5000)
    sweep(queue, 100)
    assert backlog._left == 5000, "it has not gone through all again"
    fill(queue, 400, 0)
    sweep(queue, 100)
    assert backlog._left == 6400


def test_a_restart_packs_as_it_goes() -> None:
    queue = queue_of()
    fill(queue, 5000, 10, 100)
    assert queue.state.index.packed == 4900
    assert sum(len(line) for line in lines(queue).values()) == 5000
    ungrouped = queue_of()
    fill(ungrouped, TODO_MAX + 500, 0, 0)
    assert ungrouped.state.index.packed == 500


def test_entries_that_go_from_the_middle_leave_a_line_without_a_hole() -> None:
    queue = queue_of()
    fill(queue, 300, 1)
    queue.dispatch.backlog.pack_all()
    left = [1]
    for seq in range(2, 301):
        entry = queue.state.index.get(seq)
        assert entry is not None
        if seq % 5:
            queue.expire(entry)
        else:
            left.append(seq)
        if seq % 7 == 0:
            queue.dispatch.backlog.pack_all()
    fill(queue, 2, 1)
    queue.dispatch.backlog.pack_all()
    assert lines(queue) == {"g0": [*left, 301, 302]}


def test_purge_of_a_packed_backlog_leaves_nothing() -> None:
    queue = queue_of()
    fill(queue, 2000, 20, 0)
    assert queue.state.index.packed
    at_once(Purge(queue))
    assert (queue.state.index.count, queue.state.index.packed, queue.storage_state.out) == (0, 0, 0)
    assert not queue.state.lanes and queue.size == 0


def test_expiry_finds_what_is_packed() -> None:
    queue = queue_of()
    fill(queue, 1000, 10, 0, expires_ms=5_000)
    fill(queue, 1000, 10, 0)
    while queue.pump(1.0, 6_000, 1000):
        pass
    assert queue.counters.expired == 1000
    assert [entry.seq for entry in queue.state.index] == list(range(1001, 2001))


def test_a_returned_message_that_is_packed_keeps_its_place_and_its_count() -> None:
    bench = Bench()
    queue = bench.queue
    for _ in range(6):
        bench.send("a")
    reader = bench.join(credit=4)
    bench.pump()
    assert reader.got == [1, 2, 3, 4]
    reader.window.count = -100
    for seq in (3, 2, 1):
        bench.settle(reader, seq, outcome=Outcome.FAILED)
    for entry in list(queue.state.index):
        if entry.seq in (2, 3):
            entry.message = None
            entry.stored = KEPT
    queue.dispatch.backlog.pack_all()
    assert queue.state.index.packed == 2
    back = [queue.state.index.get(seq) for seq in (2, 3)]
    assert [entry.deliveries for entry in back if entry is not None] == [1, 1]
    lane = queue.state.lanes["a"]
    assert lane.back is not None and sorted(lane.back) == [1, 2, 3]
