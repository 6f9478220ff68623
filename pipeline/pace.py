"""Pace: recorded messages, sent by a task when their time has come.

A task has whole groups, in the order of their times, and a connection to each virtual host that it
has messages for. It tells how late it was at worst: a broker that takes less than was recorded
holds it up, and that is a finding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey.client.place import Place
from covey.pipeline.client import connected
from covey.pipeline.options import WriteOptions
from covey.pipeline.sink import send_rows

SLICE_ROWS: Final = 500  # sent at once by a sender that is late
RECORDED: Final = "the recorded queues"

Times = npt.NDArray[np.float64]
"""Seconds since the epoch; not a number where none was recorded."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the first message came, and how many times faster it all goes now; 0: no waiting."""

    first_at: float
    speed: float


@dataclass(frozen=True, slots=True)
class Target:
    """How to send, and where the messages of each recorded virtual host go; "" is the first."""

    options: WriteOptions
    places: dict[str, tuple[Place, ...]]


class Sender:
    """A task's connections, one for each virtual host."""

    def __init__(self, target: Target) -> None:
        self._options = target.options
        what = target.options.queue or RECORDED
        with ExitStack() as opened:  # if one fails, the others are closed
            self._clients = {
                host: opened.enter_context(connected(places, "--to", what))
                for host, places in target.places.items()
            }
            self._open = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def send(self, batch: pa.RecordBatch) -> None:
        """Post rows, those of each host in their order."""
        hosts = batch.column("host")
        for host in pc.unique(hosts).to_pylist():
            rows = batch.filter(pc.equal(hosts, host))
            send_rows(self._clients[host], self._options, rows)

    def flush(self) -> None:
        """Send what was posted."""
        for client in self._clients.values():
            client.flush()

    def confirm(self) -> None:
        """Wait until the broker has everything."""
        for client in self._clients.values():
            client.confirm()


def send_paced(
    target: Target, pace: Pace, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Send a partition's rows when their times come; give one row that says how it went."""
    rows, late_s = 0, 0.0
    with Sender(target) as sender:
        begun_at = time.time()
        for batch in batches:
            late_s = max(late_s, _send_batch(sender, pace, batch, begun_at))
            rows += batch.num_rows
        sender.confirm()
    yield pa.RecordBatch.from_pydict(
        {"rows": [rows], "seconds": [time.time() - begun_at], "late_s": [late_s]}
    )


def _send_batch(sender: Sender, pace: Pace, batch: pa.RecordBatch, begun_at: float) -> float:
    """Send one Arrow batch; return how late its latest message was."""
    due = due_times(batch.column("at").to_numpy(zero_copy_only=False), pace, begun_at)
    sent, late_s = 0, 0.0
    while sent < len(due):
        now = time.time()
        wait_s = due[sent] - now
        if wait_s > 0:
            sender.flush()
            time.sleep(wait_s)
            continue
        late_s = max(late_s, -wait_s) if pace.speed else 0.0
        ready = min(int(np.searchsorted(due, now, "right")), sent + SLICE_ROWS)
        sender.send(batch.slice(sent, ready - sent))
        sent = ready
    return late_s


def due_times(at: Times, pace: Pace, begun_at: float) -> Times:
    """Return when each message goes; the times of a partition ascend, unknown ones first."""
    if not pace.speed:
        return np.full(len(at), begun_at)
    known = np.nan_to_num(at, nan=pace.first_at)
    due: Times = begun_at + (known - pace.first_at) / pace.speed
    return due
