# Compiled by mypyc: see setup.py.
"""Journal: the batches that were committed last, before their messages are put into the tables.

Most messages are settled milliseconds after they came. So a commit appends *one* batch to a file
(`core.storage.sqlite.segments`), whatever is in it. A message that is settled before its segment is
folded is never written to the tables. When the journal is nearly full, the oldest segment is
*folded*: its living messages go to the tables, a little at a time, between two commits. Rules:

- A segment is folded as if it were one batch: first queues are emptied, then its living messages
  are inserted, then moves, retry counts, ids and definitions follow. The last step also writes up
  to which batch the tables know everything (`FOLDED`).
- A step may be repeated after a crash, so a message that is already in the tables is replaced. For
  the same reason a replay deletes from the tables whatever its batches settled.
- A segment is used again only when a checkpoint has brought the tables to the disk. Nothing else
  flushes the tables' own log, and what that log loses must still be in the journal.
- A settled message that is in the tables (`gone`) is deleted there by the next step.
- A message that was moved is still at its old place until its segment is folded (`moved`). No
  message is moved twice.
- Batches are numbered for ever, without a gap. So a missing batch is known by its number, within a
  segment and between two (`core.storage.sqlite.confirmed` knows the last number).
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final
from zlib import crc32

from covey.core.storage.changes import Changes, add_rest, packed_rest, without
from covey.core.storage.packing import (
    BREATH,
    HEADER_SIZE,
    RECORD,
    SEQ_BITS,
    SEQ_MASK,
    Arrival,
    breathe,
    ids_of,
    message_sum,
    packed_at,
    packed_batch,
    packed_ids,
    packed_places,
    places_of,
    unpack_at,
)
from covey.core.storage.sqlite.schema import BODIES, FOLDED, MESSAGES, fold_mark
from covey.core.storage.sqlite.segments import (
    READ_SIZE,
    Segment,
    Written,
    meaning,
    new_name,
)
from covey.core.storage.sqlite.statements import (
    DELETE,
    Statement,
    emptyings,
    insert,
    others,
    renumberings,
)
from covey.core.storage.store import BodyRecord

SEGMENTS: Final = 8  # that the journal's size is divided into
SEGMENT_MIN: Final = 4096
IN_USE_MAX: Final = SEGMENTS - 2  # then the oldest is folded; two more may wait for a checkpoint
FOLD_ROWS: Final = 256  # messages put into the tables by one step
FOLD_BYTES: Final = 256 * 1024  # the same in bytes, whichever is reached first
GONE_MAX: Final = 256  # messages deleted from the tables by one step: reads of bodies wait for it


class Fold:
    """One step of a fold: its statements, and which messages they are about."""

    __slots__ = ("gone", "is_last", "places", "segment", "size", "statements")

    def __init__(self) -> None:
        self.segment: Segment | None = None
        self.places: list[int] = []  # of the messages that are inserted
        self.gone = 0  # how many of `Journal.gone` are deleted
        self.size = 0  # bytes of the messages that are inserted
        self.is_last = False  # the segment is done after this step
        self.statements: list[Statement] = []


class Journal:
    """The segments in use, the next segment, and what the tables do not know yet."""

    def __init__(self, directory: Path, size: int) -> None:
        """Begin with no segment; each segment has an eighth of the journal's size."""
        self.directory = directory
        self.segment_size = max(SEGMENT_MIN, size // SEGMENTS)
        self.number = 0  # of the last batch
        self.segments: deque[Segment] = deque()  # oldest first; the last one is being written
        self.folded: deque[Segment] = deque()  # folded, and waiting for a checkpoint
        self.free: list[Segment] = []  # to be used again
        self.next: Segment | None = None  # made ready in advance
        self.index = 0  # of the newest segment
        self.gone: list[int] = []  # places of settled messages that are still in the tables
        self.moved: dict[int, int] = {}  # old places by new ones
        self.is_replaying = False

    # Batches.

    def commit(self, changes: Changes) -> bool:
        """Write a batch; return False if nothing in it is to survive a restart."""
        arrivals, deletions = changes.arrivals, changes.deletions
        has_rest = changes.names_rows or changes.is_lasting
        if not (arrivals or deletions or has_rest):
            return False
        segment = self._open_segment(changes.size)
        offsets: dict[int, int] = {}
        parts = [
            packed_at(arrivals, segment.end + HEADER_SIZE, offsets),
            packed_places(deletions),
            packed_ids(changes.ids) if changes.ids else b"",
            packed_rest(changes) if has_rest else b"",
        ]
        number = self.number + 1
        batch = packed_batch(segment.mark, number, len(arrivals), parts)
        segment.write(batch, number, self.segment_size)
        self.number = number
        self._count(segment, changes, offsets)
        return True

    def _count(self, segment: Segment, changes: Changes, offsets: dict[int, int]) -> None:
        """Note in memory what a batch of this segment changed."""
        if changes.emptied:
            self._drop(changes.emptied)
        segment.waiting.update(offsets)
        if changes.moves:
            for old, new in changes.moves.items():
                self.moved[new] = old
        for number, place in enumerate(changes.deletions, 1):
            self._settle(place)
            if number % BREATH == 0:
                breathe()
        if changes.names_rows or changes.is_lasting:
            segment.rest.add(changes.rest())

    def _settle(self, place: int) -> None:
        if self.moved:
            place = self.moved.pop(place, place)
        for segment in reversed(self.segments):
            if place in segment.waiting:
                del segment.waiting[place]
                if not self.is_replaying:
                    return
                break
        self.gone.append(place)

    def _drop(self, queues: set[int]) -> None:
        """Forget the messages of queues that are emptied."""
        for segment in self.segments:
            segment.waiting = without(queues, segment.waiting)
        self.gone = [place for place in self.gone if place >> SEQ_BITS not in queues]
        self.moved = without(queues, self.moved)

    # Bodies.

    def bodies(self, places: list[int]) -> list[BodyRecord]:
        """Return those of the wanted bodies that are in the journal."""
        found: list[BodyRecord] = []
        for place in places:
            known_as = self.moved.get(place, place)
            for segment in self.segments:
                at = segment.waiting.get(known_as)
                if at is not None:
                    kind, head, body = _read(segment, at)[5:]
                    found.append(BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, kind, head, body))
        return found

    def places_in_tables(self, places: list[int]) -> dict[int, int]:
        """Map the place that each wanted message has in the tables to the place it was asked by."""
        return {self.moved.get(place, place): place for place in places}

    # Folds.

    @property
    def is_full(self) -> bool:
        """Return True if the oldest segment is to be folded."""
        return len(self.segments) >= IN_USE_MAX

    def next_fold(self, rows: int, size: int, *, everything: bool = False) -> Fold | None:
        """Return the next step of a fold, of about `rows` and `size` at most; None if none is due.

        `everything` folds the segment that is being written, too.
        """
        fold = Fold()
        fold.gone = min(len(self.gone), max(GONE_MAX, rows))
        if self.segments and (self.is_full or everything):
            self._fold_segment(fold, self.segments[0], rows, size)
        elif len(self.gone) < GONE_MAX and not (everything and self.gone):
            return None
        else:
            _delete(fold.statements, self.gone[: fold.gone])
        return fold

    def written(self, fold: Fold) -> None:
        """Called when the statements of a step were carried out."""
        del self.gone[: fold.gone]
        segment = fold.segment
        if segment is None:
            return
        segment.is_begun = True
        for place in fold.places:
            del segment.waiting[place]
        if fold.is_last:
            self.segments.popleft()
            self.folded.append(segment)
            for new in segment.rest.moves.values():
                self.moved.pop(new, None)

    def _fold_segment(self, fold: Fold, segment: Segment, rows: int, size: int) -> None:
        fold.segment = segment
        statements = fold.statements
        if not segment.is_begun:
            statements += emptyings(segment.rest)
        left = len(segment.waiting)
        living: dict[int, Arrival] = {}
        for place, at in islice(segment.waiting.items(), rows):
            arrival = living[place] = _read(segment, at)
            fold.size += len(arrival[6]) + len(arrival[7])
            if fold.size >= size:
                break
        fold.places = list(living)
        fold.is_last = len(living) == left
        if fold.is_last:
            fold.gone = len(self.gone)  # delete all: a message may be moved to one of these places
        _delete(statements, self.gone[: fold.gone])
        fill_tables(statements, living)
        if fold.is_last:
            statements += renumberings(segment.rest)
            statements += others(segment.rest)
            if segment.last:
                statements.append((FOLDED, fold_mark(segment.last)))

    # Files.

    def prepare(self) -> None:
        """Make the next segment ready once the current one is half full."""
        if self.next is None and self.segments:
            if self.segments[len(self.segments) - 1].end * 2 > self.segment_size:
                self.next = self._new_segment()

    def release(self, number: int) -> None:
        """Called when the tables up to a batch are on the disk: free the segments up to there."""
        while self.folded and self.folded[0].last <= number:
            segment = self.folded.popleft()
            if len(self.free) < SEGMENTS // 2:
                segment.shorten(self.segment_size)
                self.free.append(segment)
            else:
                segment.close()
                segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of all files."""
        last = [] if self.next is None else [self.next]
        for segment in [*self.segments, *self.folded, *self.free, *last]:
            segment.close()
        self.segments.clear()
        self.folded.clear()
        self.free.clear()
        self.next = None

    def remove_unused(self) -> None:
        """Delete the files that hold nothing."""
        unused, self.free = self.free, []
        if self.next is not None:
            unused.append(self.next)
            self.next = None
        for segment in unused:
            segment.close()
            segment.path.unlink(missing_ok=True)

    def _open_segment(self, size: int) -> Segment:
        """Return the segment for a batch of about this size."""
        if self.segments:
            segment = self.segments[len(self.segments) - 1]
            if segment.end == 0 or segment.end + size <= self.segment_size:
                return segment
        segment = self._new_segment() if self.next is None else self.next
        self.next = None
        self.segments.append(segment)
        return segment

    def _new_segment(self) -> Segment:
        """Return an empty segment whose name survives a power loss."""
        path, mark = new_name(self.directory, self.index + 1)
        try:
            if self.free:
                segment = self.free.pop()
                segment.rename(path, self.index + 1, mark)
            else:
                segment = Segment(path, self.index + 1, mark)
            descriptor = os.open(self.directory, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        except OSError as error:
            raise meaning(error, path) from error
        self.index += 1
        return segment

    # A restart.

    def recall(self, segment: Segment, batches: Iterable[Written]) -> None:
        """Note the batches that a restart finds in a segment; ValueError if one is malformed."""
        self.is_replaying = True
        self.segments.append(segment)
        for batch in batches:
            changes = Changes()
            offsets: dict[int, int] = {}
            unpack_at(batch.arrivals, batch.at, changes.arrivals, offsets)
            changes.deletions = places_of(batch.settled)
            changes.ids = ids_of(batch.ids)
            add_rest(changes, batch.rest)
            self._count(segment, changes, offsets)
            segment.last = batch.number
            self.number = max(self.number, batch.number)
        self.is_replaying = False


def _read(segment: Segment, at: int) -> Arrival:
    """Return the message at an offset of a segment."""
    blob = segment.read(at, READ_SIZE)
    _, size, expires_ms, due_ms, priority, kinds, names, heads, bodies = RECORD.unpack_from(blob)
    start = RECORD.size
    middle = start + kinds
    end = middle + names
    body = end + heads
    if body + bodies <= len(blob):
        content = blob[body : body + bodies]
    else:  # a large body is read by itself: to cut it out would be a copy under the GIL
        blob = segment.read(at, body)
        content = segment.read(at + body, bodies)
    return (
        blob[middle:end].decode(),
        size,
        expires_ms,
        priority,
        due_ms,
        blob[start:middle].decode(),
        blob[end:body],
        content,
    )


def _delete(found: list[Statement], places: list[int]) -> None:
    if places:
        found.append((DELETE, (json.dumps(places),)))


def fill_tables(found: list[Statement], arrivals: dict[int, Arrival]) -> None:
    """Add the statements that insert messages."""
    messages: list[int | str | bytes | None] = []
    bodies: list[int | str | bytes | None] = []
    for place, arrival in arrivals.items():
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        crc = message_sum(group.encode(), size, expires_ms, priority, due_ms)
        messages += (place, group, 0, size, expires_ms, priority, due_ms, crc)
        bodies += (place, kind, head, body, crc32(body, crc32(head)))
    insert(found, "messages", MESSAGES, messages)
    insert(found, "bodies", BODIES, bodies)
