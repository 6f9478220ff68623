"""History task: takes a sample for the broker's history once a second.

The task also measures the longest turn. It asks to be woken ten times a second. If it is woken
late, something else has kept the event loop for that long. A sample is taken in portions, so that
sampling itself holds up nobody.
"""

from __future__ import annotations

import os
import time
from typing import Final

import anyio
import structlog
from anyio.lowlevel import checkpoint

from covey.config.settings import StoreSettings
from covey.core.broker.directory import Directory
from covey.core.management.history import EVERY_S, History, Measures
from covey.protocols.process import resident_bytes

LOOK_EVERY_S: Final = 0.1
DISK_EVERY_S: Final = 10.0

Log = structlog.typing.FilteringBoundLogger


async def keep_history(directory: Directory, history: History, log: Log) -> None:
    """Take samples for ever."""
    measures = Measures()
    disk_at = 0.0
    while True:
        began = time.monotonic()
        measures.turn_ms = 0.0
        while (now := time.monotonic()) - began < EVERY_S - LOOK_EVERY_S / 2:
            await anyio.sleep(LOOK_EVERY_S)
            late_s = time.monotonic() - now - LOOK_EVERY_S
            measures.turn_ms = max(measures.turn_ms, late_s * 1000)
        if now - disk_at >= DISK_EVERY_S:
            disk_at = now
            measures.disk_free = await anyio.to_thread.run_sync(disk_free, directory.settings.store)
        measures.memory = resident_bytes()
        measures.cpu = time.process_time()
        measures.store_ms = slowest_commit_ms(directory)
        try:
            for _ in history.sample(measures, time.monotonic(), time.time()):
                await checkpoint()
        except Exception:  # an error in the charts must not end the broker
            log.exception("history_failed")
            directory.internal_errors += 1


def slowest_commit_ms(directory: Directory) -> float:
    """Return the duration of the slowest commit since the last call."""
    slowest_s = 0.0
    for broker in directory.brokers.values():
        slowest_s = max(slowest_s, broker.commits.slowest_s)
        broker.commits.slowest_s = 0.0
    return slowest_s * 1000


def disk_free(store: StoreSettings) -> float:
    """Return the free bytes on the store's disk; 0 if the store is not on a disk."""
    if store.kind != "sqlite":
        return 0.0
    try:
        disk = os.statvfs(store.path)
    except OSError:
        return 0.0
    return float(disk.f_bavail * disk.f_frsize)
