"""The event log packs what the queues report: dense ids, names once, a gap where no room is."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.clock import Clock
from covey.core.events.event import EventKind
from covey.core.events.event_log import (
    CODES,
    EVENT_BYTES,
    FORGET,
    GROUP_SHIFT,
    HEADER,
    LENGTH,
    MOMENT_BYTES,
    MOMENT_CODES,
    PERSISTENT,
    QUEUE_SHIFT,
    SIZE_MAX,
    ChunkTaker,
    EventLog,
)
from tests.doubles import Letter, make_directory

WORK = "\n\nwork"  # no host, no run before, the name


class Chunk(NamedTuple):
    flags: int
    first: int
    names: list[str]
    records: list[tuple[float, ...]]


def unpacked(data: bytes, count: int, moment_count: int) -> Iterator[tuple[float, ...]]:
    """Give kind, queue, group, consumer, number and time of each event."""
    layout = Struct("<" + "".join(f"{count}{code}" for code in CODES))
    moments = Struct("<" + "".join(f"{moment_count}{code}" for code in MOMENT_CODES))
    assert layout.size == count * EVENT_BYTES
    assert moments.size == moment_count * MOMENT_BYTES
    assert len(data) == layout.size + moments.size
    numbers = layout.unpack_from(data)
    starts_and_times = moments.unpack_from(data, layout.size)
    times = dict(zip(starts_and_times, starts_and_times[moment_count:], strict=False))
    time = 0.0
    for index in range(count):
        what, consumer, seq = numbers[index::count]
        time = times.get(index, time)
        queue = what >> QUEUE_SHIFT & (1 << GROUP_SHIFT - QUEUE_SHIFT) - 1
        yield what & 0xFF, queue, what >> GROUP_SHIFT, consumer, seq, time


class StorageState(ChunkTaker):
    """Keeps chunks, unpacked; has room for as many as a test says."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.chunks: list[Chunk] = []
        self.is_closed = False

    def take(self, chunk: bytes) -> bool:
        if len(self.chunks) >= self.room:
            return False
        _, flags, first, names_size, count, moments = HEADER.unpack_from(chunk)
        names, at = [], HEADER.size
        while at < HEADER.size + names_size:
            (length,) = LENGTH.unpack_from(chunk, at)
            names.append(chunk[at + LENGTH.size : at + LENGTH.size + length].decode())
            at += LENGTH.size + length
        records = list(unpacked(chunk[at:], count, moments))
        self.chunks.append(Chunk(flags, first, names, records))
        return True

    def close(self) -> None:
        self.is_closed = True


def log_of(storage_state: StorageState, *patterns: str) -> EventLog:
    clock = Clock()
    clock.turn(12.5)
    return EventLog(storage_state, patterns or ("**",), clock)


def record(log: EventLog, queue: str, kind: int, group: str, consumer: int, seq: int) -> None:
    events = log.of_queue(queue)
    if events is not None:
        events.record(kind, group, consumer, seq)


def enqueue(log: EventLog, queue: str, group: str, seq: int) -> None:
    record(log, queue, EventKind.ENQUEUE, group, 0, seq)


def test_an_event_is_one_record_and_a_name_is_sent_once() -> None:
    storage_state = StorageState()
    log = log_of(storage_state)
    enqueue(log, "work", "a", 1)
    record(log, "work", EventKind.DELIVER, "a", 7, 1)
    record(log, "work", EventKind.JOIN, "", 8, 0)
    log.close()
    assert storage_state.chunks == [
        Chunk(
            0,
            1,
            [WORK, "a"],
            [(1, 1, 2, 0, 1, 12.5), (4, 1, 2, 7, 1, 12.5), (18, 1, 0, 8, 0, 12.5)],
        )
    ]
    assert storage_state.is_closed


def test_ids_go_on_without_a_gap_from_chunk_to_chunk() -> None:
    storage_state = StorageState()
    log = log_of(storage_state)
    for seq in range(1, 5001):
        enqueue(log, "work", "a", seq)
    log.flush()
    log.flush()
    assert [(chunk.first, len(chunk.records)) for chunk in storage_state.chunks] == [
        (1, 2048),
        (2049, 2048),
        (4097, 904),
    ]
    assert [chunk.names for chunk in storage_state.chunks] == [[WORK, "a"], [], []]


def test_events_of_a_turn_share_its_time_and_a_chunk_begins_with_one() -> None:
    storage_state = StorageState()
    clock = Clock()
    clock.offset = 1000.0
    log = EventLog(storage_state, ("**",), clock)
    work = log.of_queue("work")
    assert work is not None
    for now in (1.0, 1.0, 2.0, 2.0):
        clock.turn(now)
        work.record(EventKind.ENQUEUE, "", 0, 1)
    log.flush()
    work.record(EventKind.ENQUEUE, "", 0, 1)
    log.flush()
    times = [[record[-1] for record in chunk.records] for chunk in storage_state.chunks]
    assert times == [[1001.0, 1001.0, 1002.0, 1002.0], [1002.0]]


def test_only_queues_that_a_pattern_means_are_kept() -> None:
    storage_state = StorageState()
    log = log_of(storage_state, "orders.*", "bills")
    for queue in ("orders.new", "orders", "bills", "bills.old", "orders.new"):
        enqueue(log, queue, "", 1)
    log.flush()
    assert storage_state.chunks[0].names == ["\n\norders.new", "\n\nbills"]
    assert [record[1] for record in storage_state.chunks[0].records] == [1, 2, 1]


def test_a_chunk_without_room_leaves_a_gap_and_the_names_are_sent_again() -> None:
    storage_state = StorageState(room=0)
    log = log_of(storage_state)
    enqueue(log, "work", "a", 1)
    log.flush()
    storage_state.room = 1
    enqueue(log, "work", "a", 2)
    log.flush()
    assert storage_state.chunks == [Chunk(FORGET, 2, [WORK, "a"], [(1, 1, 2, 0, 2, 12.5)])]
    assert log.dropped == 1


def test_a_full_dictionary_starts_over() -> None:
    storage_state = StorageState()
    log = log_of(storage_state)
    log.names_max = 3
    work = log.of_queue("work")
    assert work is not None
    for group in ("a", "b", "c"):
        work.record(EventKind.ENQUEUE, group, 0, 1)
    log.flush()
    work.record(EventKind.ENQUEUE, "c", 0, 2)
    log.flush()
    assert storage_state.chunks[1] == Chunk(FORGET, 4, [WORK, "c"], [(1, 1, 2, 0, 2, 12.5)])


def test_a_group_name_that_is_no_utf_8_is_written_in_escapes() -> None:
    storage_state = StorageState()
    log = log_of(storage_state)
    enqueue(log, "work", "\ud800", 1)
    log.flush()
    assert storage_state.chunks[0].names == [WORK, "\\ud800"]


def test_queues_of_one_name_on_two_hosts_are_told_apart() -> None:
    storage_state = StorageState()
    log = EventLog(storage_state, ("work.*",), Clock(), "a")
    settings = Settings.model_validate(
        {"virtual_host": [{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]}
    )
    directory = make_directory(settings)
    directory.brokers["b"].host.queue("work.old")
    for broker in directory.brokers.values():
        broker.listen(log)
    for name in ("work.old", "work.new", "other"):
        for host in directory.hosts:
            host.queue(name).state.record(EventKind.JOIN, "", 1, 0)
    log.flush()
    (chunk,) = storage_state.chunks
    queues = ["a\n\nwork.old", "b\n\nb/work.old", "a\n\nwork.new", "b\n\nb/work.new"]
    assert chunk.names[:3] == ["a\n\n", "work.*", "b\n\n"]
    assert [record[:2] for record in chunk.records[:2]] == [(64, 1), (64, 3)]  # each host starts
    joined = [record[1] for record in chunk.records if record[0] == EventKind.JOIN]
    assert [chunk.names[int(place) - 1] for place in joined] == queues


def test_a_message_that_comes_tells_its_size_and_whether_it_survives() -> None:
    storage_state = StorageState()
    log = log_of(storage_state)
    work = log.of_queue("work")
    assert work is not None
    work.arrive(EventKind.ENQUEUE, "a", 1, 10, False, None)
    work.arrive(EventKind.RECOVER, "a", 2, 5 << 31, True, None)
    log.flush()
    told = [record[3] for record in storage_state.chunks[0].records]
    assert told == [10, PERSISTENT + SIZE_MAX]


def test_what_is_on_a_queue_when_the_log_begins_is_told_first() -> None:
    storage_state = StorageState()
    broker = Broker(Settings())
    queue = broker.host.queue("work")
    for _ in range(3):
        queue.enqueue(Letter(message_group="g"))
    broker.listen(EventLog(storage_state, ("**",), Clock(), broker.host.id))
    queue.enqueue(Letter(message_group="g"))
    broker.commits.events.hand_over()  # type: ignore[union-attr]
    (chunk,) = storage_state.chunks
    told = [(int(record[0]), int(record[4])) for record in chunk.records]
    assert told[:2] == [(64, 0), (66, 0)]  # the run starts, and the queue has its policy
    assert told[2:] == [(65, 0), (65, 1), (65, 2), (65, 3), (1, 4)]
