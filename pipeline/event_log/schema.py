"""The event log's columns, and the names and metadata of its files.

    run        one start of the broker; event ids and consumers' numbers are unique within it
    eid        event id, 1, 2, ... without a gap: the order of events, since times may be equal
    ts         wall clock, microseconds, UTC
    kind       number of a `covey.core.events.event.EventKind`
    queue      its name; `host/name` on a virtual host other than the first
    group_id   "" for none, and where it does not apply
    consumer   its number in the queue, 0 where it does not apply
    seq        the message's number in the queue, 0 where it does not apply
    persistent, size     of a message that comes or is recovered: whether it survives a restart
                         there, and the bytes of its content; else null
    virtual_host         the id of the queue's virtual host
    predecessor          the run that had this host's store before; "" if there was none

Logs of schema 2 and before lack the last four columns: they read as null.

A finished file is `date=YYYY-MM-DD/hour=HH/events-RUN-EID.parquet`. EID is the id of its first
event, and the directories are named by this event's time, UTC. The name of a file that is being
written begins with `_`. Spark ignores such files. All that a reader needs is in the columns.
`covey.schema` in a file's metadata is the version of this table and of the kinds. A reader refuses
a newer version.
"""

from __future__ import annotations

from datetime import UTC, datetime
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
        ("persistent", pa.bool_()),
        ("size", pa.int64()),
        ("virtual_host", pa.string()),
        ("predecessor", pa.string()),
    ],
    {VERSION_KEY: str(SCHEMA_VERSION).encode()},
)

RANGED: Final = ["run", "eid", "ts"]  # each row group stores the least and greatest of these

SPARK_SCHEMA: Final = (
    "run string, eid long, ts timestamp, kind byte, queue string, group_id string,"
    " consumer long, seq long, persistent boolean, size long, virtual_host string,"
    " predecessor string"
)


def finished_name(run: str, first_eid: int) -> str:
    """Name a finished file; names sort in the order of events."""
    return f"events-{run}-{first_eid:016d}.parquet"


def hour_name(at: float) -> str:
    """Name the directory of files that begin at a time, given in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).strftime("date=%Y-%m-%d/hour=%H")


def unfinished_name(run: str, first_eid: int) -> str:
    """Name a file that has no footer yet."""
    return f"_{finished_name(run, first_eid)}.part"
