"""Frames become rows, with what the broker and the producer say kept apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from covey.client.browse_cutter import Rows
from covey.pipeline.datasource import columns
from covey.pipeline.datasource.columns import ARROW, BatchMaker

OURS = b"\nMESSAGE\nsubscription:1\nmessage-id:%s"
SENT_TO = b"destination:/queue/q"


def one(seq: int, theirs: bytes = b"", ours: bytes = OURS % b"m", body: bytes = b"x") -> Rows:
    rows = Rows()
    rows.seqs, rows.ours, rows.theirs, rows.bodies = [seq], [ours], [SENT_TO + theirs], [body]
    return rows


def maker(group_header: str = "", rows_max: int = 10, *, has_headers: bool = True) -> BatchMaker:
    return BatchMaker("q", group_header, rows_max, has_headers=has_headers)


def test_a_row_has_every_column() -> None:
    made = maker()
    made.add(one(7, b"\nmessage_group:g\ntimestamp:1000\ncolour:re\\cd"))
    (batch,) = made.take()
    assert batch.schema.equals(ARROW)
    (row,) = batch.to_pylist()
    own = [("message_group", "g"), ("timestamp", "1000"), ("colour", "re:d")]
    assert row == {
        "value": b"x",
        "queue": "q",
        "seq": 7,
        "message_id": "m",
        "group_id": "g",
        "ts": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "redelivered": False,
        "headers": own,
    }
    assert list(made.take()) == []


def test_a_producer_s_own_lines_are_not_taken_for_the_broker_s() -> None:
    made = maker()
    made.add(one(1, b"\ncovey-seq:99\nredelivered:true\nmessage-id:forged"))
    (row,) = next(made.take()).to_pylist()
    assert (row["seq"], row["redelivered"], row["message_id"]) == (1, False, "m")


def test_what_is_missing_is_null_and_what_is_escaped_is_read() -> None:
    made = maker()
    made.add(one(1, b"\ntimestamp:soon", OURS % b"a\\cb"))
    made.add(one(2, ours=OURS % b"m" + b"\nredelivered:true", body=b""))
    first, second = next(made.take()).to_pylist()
    assert (first["group_id"], first["ts"], first["message_id"]) == (None, None, "a:b")
    assert (second["redelivered"], second["value"]) == (True, b"")


def test_the_queue_s_own_group_header_counts_alone() -> None:
    made = maker("region", has_headers=False)
    made.add(one(1, b"\nmessage_group:g\nregion:north"))
    (batch,) = made.take()
    assert batch.to_pylist()[0]["group_id"] == "north"
    assert "headers" not in batch.schema.names


def test_a_batch_is_full_at_its_rows_and_never_longer() -> None:
    made = maker(rows_max=2)
    made.add(one(1))
    assert not made.is_full
    made.add(one(2))
    assert made.is_full
    made.add(one(3))
    assert [batch.column("seq").to_pylist() for batch in made.take()] == [[1, 2], [3]]


def test_rows_of_many_producers_keep_each_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "KNOWN_MAX", 2)
    made = maker()
    for turn in range(3):
        for seq in range(5):
            made.add(one(seq, b"\nmessage_group:g%d" % (seq % 3 + turn)))
        groups = next(made.take()).column("group_id").to_pylist()
        assert groups == [f"g{seq % 3 + turn}" for seq in range(5)]


def test_ids_are_whole_whether_or_not_a_frame_has_an_lf_before_it() -> None:
    made = maker()
    made.add(one(1, ours=OURS.removeprefix(b"\n") % b"first"))
    made.add(one(2, ours=OURS % b"second"))
    made.add(one(3, ours=b"\nMESSAGE\nsubscription:longer\nmessage-id:third"))
    assert next(made.take()).column("message_id").to_pylist() == ["first", "second", "third"]
