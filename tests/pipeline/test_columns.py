"""Frames become rows, with what the broker and the producer say kept apart."""

from __future__ import annotations

from datetime import UTC, datetime

from covey.pipeline.columns import ARROW, BatchMaker
from covey.protocols.stomp.frame import Frame

OURS = b"subscription:1\nmessage-id:%s\ncovey-seq:%d\ncontent-length:1\ndestination:/queue/q"


def frame(seq: int, theirs: bytes = b"", message_id: bytes = b"m") -> Frame:
    return Frame("MESSAGE", OURS % (message_id, seq) + theirs, b"x")


def maker(group_header: str = "", rows_max: int = 10, *, has_headers: bool = True) -> BatchMaker:
    return BatchMaker("q", group_header, rows_max, has_headers=has_headers)


def test_a_row_has_every_column() -> None:
    made = maker()
    assert made.add(frame(7, b"\nmessage_group:g\ntimestamp:1000\ncolour:re\\cd"), 8)
    batch = made.take()
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
    assert made.is_empty


def test_a_number_behind_the_end_is_not_taken() -> None:
    made = maker()
    assert not made.add(frame(8), 8)
    assert made.is_empty


def test_a_producer_s_own_lines_are_not_taken_for_the_broker_s() -> None:
    made = maker()
    made.add(frame(1, b"\ncovey-seq:99\nredelivered:true\nmessage-id:forged"), 2)
    (row,) = made.take().to_pylist()
    assert (row["seq"], row["redelivered"], row["message_id"]) == (1, False, "m")


def test_what_is_missing_is_null_and_what_is_escaped_is_read() -> None:
    made = maker()
    made.add(frame(1, b"\ntimestamp:soon", b"a\\cb"), 2)
    block = OURS.replace(b"covey-seq", b"redelivered:true\ncovey-seq") % (b"m", 2)
    made.add(Frame("MESSAGE", block, b""), 3)
    first, second = made.take().to_pylist()
    assert (first["group_id"], first["ts"], first["message_id"]) == (None, None, "a:b")
    assert (second["redelivered"], second["value"]) == (True, b"")


def test_the_queue_s_own_group_header_counts_alone() -> None:
    made = maker("region", has_headers=False)
    made.add(frame(1, b"\nmessage_group:g\nregion:north"), 2)
    batch = made.take()
    assert batch.to_pylist()[0]["group_id"] == "north"
    assert "headers" not in batch.schema.names


def test_a_batch_is_full_at_its_rows() -> None:
    made = maker(rows_max=2)
    made.add(frame(1), 9)
    assert not made.is_full
    made.add(frame(2), 9)
    assert made.is_full
