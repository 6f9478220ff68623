"""EventWriter: the child process that makes Parquet files of the event log's chunks.

Chunks go through a pipe that never blocks: what the child has not taken yet waits in a bounded
backlog. The child is a plain Python process (`covey.pipeline.writer`) with packages the broker
itself does not need (the extra `pipeline`). It has a session of its own, so a Ctrl-C for the
broker does not reach it: it ends when the pipe does, and finishes its file even if the broker
was killed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from covey.core.errors import StoreError
from covey.core.event_log import ChunkTaker

PIPE_BYTES: Final = 1 << 20  # what Linux lets most ask for: half a second of heavy traffic
FINISH_TIMEOUT_S: Final = 10.0  # for the last file's footer; then the child is given up
PUSH_EVERY_S: Final = 0.05  # at the end, while the pipe is full

PACKAGES: Final = ("pyarrow", "numpy")


class EventWriter(ChunkTaker):
    """A running child and the pipe to it."""

    def __init__(
        self,
        directory: Path,
        run: str,
        *,
        rotate_bytes: int,
        rotate_age_s: float,
        backlog_max: int,
    ) -> None:
        """Start the child; raises StoreError if it cannot work here."""
        self._backlog_max = backlog_max
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        _check(directory)
        arguments = [str(directory), run, str(rotate_bytes), str(rotate_age_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "covey.pipeline.writer", *arguments],
            stdin=subprocess.PIPE,
            bufsize=0,  # ours alone writes to the pipe, and never waits for it
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        with suppress(OSError):  # a small pipe is slower, and no reason not to serve
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def take(self, chunk: bytes) -> bool:
        """Write what fits and keep the rest; False if too much waits already."""
        if self.failure or self._backlog_bytes + len(chunk) > self._backlog_max:
            self._push()
            return False
        self._backlog.append(chunk)
        self._backlog_bytes += len(chunk)
        self._push()
        return True

    def close(self) -> None:
        """Write the rest, end the pipe and wait for the child's last file."""
        for _ in range(int(FINISH_TIMEOUT_S / PUSH_EVERY_S)):
            self._push()
            if not self._backlog or self._has_ended(PUSH_EVERY_S):
                break
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._has_ended(FINISH_TIMEOUT_S):
            self._process.kill()
            self._process.wait()
            self.failure = f"its writer did not finish within {FINISH_TIMEOUT_S:.0f} s"
        elif self._process.returncode:
            self._fail()

    def _has_ended(self, within_s: float) -> bool:
        """Wait for the child's end, but not longer than that."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _push(self) -> None:
        backlog = self._backlog
        while backlog and not self.failure:
            chunk = backlog.popleft()
            try:
                written = os.write(self._pipe, chunk)
            except BlockingIOError:
                written = 0
            except BrokenPipeError:
                self._fail()
                return
            self._backlog_bytes -= written
            if written < len(chunk):
                backlog.appendleft(chunk[written:])
                return

    def _fail(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0
        code = self._process.wait()  # it is dead: its end of the pipe is closed
        self.failure = f"its writer ended with exit code {code}"


def _check(directory: Path) -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise StoreError(
            f"event_log.dir: an event log needs {' and '.join(missing)};"
            " scripts/setup pipeline installs them, or Covey's extra 'pipeline'"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"event_log.dir: {directory}: {error.strerror}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreError(f"event_log.dir: {directory} cannot be written to")
