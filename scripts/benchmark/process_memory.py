"""The most memory that each process of a family took, by what it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from covey.pipeline.spark import repeated

EVERY_S: Final = 0.2
MIB: Final = 1 << 20


class MemoryWatch:
    """Watches a process and all that it starts.

    The kernel remembers the peak of each process. So only a process that lives for less than
    `EVERY_S` may be missed. Of forked processes, each is counted with the pages that it shares.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peaks: dict[str, int] = {}  # the largest process by its name, in bytes
        self._ticks: dict[int, int] = {}  # by process

    @property
    def processor_s(self) -> float:
        """Return the processor time of all processes, up to when each was last seen."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def look(self) -> None:
        """Note what each process has taken so far."""
        for pid in family(self.pid):
            name, peak = peak_of(pid)
            if name:
                self.peaks[name] = max(peak, self.peaks.get(name, 0))
                self._ticks[pid] = ticks_of(pid) or self._ticks.get(pid, 0)


@contextmanager
def watched(pid: int) -> Iterator[MemoryWatch]:
    """Watch a process within a `with` block."""
    watch = MemoryWatch(pid)
    with repeated(watch.look, EVERY_S):
        yield watch


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*"):
            try:
                found += map(int, (task / "children").read_text().split())
            except OSError:  # it has just ended
                continue
    return found


def peak_of(pid: int) -> tuple[str, int]:
    """Return what a process runs, and the most memory it has taken so far."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        line = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return "", 0
    is_worker = "pyspark.daemon" in line or "pyspark/daemon" in line
    name = "worker" if is_worker else "java" if "java" in line.split("\0")[0] else "driver"
    sizes = [int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM")]
    return name, max(sizes, default=0) * 1024


def ticks_of(pid: int) -> int:
    """Return how long a process has run, in the kernel's ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def load() -> float:
    """Return how many processes wanted a processor in the last minute."""
    return os.getloadavg()[0]
