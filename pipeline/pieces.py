"""Pieces: an event log as its row groups, known from the footers alone.

A row group is what one task reads at a time; it holds events of one run. Footers have the number
of its events and the range of their ids and times, so runs can be summed up and missing events
be found without reading the log; only a row group with a gap inside is looked into.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from covey.pipeline.errors import PipelineError
from covey.pipeline.log import file_system, log_files
from covey.pipeline.schema import ARROW_SCHEMA, RANGED


class Piece(NamedTuple):
    """One row group: where it is, and what its footer says of it."""

    place: str
    file: str
    row_group: int
    run: str
    events: int
    first_eid: int
    last_eid: int
    began: datetime
    ended: datetime


class Run(NamedTuple):
    """What a log has of one start of the broker."""

    run: str
    events: int
    first_eid: int
    last_eid: int
    began: datetime
    ended: datetime


def pieces_of(place: str) -> list[Piece]:
    """Return the row groups of a log; raises PipelineError naming a file that is none of it."""
    system = file_system(place)[0]
    found = []
    for file in log_files(place):
        footer = pq.read_metadata(file, filesystem=system)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            run, eid, ts = (
                group.column(ARROW_SCHEMA.get_field_index(name)).statistics for name in RANGED
            )
            ranges = (eid.min, eid.max, ts.min, ts.max)
            found.append(Piece(place, file, number, run.min, group.num_rows, *ranges))
    return found


def runs_of(pieces: list[Piece]) -> list[Run]:
    """Sum up each run, the earliest first; raises PipelineError if events are there twice."""
    found = []
    for name in {piece.run for piece in pieces}:
        mine = [piece for piece in pieces if piece.run == name]
        run = Run(
            name,
            sum(piece.events for piece in mine),
            min(piece.first_eid for piece in mine),
            max(piece.last_eid for piece in mine),
            min(piece.began for piece in mine),
            max(piece.ended for piece in mine),
        )
        if run.events > run.last_eid - run.first_eid + 1:
            raise PipelineError(f"--input: it has events of run {name} twice; is a file copied?")
        found.append(run)
    return sorted(found, key=lambda run: (run.began, run.run))


def gaps_of(pieces: list[Piece]) -> Iterator[tuple[str, int, int]]:
    """Yield run, first and last id of the events that are missing, in their order."""
    before: Piece | None = None
    for piece in sorted(pieces, key=lambda piece: (piece.run, piece.first_eid)):
        if before is not None and before.run == piece.run:
            if piece.first_eid > before.last_eid + 1:
                yield piece.run, before.last_eid + 1, piece.first_eid - 1
        if piece.events <= piece.last_eid - piece.first_eid:
            eids = np.sort(read_piece(piece, ["eid"])["eid"].to_numpy())
            for at in np.flatnonzero(np.diff(eids) > 1):
                yield piece.run, int(eids[at]) + 1, int(eids[at + 1]) - 1
        before = piece


def read_piece(piece: Piece, columns: list[str]) -> pq.Table:
    """Read columns of a row group, texts as dictionaries."""
    texts = [name for name in ("run", "queue", "group_id") if name in columns]
    system = file_system(piece.place)[0]
    with pq.ParquetFile(piece.file, filesystem=system, read_dictionary=texts) as file:
        return file.read_row_group(piece.row_group, columns)
