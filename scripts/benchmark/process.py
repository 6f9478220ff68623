"""Process: a broker as a process on loopback, with its files in a temporary directory.

Memory is the resident set of the process and all its children (a JVM under a shell script, an
Erlang node with its helpers). Processor time is read the same way. So a run can tell how much of
the machine others used meanwhile. This noise is printed beside each figure.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

START_S = 90.0  # long enough for a JVM on a busy machine
STOP_S = 20.0
POLL_S = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class StartError(Exception):
    """A broker did not start; the text has the end of its output."""


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A command that listens on a port."""

    def __init__(
        self, command: Sequence[str], port: int, directory: Path, environment: dict[str, str]
    ) -> None:
        """Start it and wait until it accepts connections."""
        self.port = port
        self.amqp_port = 0  # if the broker speaks AMQP, too
        self.directory = directory
        self.log = directory / "output.log"
        self.command = list(command)
        self.environment = {**os.environ, **environment}
        self.child = self._start()
        self._wait()

    def restart(self) -> float:
        """Kill it and start it again on its files; return the seconds until it listens."""
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        started = time.monotonic()
        self.child = self._start()
        self._wait()
        return time.monotonic() - started

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as output:
            return subprocess.Popen(
                self.command,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it and everything it started, and delete its files."""
        group = self.child.pid  # it has its own session, so we may kill the whole group
        try:
            os.killpg(group, signal.SIGTERM)
            self.child.wait(STOP_S)
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
        self.child.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def resident_bytes(self) -> int:
        """Return the memory of the process and its children."""
        return sum(_resident(pid) for pid in self._family())

    def cpu_s(self) -> float:
        """Return the processor time used so far."""
        return sum(_cpu(pid) for pid in self._family())

    def _family(self) -> list[int]:
        """Return the processes of its session."""
        own = self.child.pid
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _session(int(entry.name)) == own
        ]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(POLL_S)
        words = self.log.read_text(errors="replace")[-1000:]
        self.stop()
        raise StartError(f"nothing listens on port {self.port}: {words or 'it said nothing'}")


def scratch_directory() -> Path:
    """Make a directory for a broker's files."""
    return Path(tempfile.mkdtemp(prefix="covey-bench-"))


def machine_cpu_s() -> float:
    """Return the processor time everybody used since the machine started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, interrupt, soft_interrupt = map(int, fields[:7])
    return (user + nice + system + interrupt + soft_interrupt) / TICKS_PER_S


def _fields(pid: int) -> list[str]:
    """Return /proc/PID/stat from its third field on; the second, a name, may hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _session(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[3]) if fields else 0


def _cpu(pid: int) -> float:
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
