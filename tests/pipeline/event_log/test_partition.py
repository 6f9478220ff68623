"""A log's runs and gaps are known from its footers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from covey.core.events.event import EventKind
from covey.core.events.event_log import GROUP_SHIFT, LENGTH, QUEUE_SHIFT
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.partition import deal, gaps_of, gather, pieces_of, runs_of
from covey.pipeline.event_log.writer import Events, Writer
from covey.pipeline.jobs.audit import find_gaps
from tests.pipeline.support import log_in, tell


def write_pieces(directory: Path, run: str, count: int) -> list[Path]:
    """Write a log of so many files, one event in each."""
    log = log_in(directory, run)
    for seq in range(1, count + 1):
        tell(log, "q", "g", f"in {seq}")
        log.flush()
        log.log.taker.close()
    return sorted(directory.glob(f"events-{run}-*"))


def test_runs_are_summed_up(tmp_path: Path) -> None:
    write_pieces(tmp_path, "r1", 3)
    write_pieces(tmp_path, "r2", 2)
    runs = runs_of(pieces_of(str(tmp_path)))
    assert [(run.run, run.first_eid, run.last_eid, run.events) for run in runs] == [
        ("r1", 1, 3, 3),
        ("r2", 1, 2, 2),
    ]
    assert runs[0].began < runs[0].ended


def test_events_that_are_there_twice_are_an_error(tmp_path: Path) -> None:
    (file, *_) = write_pieces(tmp_path, "r1", 3)
    (tmp_path / "events-copy.parquet").write_bytes(file.read_bytes())
    with pytest.raises(PipelineError, match="events of run r1 twice"):
        runs_of(pieces_of(str(tmp_path)))


def test_a_file_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    files = write_pieces(tmp_path, "r1", 5)
    files[1].unlink()
    files[2].unlink()
    assert list(gaps_of(pieces_of(str(tmp_path)))) == [("r1", 2, 3)]
    (gap,) = find_gaps(pieces_of(str(tmp_path))).to_pylist()
    assert (gap["violation"], gap["eid"]) == ("gap", 4)
    assert gap["detail"] == "events 2 to 3 are missing"


def enqueued(count: int) -> Events:
    what = EventKind.ENQUEUE | 1 << QUEUE_SHIFT | 2 << GROUP_SHIFT
    columns = ((what, "u8"), (0, "u4"), (1, "u8"), (1000.0, "f8"))
    return Events(*[np.full(count, value, code) for value, code in columns])


def test_a_chunk_that_was_left_out_is_a_gap_inside_a_piece(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "r1", 1 << 20, 60.0)
    writer.take(1, 0, LENGTH.pack(1) + b"q" + LENGTH.pack(1) + b"g", enqueued(2), 0.0)
    writer.take(7, 0, b"", enqueued(1), 0.0)
    writer.finish()
    (piece,) = pieces_of(str(tmp_path))
    assert (piece.events, piece.last_eid) == (3, 7)
    assert list(gaps_of([piece])) == [("r1", 3, 6)]


def test_whole_logs_have_no_gap(tmp_path: Path) -> None:
    write_pieces(tmp_path, "r1", 2)
    write_pieces(tmp_path, "r2", 2)
    assert find_gaps(pieces_of(str(tmp_path))).num_rows == 0


# All events of a group land in one share, and what is about its queue in every one.

SHARES = 3


def dealt(directory: Path) -> list[pa.Table]:
    rows = [row for piece in pieces_of(str(directory)) for row in deal(piece, SHARES)]
    return [gather([row for row in rows if row[0] == share]) for share in range(SHARES)]


def test_every_event_is_dealt_once_and_a_group_to_one_share(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        log = log_in(tmp_path, run)
        for seq in range(1, 200):
            tell(log, "q", f"g{seq % 20}", f"in {seq}, out {seq} to 1")
            log.flush()
        log.close()
    shares = dealt(tmp_path)
    groups = [set(share["group_id"].to_pylist()) for share in shares]
    assert len(set.union(*groups)) == 20
    assert sum(len(names) for names in groups) == 20
    assert sum(share.num_rows for share in shares) == 2 * 2 * 199
    assert all(names for names in groups)


def test_messages_without_a_group_are_spread_but_each_stays_whole(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for seq in range(1, 100):
        tell(log, "q", "", f"in {seq}, out {seq} to 1, ack {seq} by 1")
    log.close()
    messages = [share["seq"].to_pylist() for share in dealt(tmp_path)]
    assert all(messages)
    assert sum(len(set(seqs)) for seqs in messages) == 99
    assert sum(len(seqs) for seqs in messages) == 3 * 99


def test_what_is_about_a_queue_reaches_every_share(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    tell(log, "q", "g", "join 7, in 1, leave 7")
    log.close()
    assert sorted(share.num_rows for share in dealt(tmp_path)) == [2, 2, 3]


def test_a_share_without_events_is_empty() -> None:
    assert gather([]).num_rows == 0
