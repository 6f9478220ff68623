"""The event log's columns, and what a file of it says about itself.

    run        one start of the broker; event ids and consumers' numbers hold within it
    eid        event id, 1, 2, ... without a gap: the order of events, for times may tie
    ts         wall clock, microseconds, UTC
    kind       number of a `covey.core.events.event.EventKind`
    queue      its name; `host/name` on a virtual host other than the first
    group_id   "" for none, and where it does not apply
    consumer   its number in the queue, 0 where it does not apply
    seq        the message's number in the queue, 0 where it does not apply

A finished file is `events-RUN-EID.parquet`, where EID is the id of its first event. The name of a
file that is being written begins with `_`, which Spark does not see. `covey.schema` in a file's
metadata is the version of this table and of the kinds.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from covey.core.events.event import SCHEMA_VERSION

VERSION_KEY: Final = b"covey.schema"

ARROW_SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()),
        ("eid", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("kind", pa.int8()),
        ("queue", pa.string()),
        ("group_id", pa.string()),
        ("consumer", pa.int64()),
        ("seq", pa.int64()),
    ],
    {VERSION_KEY: str(SCHEMA_VERSION).encode()},
)

RANGED: Final = ["run", "eid", "ts"]  # a row group tells the first and last of these

SPARK_SCHEMA: Final = (
    "run string, eid long, ts timestamp, kind byte, queue string, group_id string,"
    " consumer long, seq long"
)


def finished_name(run: str, first_eid: int) -> str:
    """Name a finished file; names sort in the order of events."""
    return f"events-{run}-{first_eid:016d}.parquet"


def unfinished_name(run: str, first_eid: int) -> str:
    """Name a file that has no footer yet."""
    return f"_{finished_name(run, first_eid)}.part"
