"""A process for test_sqlite_power_loss.py to record: what a batch holds follows from its number.

Each batch, once its flush is reported, is told by a write to the file `promised`, which the record
holds in order with everything the store did to its own files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from covey.core.storage.sqlite import engine
from tests.core.storage.bench import queue_record
from tests.core.storage.sqlite.support import Bench, Note

PROMISED = "promised"
QUEUES = (1, 2, 3)
KEPT = 20  # batches that a batch leaves behind it: older messages are deleted


def body_of(queue: int, number: int) -> bytes:
    """Return what is in a message: enough to fill a sector, a page, or several."""
    return b"%d:%d;" % (queue, number) * (1 + number * 37 % 400)


def main(directory: Path, batches: int) -> None:
    engine.CHECKPOINT_BYTES = 20_000  # type: ignore[misc]  # so that a short run has several
    bench = Bench(directory, journal_size=64 * 1024)  # and uses segments again
    promised = os.open(directory / PROMISED, os.O_CREAT | os.O_WRONLY)
    for queue in QUEUES:
        bench.store.define(queue_record(queue, f"q{queue}"))
    for number in range(1, batches + 1):
        for queue in QUEUES:
            bench.store.append(queue, number, "", Note(body_of(queue, number)))
            if number > KEPT:
                bench.store.delete(queue, number - KEPT)
        assert bench.flush() is None
        os.write(promised, b"%d\n" % number)
    os._exit(0)  # as a crash would: nothing is tidied up


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
