"""Offsets: how far a reader is in each queue, and what the queue still has.

An offset is the sequence number to read next, as in Kafka. A range is `first <= seq < end`. The
broker never gives a number twice, so an offset stays valid over restarts of either side.

Missing numbers inside a range do not mean a loss: others may consume from the queue, and a broker
skips some numbers when it restarts. The queue's `retained_from` mark says what is lost. All
messages below it went away without being settled (expired, dropped, purged, deleted with the
queue), or a reader has trimmed them.

This module only calculates: it needs no broker and no Spark. `lag_of` reads a query's progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from covey.pipeline.errors import PipelineError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EARLIEST_NUMBER: Final = -2  # Kafka's numbers for the two words
LATEST_NUMBER: Final = -1
RANGE_ROWS_MIN: Final = 5_000  # a smaller piece costs more to start than to read

Offsets = dict[str, int]
Spec = str | Offsets  # one of the two words, or numbers by queue


@dataclass(frozen=True, slots=True)
class Figures:
    """What a queue says of itself."""

    first: int
    end: int  # one above the last number given
    retained_from: int
    messages: int
    size_bytes: int
    duplicate_window: int = 0  # ids that the queue remembers, perhaps for a time only


@dataclass(frozen=True, slots=True)
class Range:
    """A part of one queue."""

    queue: str
    first: int
    end: int

    @property
    def rows(self) -> int:
        """Return how many messages there can be at most."""
        return max(0, self.end - self.first)


def resolve(option: str, spec: Spec, figures: Mapping[str, Figures]) -> Offsets:
    """Turn the value of an option into an offset for each queue."""
    if isinstance(spec, str):
        return {queue: _number(spec, found) for queue, found in figures.items()}
    if set(spec) != set(figures):
        odd = ", ".join(sorted(set(spec) ^ set(figures)))
        raise PipelineError(f"{option}: it must name the queues that are read, and no other: {odd}")
    words = {EARLIEST_NUMBER: EARLIEST, LATEST_NUMBER: LATEST}
    return {
        queue: _number(words[number], figures[queue]) if number in words else number
        for queue, number in spec.items()
    }


def _number(word: str, figures: Figures) -> int:
    return figures.first if word == EARLIEST else figures.end


def losses(start: Offsets, figures: Mapping[str, Figures]) -> list[str]:
    """Return a sentence for each queue that has lost messages which a reader at `start` needs."""
    found: list[str] = []
    for queue, offset in start.items():
        known = figures[queue]
        if offset > known.end:
            found.append(
                f"queue {queue} has given numbers up to {known.end - 1} only, the reader is at"
                f" {offset}: the queue was made anew"
            )
        elif offset < known.retained_from:
            found.append(
                f"queue {queue} no longer has all messages from {offset} to"
                f" {known.retained_from - 1}"
            )
    return found


def limited(start: Offsets, figures: Mapping[str, Figures], end: Offsets, rows: int) -> Offsets:
    """Return how far to go from `start` towards `end` with about `rows` messages.

    Each queue gets its share, and at least one message. Otherwise a short queue would wait for the
    long ones. So a large number of queues may get a few more than `rows` together.
    """
    begin = {queue: _from(queue, start, figures) for queue in end}
    waiting = {queue: max(0, end[queue] - begin[queue]) for queue in end}
    total = sum(waiting.values())
    if total <= rows:
        return end
    return {
        queue: min(end[queue], begin[queue] + max(1, rows * waiting[queue] // total))
        for queue in end
    }


def rows_between(start: Offsets, end: Offsets, figures: Mapping[str, Figures]) -> int:
    """Return how many messages there can be at most from one offset to another."""
    return sum(one.rows for one in ranges(start, end, figures))


def not_beyond(target: Offsets, end: Offsets, start: Offsets) -> Offsets:
    """Return how far to go, but not beyond a target; queues that the target lacks do not advance.

    A queue of the target that is not there any more is left out.
    """
    reachable = {queue: min(end[queue], last) for queue, last in target.items() if queue in end}
    return reachable | {queue: at for queue, at in start.items() if queue not in target}


def rows_of_bytes(figures: Iterable[Figures], size_bytes: int) -> int:
    """Return how many messages of the queues' mean size fit into `size_bytes`; at least one."""
    known = list(figures)
    messages = sum(one.messages for one in known)
    total = sum(one.size_bytes for one in known)
    return max(1, size_bytes * messages // total) if total else max(1, size_bytes)


def ranges(start: Offsets, end: Offsets, figures: Mapping[str, Figures]) -> list[Range]:
    """Return the range between two offsets for each queue, without what is surely gone."""
    found = [Range(queue, _from(queue, start, figures), last) for queue, last in end.items()]
    return [one for one in found if one.rows]


def _from(queue: str, start: Offsets, figures: Mapping[str, Figures]) -> int:
    """Return the number to begin at; the queue's first message if its numbers began anew."""
    offset = start.get(queue, 0)
    known = figures[queue]
    return known.first if offset > known.end else max(offset, known.first)


def split(parts: Iterable[Range], partitions_min: int, cores: int) -> list[tuple[Range, ...]]:
    """Divide ranges among about as many tasks as asked for, by default one for each core.

    A long range is cut into pieces. Many short ones share a task, because each task costs time.
    """
    known = list(parts)
    total = sum(one.rows for one in known)
    wanted = partitions_min or min(cores, -(-total // RANGE_ROWS_MIN))
    pieces = [piece for one in known for piece in _cut(one, -(-wanted * one.rows // total))]
    if len(pieces) <= wanted:
        return [(piece,) for piece in pieces]
    tasks: dict[int, list[Range]] = {}
    before = 0
    for piece in pieces:
        tasks.setdefault(before * wanted // total, []).append(piece)
        before += piece.rows
    return [tuple(task) for task in tasks.values()]


def _cut(one: Range, pieces: int) -> list[Range]:
    count = max(1, min(pieces, one.rows))
    edges = [one.first + one.rows * number // count for number in range(count + 1)]
    return [Range(one.queue, edges[number], edges[number + 1]) for number in range(count)]


def lag_of(progress: Mapping[str, Any]) -> Offsets:
    """Return how many messages of each queue a query has still to read.

    `progress` is `query.lastProgress`, or `json.loads(event.progress.json)` in a listener. Numbers
    of messages that others consume, or that a broker has skipped, count as well. So the result is
    an upper limit. Sources of other formats are ignored.
    """
    found: Offsets = {}
    for source in progress.get("sources", ()):
        latest, end = (_by_queue(source.get(name)) for name in ("latestOffset", "endOffset"))
        for queue, last in latest.items():
            found[queue] = found.get(queue, 0) + max(0, last - end.get(queue, 0))
    return found


def _by_queue(offset: object) -> Offsets:
    """Read an offset as Spark shows it; empty if it is another format's source."""
    try:
        known = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return {}
    if not isinstance(known, dict) or not all(isinstance(at, int) for at in known.values()):
        return {}
    return known
