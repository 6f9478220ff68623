# Compiled by mypyc: see setup.py.
"""EventLog: the sink that keeps every event for the data pipeline, and the child that writes it.

The event loop notes each event as three numbers. It hands many events at a time to a child process
(`EventWriter`), which makes Parquet files of them. Nothing here waits or fails. If the child's
backlog is full, a whole chunk is left out. Readers of the log see that by a gap in the event ids.

    chunk    HEADER, new names, columns, moments
    HEADER   magic, flags, id of the first event, bytes of names, number of events, of moments
    name     LENGTH, UTF-8
    columns  what happened, 64 bits each: kind, queue << QUEUE_SHIFT, group << GROUP_SHIFT
             the consumer, 32 bits; the sequence number, 64 bits
             of a message that comes or is recovered: its size instead of the consumer, and
             PERSISTENT if it survives a restart
    moments  how many events came before it in the chunk, 32 bits; the time, a double

Rules of the format:
- Events are noted in lists that become columns when a chunk is full. That costs half of packing
  each event by itself.
- All events of a turn have one time: the wall clock's at that turn. Reading the clock for each
  event would cost more than the rest of the event.
- Queue and group names are sent once, and are numbers from then on: 0 is "", then 1, 2, ... in the
  order sent. The dictionary starts over when it is full (flag FORGET), so that neither side grows
  with the number of names ever used.
- Event ids count 1, 2, ... without a gap. Only a chunk's first id is packed: the others follow.
- The name of a queue is sent as three lines: its virtual host, the run before, the name that is
  shown. Queues of the first virtual host are shown by their own names, those of another host as
  `host/name`. No queue's name has a slash in it, so queues of the same name in two hosts are never
  mixed up.
- Patterns are matched against the name without the host. A queue that no pattern matches pays
  nothing.
- Each virtual host begins with START: its `group` are the patterns, its `seq` is the position of
  the run before. Then each queue of it tells what was on it (RECOVER).
- Before changes go to the store, their events are handed to the child (`hand_over`). So the log
  has all that a restart can find. Events after the store's position are in doubt.

Chunks go to the child through a pipe that never blocks. What the child has not taken yet waits in a
bounded backlog. The child is a plain Python process (`covey.pipeline.event_log.writer`), with
packages that the broker itself does not need (the extra `pipeline`). The child has a session of its
own, so a Ctrl-C for the broker does not reach the child. The child ends when the pipe is closed,
and finishes its file even if the broker was killed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from array import array
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from covey.core.clock import Clock
from covey.core.errors import StoreError
from covey.core.events.event import START, EventSink, QueueEvents
from covey.core.file_modes import NOT_OWNER, OWNER_ONLY, close_to_others, exposures
from covey.core.naming.destination import Syntax
from covey.core.naming.pattern import Pattern

if TYPE_CHECKING:
    from covey.core.model.message import Message

HEADER: Final = Struct("<4sIQIII")
LENGTH: Final = Struct("<I")
MAGIC: Final = b"CVEV"
FORGET: Final = 1  # flag: the names sent before are void

QUEUE_SHIFT: Final = 8
GROUP_SHIFT: Final = 32
CODES: Final = ("Q", "I", "Q")  # of the columns, for `array`
EVENT_BYTES: Final = 20
PERSISTENT: Final = 1 << 31  # in the place of the consumer, above the size
SIZE_MAX: Final = PERSISTENT - 1
MOMENT_CODES: Final = ("I", "d")
MOMENT_BYTES: Final = 12

EVENTS_PER_CHUNK: Final = 2048  # 41 kB: one write into the pipe, every few milliseconds at most
NAMES_MAX: Final = 65_536  # some 10 MB of dictionary with long names, on either side

HOST_MARK: Final = "/"
LINE: Final = "\n"  # between the parts of a queue's name in the log
NEVER: Final = -1.0


@mypyc_attr(allow_interpreted_subclasses=True)
class ChunkTaker(ABC):
    """Who turns chunks into a log."""

    failure = ""  # why nothing is taken any more, for people

    @abstractmethod
    def take(self, chunk: bytes) -> bool:
        """Take a chunk without waiting; False if there is no room for it."""

    def catch_up(self) -> bool:
        """Wait until there is room for many more chunks, if ever; called while a broker starts."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Finish with what was taken; may wait."""


class EventLog(EventSink):
    """Notes the events of the queues that match one of the patterns."""

    def __init__(
        self, taker: ChunkTaker, patterns: tuple[str, ...], clock: Clock, first_host: str = ""
    ) -> None:
        self.taker = taker
        self.first_host = first_host  # its queues are shown without their host
        self.patterns = ",".join(patterns)
        self.dropped = 0  # events in chunks that found no room
        self.names_max = NAMES_MAX
        self.edition = 1  # of the dictionary
        self._patterns = [_pattern(text) for text in patterns]
        self._clock = clock
        self._names: dict[str, int] = {"": 0}
        self._new_names: list[bytes] = []
        self._flags = 0
        self._first = 1  # id of the buffer's first event
        self._whats: list[int] = []
        self._consumers: list[int] = []
        self._seqs: list[int] = []
        self._now = NEVER  # the time of the last moment, by the monotonic clock
        self._starts: list[int] = []
        self._times: list[float] = []

    def of_queue(self, name: str) -> QueueEvents | None:
        """Return the listener for a queue of the first host, if a pattern matches the queue."""
        return self.place_of(self.first_host + LINE + LINE, name)

    def of_host(self, host: str, before: str = "", position: int = 0) -> EventSink:
        """Return the sink for the queues of a virtual host."""
        start = host + LINE + before + LINE
        QueueLog(self, start).record(START, self.patterns, 0, max(0, position))
        return HostLog(self, start if host == self.first_host else start + host + HOST_MARK)

    def place_of(self, start: str, name: str) -> QueueEvents | None:
        """Return the listener for a queue's events, if a pattern matches the queue."""
        if not any(pattern.matches(name) for pattern in self._patterns):
            return None
        return QueueLog(self, start + name)

    def hand_over(self) -> int:
        """Hand over what has gathered; return the id of the last event."""
        self.flush()
        return self._first - 1

    def note(self, what: int, consumer: int, seq: int) -> None:
        """Note one event."""
        if self._clock.now != self._now:
            self._begin_moment()
        self._whats.append(what)
        self._consumers.append(consumer)
        self._seqs.append(seq)
        if len(self._seqs) == EVENTS_PER_CHUNK:
            self.flush()

    def number_of(self, name: str) -> int:
        """Return the number of a name; a new name is sent with the next chunk."""
        number = self._names.get(name)
        return self._enter(name) if number is None else number

    def flush(self) -> None:
        """Hand over what has gathered; the server calls it every second or so."""
        count = len(self._seqs)
        if count == 0:
            return
        names = b"".join(self._new_names)
        moments = len(self._times)
        header = HEADER.pack(MAGIC, self._flags, self._first, len(names), count, moments)
        is_taken = self.taker.take(header + names + self._columns())
        self._first += count
        self._flags = 0
        self._new_names.clear()
        if not is_taken:
            self.dropped += count
        if not is_taken or len(self._names) > self.names_max:
            self._forget_names()

    def close(self) -> None:
        """Hand over the rest and wait until it is on disk."""
        self.flush()
        self.taker.close()

    def _begin_moment(self) -> None:
        self._now = self._clock.now
        self._starts.append(len(self._seqs))
        self._times.append(self._now + self._clock.offset)

    def _columns(self) -> bytes:
        """Take the noted events out, column by column."""
        columns = (
            array(CODES[0], self._whats).tobytes(),
            array(CODES[1], self._consumers).tobytes(),
            array(CODES[2], self._seqs).tobytes(),
            array(MOMENT_CODES[0], self._starts).tobytes(),
            array(MOMENT_CODES[1], self._times).tobytes(),
        )
        self._whats.clear()
        self._consumers.clear()
        self._seqs.clear()
        self._starts.clear()
        self._times.clear()
        self._now = NEVER
        return b"".join(columns)

    def _enter(self, name: str) -> int:
        number = len(self._names)
        self._names[name] = number
        # A lone surrogate has no UTF-8 form. Parquet would refuse the whole column because of it.
        encoded = name.encode("utf-8", "backslashreplace")
        self._new_names.append(LENGTH.pack(len(encoded)) + encoded)
        return number

    def _forget_names(self) -> None:
        self._names = {"": 0}
        self._flags = FORGET
        self.edition += 1


class QueueLog(QueueEvents):
    """Writes one queue's events to the log, and remembers the queue's number."""

    def __init__(self, log: EventLog, name: str) -> None:
        self._log = log
        self._name = name
        self._edition = 0
        self._base = 0

    def arrive(
        self, kind: int, group: str, seq: int, size: int, persistent: bool, message: Message | None
    ) -> None:
        """Note the arrival of a message, its size and whether it survives a restart."""
        said = min(size, SIZE_MAX)
        self.record(kind, group, said + PERSISTENT if persistent else said, seq)

    def catch_up(self) -> bool:
        """Wait for the log's writer."""
        return self._log.taker.catch_up()

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """Note one event."""
        log = self._log
        if self._edition != log.edition:
            self._edition = log.edition
            self._base = log.number_of(self._name) << QUEUE_SHIFT
        log.note(kind | self._base | log.number_of(group) << GROUP_SHIFT, consumer, seq)


class HostLog(EventSink):
    """Writes one virtual host's events to the log, with the right prefix for its queue names."""

    def __init__(self, log: EventLog, start: str) -> None:
        self._log = log
        self._start = start

    def of_queue(self, name: str) -> QueueEvents | None:
        """Return the listener for a queue's events, under the queue's full name."""
        return self._log.place_of(self._start, name)

    def of_host(self, host: str, before: str = "", position: int = 0) -> EventSink:
        """Return the sink for another host."""
        return self._log.of_host(host, before, position)

    def hand_over(self) -> int:
        """Hand over what has gathered, of all hosts."""
        return self._log.hand_over()


def _pattern(text: str) -> Pattern:
    (destination,) = Syntax().parse(f"/queue/{text}", allow_patterns=True)
    return Pattern(destination)


PIPE_BYTES: Final = 1 << 20  # the most that Linux allows by default: half a second of heavy traffic
FINISH_TIMEOUT_S: Final = 10.0  # for the last file's footer; then we stop waiting for the child
PUSH_EVERY_S: Final = 0.05  # at the end, while the pipe is full

FILES: Final = "*events-*.parquet*"  # of every run, and those not finished yet
EXPOSED_TOLD: Final = 5  # exposed files that are named in an error; there may be thousands

PACKAGES: Final = ("pyarrow", "numpy")  # that the child imports


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
        allow_open_files: bool = False,
        packages: tuple[str, ...] = PACKAGES,
    ) -> None:
        """Start the child; raises StoreError if it cannot work here, or lacks a package."""
        self._backlog_max = backlog_max
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        _check_packages(packages)
        _check(directory)
        if not allow_open_files:
            _close(directory)
        arguments = [str(directory), run, str(rotate_bytes), str(rotate_age_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "covey.pipeline.event_log.writer", *arguments],
            stdin=subprocess.PIPE,
            bufsize=0,  # only this class writes to the pipe, and it never waits
            start_new_session=True,
            umask=-1 if allow_open_files else NOT_OWNER,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        with suppress(OSError):  # a small pipe is slower, but good enough
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

    def catch_up(self) -> bool:
        """Wait until half of the room is free; False if the child has ended."""
        self._push()
        while self._backlog_bytes > self._backlog_max // 2 and not self.failure:
            if self._has_ended(PUSH_EVERY_S):
                self._fail()
            else:
                self._push()
        return not self.failure

    def close(self) -> None:
        """Write the rest, end the pipe and wait for the child's last file."""
        for _ in range(int(FINISH_TIMEOUT_S / PUSH_EVERY_S)):
            self._push()
            if not self._backlog or self._has_ended(PUSH_EVERY_S):
                break
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self.failure:
            self._has_ended(PUSH_EVERY_S)
        elif not self._has_ended(FINISH_TIMEOUT_S):
            self._kill(f"its writer did not finish within {FINISH_TIMEOUT_S:.0f} s")
        elif self._process.returncode:
            self._fail()

    def _has_ended(self, within_s: float) -> bool:
        """Wait at most `within_s` for the child's end; return True if it has ended."""
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
        """Note why the child takes nothing more: it has ended, or has closed its end of the pipe.

        The event loop waits meanwhile. So a child that goes on without its pipe is killed.
        """
        self._backlog.clear()
        self._backlog_bytes = 0
        if self._has_ended(PUSH_EVERY_S):
            self.failure = f"its writer ended with exit code {self._process.returncode}"
        else:
            self._kill("its writer stopped reading")

    def _kill(self, failure: str) -> None:
        """Kill the child; a child that hangs in the kernel is left to its end."""
        self._process.kill()
        self._has_ended(PUSH_EVERY_S)
        self.failure = failure


def _check_packages(packages: tuple[str, ...]) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise StoreError(
            f"event_log.dir: an event log needs {' and '.join(missing)};"
            " scripts/setup pipeline installs them, or Covey's extra 'pipeline'"
        )


def _check(directory: Path) -> None:
    try:
        directory.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"event_log.dir: {directory}: {error.strerror}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreError(f"event_log.dir: {directory} cannot be written to")


def _close(directory: Path) -> None:
    """Let nobody else read the log; raises StoreError if that cannot be done."""
    # Only files directly in the directory. Those in its folders of hours are protected by the mode
    # of the directory itself, and after years there are very many.
    files = list(directory.glob(FILES))
    close_to_others(directory, files)
    found = exposures(directory, files)
    if found:
        raise StoreError(
            f"event_log.dir: {directory} is open to others, and the broker may not change that:"
            f" {'; '.join(found[:EXPOSED_TOLD])}; allow_open_files = true in [event_log] goes on"
        )
