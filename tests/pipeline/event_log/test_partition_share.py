"""All events of a group land in one share, and what is about its queue in every one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from covey.pipeline.event_log.partition import deal, gather, pieces_of
from tests.pipeline.support import log_in, tell

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
