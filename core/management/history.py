"""History: the broker's numbers, second by second, so that a chart needs no other system.

A sample is taken every second. Ten minutes of samples are kept, and one a minute for a day. There
is a series for the broker, one for each virtual host, and one for some of the queues. A queue gets
a series when somebody looks at it or when it moves messages, as long as there is room
(`history_queues_max`). When there is no room, a queue that somebody looks at takes the place of the
queue that has been quiet and unseen for the longest time. So memory is bounded whatever the number
of queues.

A number that only ever grows (`Column.is_count`) is kept as it is. Its rate is worked out from two
neighbouring samples when somebody asks. Each sample has its own time, so a late sample falsifies no
rate.

There may be tens of thousands of queues. So `sample` walks over them in portions, and its caller
lets others work in between. For a queue that somebody looks at, the history also keeps who owned
the groups with the most messages, and when (`owners`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from covey.core.broker.directory import Directory
from covey.core.dispatch.lane import Lane
from covey.core.host.virtual_host import VirtualHost
from covey.core.management.describe import Attributes, Plain
from covey.core.queue.counters import Counters
from covey.core.queue.queue import Queue

EVERY_S: Final = 1.0
FINE_MAX: Final = 600  # ten minutes
MINUTE_S: Final = 60.0
COARSE_MAX: Final = 1440  # a day
PORTION: Final = 1000  # queues looked at in a row: a few milliseconds
SEEN_S: Final = 600.0  # the owners of a queue that nobody looks at are kept for so long
HOT_GROUPS: Final = 12  # groups of a queue whose owners are kept
OWNERS_MAX: Final = 120  # changes of the owner that are kept for each of these groups
LANES_MAX: Final = 100_000  # no owners are kept of a queue with more groups: a walk takes too long


@dataclass(frozen=True, slots=True)
class Column:
    """One number of a sample."""

    name: str
    is_count: bool = False  # the number only ever grows, and readers get its rate


QUEUE_COLUMNS: Final = (
    Column("messages"),
    Column("unsettled"),
    Column("enqueued", is_count=True),
    Column("delivered", is_count=True),
    Column("acknowledged", is_count=True),
    Column("returned", is_count=True),
    Column("dead", is_count=True),
)
HOST_COLUMNS: Final = (
    *QUEUE_COLUMNS,
    Column("bytes"),
    Column("published", is_count=True),
)
BROKER_COLUMNS: Final = (
    Column("connections"),
    Column("blocked"),
    Column("memory"),
    Column("disk_free"),
    Column("turn_ms"),
    Column("store_ms"),
    Column("cpu", is_count=True),
)


@dataclass(slots=True)
class Measures:
    """What only the server can measure."""

    memory: float = 0.0  # bytes
    disk_free: float = 0.0  # bytes
    turn_ms: float = 0.0  # the longest turn since the last sample
    store_ms: float = 0.0  # the slowest commit since the last sample
    cpu: float = 0.0  # seconds of processor time since the start


class Ring:
    """The latest rows of numbers, each with its time first."""

    __slots__ = ("_rows", "_width", "count", "size_max")

    def __init__(self, width: int, size_max: int) -> None:
        self._rows = array("d")
        self._width = width
        self.size_max = size_max
        self.count = 0  # rows that were ever put in

    def add(self, row: Sequence[float]) -> None:
        """Keep a row; if the ring is full, it replaces the oldest."""
        if self.count < self.size_max:
            self._rows.extend(row)
        else:
            start = self.count % self.size_max * self._width
            self._rows[start : start + self._width] = array("d", row)
        self.count += 1

    def latest(self, most: int) -> list[array[float]]:
        """Return the latest rows, the oldest first."""
        kept = min(self.count, self.size_max, most)
        width = self._width
        places = [number % self.size_max * width for number in range(self.count - kept, self.count)]
        return [self._rows[place : place + width] for place in places]


class Series:
    """The samples of one thing: those of ten minutes, and those of a day."""

    __slots__ = ("_coarse", "_coarse_at", "_fine", "columns", "moved_at", "seen_at", "sum")

    def __init__(self, columns: tuple[Column, ...], now: float) -> None:
        self.columns = columns
        self._fine = Ring(len(columns) + 1, FINE_MAX)
        self._coarse = Ring(len(columns) + 1, COARSE_MAX)
        self._coarse_at = 0.0
        self.moved_at = now  # when its counts last changed
        self.seen_at = now  # when somebody last looked
        self.sum = -1.0

    def add(self, row: Sequence[float], now: float, wall_s: float) -> None:
        """Keep a sample."""
        stamped = (wall_s, *row)
        self._fine.add(stamped)
        if now - self._coarse_at >= MINUTE_S:
            self._coarse_at = now
            self._coarse.add(stamped)

    def read(self, span_s: float, points_max: int = COARSE_MAX) -> Attributes:
        """Return the samples of the last seconds: times, and a list for each column."""
        is_fine = span_s <= FINE_MAX * EVERY_S
        step_s = EVERY_S if is_fine else MINUTE_S
        ring = self._fine if is_fine else self._coarse
        rows = ring.latest(int(span_s / step_s) + 1)
        shown = rows[1:][-points_max:]
        former = rows[len(rows) - len(shown) - 1 : -1]
        found: Attributes = {"step_s": step_s, "times": [round(row[0], 1) for row in shown]}
        for place, column in enumerate(self.columns, 1):
            values: list[Plain]
            if column.is_count:
                values = [_rate(old, new, place) for old, new in zip(former, shown, strict=True)]
            else:
                values = [_short(row[place]) for row in shown]
            found[column.name] = values
        return found


class Owners:
    """Who owned the largest groups of a queue, and when: changes of the owner, by group."""

    __slots__ = ("_groups", "seen_at")

    def __init__(self, now: float) -> None:
        self.seen_at = now
        self._groups: dict[str, list[tuple[float, int, str]]] = {}

    def sample(self, queue: Queue, now: float, wall_s: float) -> None:
        """Note the owners of the groups with the most messages, and of groups noted before."""
        lanes = queue.state.lanes
        if len(lanes) > LANES_MAX:
            return
        for lane in nlargest(HOT_GROUPS, lanes.values(), key=_lane_size):
            self._groups.setdefault(lane.name, [])
        while len(self._groups) > 2 * HOT_GROUPS:
            del self._groups[min(self._groups, key=self._last_change)]
        for name, changes in self._groups.items():
            owner = lanes[name].owner if name in lanes else None
            number = 0 if owner is None else owner.id
            if not changes or changes[-1][1] != number:
                shown, since = "", wall_s
                if owner is not None:
                    shown = owner.session.client_id or owner.name
                    since -= now - lanes[name].owned_since
                changes.append((since, number, shown))
                del changes[:-OWNERS_MAX]

    def read(self, queue: Queue) -> list[Plain]:
        """Return the groups, the largest first, each with its changes of the owner."""
        lanes = queue.state.lanes
        sizes = {name: lanes[name].count if name in lanes else 0 for name in self._groups}
        hottest = nlargest(HOT_GROUPS, sizes, key=lambda name: sizes[name])
        return [
            {
                "group": name,
                "messages": sizes[name],
                "owners": [[round(at, 1), owner, shown] for at, owner, shown in self._groups[name]],
            }
            for name in hottest
        ]

    def _last_change(self, name: str) -> float:
        changes = self._groups[name]
        return changes[-1][0] if changes else 0.0


class History:
    """The series of one process."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.broker = Series(BROKER_COLUMNS, 0.0)
        self._hosts: dict[str, Series] = {}
        self._queues: dict[Queue, Series] = {}
        self._owners: dict[Queue, Owners] = {}

    def sample(self, measures: Measures, now: float, wall_s: float) -> Iterator[None]:
        """Take a sample of everything, in portions: others may work after each."""
        sessions = list(self._directory.shared.sessions.values())
        blocked = sum(1 for one in sessions if one.is_blocked)
        row = (len(sessions), blocked, measures.memory, measures.disk_free)
        timing = (measures.turn_ms, measures.store_ms, measures.cpu)
        self.broker.add((*row, *timing), now, wall_s)
        for host in self._directory.hosts:
            yield from self._sample_host(host, now, wall_s)
        self._sweep(now)
        for queue, owners in list(self._owners.items()):
            owners.sample(queue, now, wall_s)
            yield

    def host(self, host: VirtualHost) -> Series:
        """Return a virtual host's series."""
        return self._hosts.setdefault(host.id, Series(HOST_COLUMNS, 0.0))

    def queue(self, queue: Queue, now: float) -> Series | None:
        """Return a queue's series, begun now if there is none; None if histories are off."""
        series = self._queues.get(queue)
        if series is None:
            series = self._begin(queue, now)
        if series is not None:
            series.seen_at = now
        return series

    def queues(self) -> list[Queue]:
        """Return the queues that have a series."""
        return list(self._queues)

    def known(self, queue: Queue) -> Series | None:
        """Return a queue's series if there is one."""
        return self._queues.get(queue)

    def owners(self, queue: Queue, now: float) -> list[Plain]:
        """Return who owned a queue's largest groups, and when; asking keeps the record going."""
        if not self._queues_max:
            return []
        owners = self._owners.get(queue)
        if owners is None:
            if len(self._owners) >= self._queues_max:
                del self._owners[min(self._owners, key=lambda one: self._owners[one].seen_at)]
            owners = self._owners[queue] = Owners(now)
            owners.sample(queue, now, self._directory.shared.clock.wall_ms_at(now) / 1000)
        owners.seen_at = now
        return owners.read(queue)

    def _sample_host(self, host: VirtualHost, now: float, wall_s: float) -> Iterator[None]:
        total = Counters()
        total.add(host.queue_factory.gone)
        messages = unsettled = size = 0
        for number, queue in enumerate(list(host.all_queues()), 1):
            total.add(queue.counters)
            messages += queue.state.index.count
            size += queue.size
            held = 0
            for consumer in queue.state.consumers.values():
                held += len(consumer.unsettled)
            unsettled += held
            self._sample_queue(queue, held, now, wall_s)
            if number % PORTION == 0:
                yield
        published = host.published_gone + sum(one.published for one in host.topics.values())
        row = (*_row(messages, unsettled, total), size, published)
        self.host(host).add(row, now, wall_s)
        yield

    def _sample_queue(self, queue: Queue, held: int, now: float, wall_s: float) -> None:
        series = self._queues.get(queue)
        if series is None:
            counts = queue.counters
            if counts.enqueued + counts.acked == 0 or not self._has_room():
                return
            series = self._begin(queue, now)
            if series is None:
                return
        row = _row(queue.state.index.count, held, queue.counters)
        moved = sum(row)
        if moved != series.sum:
            series.sum = moved
            series.moved_at = now
        series.add(row, now, wall_s)

    @property
    def _queues_max(self) -> int:
        return self._directory.settings.broker.history_queues_max

    def _has_room(self) -> bool:
        return len(self._queues) < self._queues_max

    def _begin(self, queue: Queue, now: float) -> Series | None:
        if not self._has_room():
            if not self._queues:
                return None
            del self._queues[min(self._queues, key=self._last_use)]
        series = self._queues[queue] = Series(QUEUE_COLUMNS, now)
        return series

    def _last_use(self, queue: Queue) -> float:
        series = self._queues[queue]
        return max(series.moved_at, series.seen_at)

    def _sweep(self, now: float) -> None:
        """Forget the series of deleted queues, and the owners in queues that nobody looks at."""
        alive = self._directory.hosts
        for queue in [one for one in self._queues if not any(host.has(one) for host in alive)]:
            del self._queues[queue]
        for queue, owners in list(self._owners.items()):
            is_gone = not any(host.has(queue) for host in alive)
            if is_gone or now - owners.seen_at > SEEN_S:
                del self._owners[queue]
        while len(self._queues) > self._queues_max:
            del self._queues[min(self._queues, key=self._last_use)]


def _row(messages: int, held: int, counts: Counters) -> tuple[float, ...]:
    # Nothing counts deliveries as such: each was accepted, came back, has died or is held now.
    delivered = counts.acked + counts.returned + counts.dead + held
    return (
        messages, held, counts.enqueued, delivered, counts.acked, counts.returned, counts.dead
    )  # fmt: skip


def _rate(old: array[float], new: array[float], place: int) -> float:
    span_s = new[0] - old[0]
    return round(max(0.0, new[place] - old[place]) / span_s, 2) if span_s > 0 else 0.0


def _short(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)


def _lane_size(lane: Lane) -> int:
    return lane.count
