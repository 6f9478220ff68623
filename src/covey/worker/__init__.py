"""covey.worker: ordered work in ten lines, for programs that use a Covey broker.

Read `worker` first. `subscription` is the work over one connection: `schedule` says which messages
may run, `window` how many may come, `backoff` how long a failed one waits, `cache` keeps values by
group. `producer` sends. Below them: `link` finds a broker, `connection` speaks STOMP with the
broker's own codec, `address` reads URLs, `message` and `outgoing` are the messages that come and
go. `telemetry` reports on the work. `testing` is a broker in memory; only this module needs the
broker's dependencies.

Importing this package loads nothing but the standard library and the codec.
"""

from __future__ import annotations

from covey.worker.backoff import NO_BACKOFF, Backoff
from covey.worker.cache import GroupCache
from covey.worker.errors import (
    ConnectionLostError,
    DeniedError,
    RefusedError,
    Reject,
    Retry,
    UnreachableError,
    WorkerError,
)
from covey.worker.message import Message
from covey.worker.producer import Producer, Transaction
from covey.worker.telemetry import Counts, Observer
from covey.worker.worker import Worker

__all__ = [
    "NO_BACKOFF",
    "Backoff",
    "ConnectionLostError",
    "Counts",
    "DeniedError",
    "GroupCache",
    "Message",
    "Observer",
    "Producer",
    "RefusedError",
    "Reject",
    "Retry",
    "Transaction",
    "UnreachableError",
    "Worker",
    "WorkerError",
]
