"""A process for test_writer.py to kill: batches of three, each told to the parent once safe."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.core.storage.sqlite.support import Bench, Note

QUEUES = (1, 2, 3)


def main(directory: Path) -> None:
    bench = Bench(directory, journal_size=200_000)  # so that a short life folds it several times
    places = bench.numbers()
    number = max((seq for _, seq in places), default=0)
    while True:
        number += 1
        for queue in QUEUES:
            bench.store.append(queue, number, "", Note(b"x" * (number * 37 % 3000)))
        if number > 50:
            for queue in QUEUES:
                bench.store.delete(queue, number - 50)
        assert bench.flush() is None
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
