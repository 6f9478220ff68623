# Compiled by mypyc: see setup.py.
"""Writer: the one thread of a durable store, and what it asks of the store's engine.

Group commit: the thread commits together the batches that came while the last commit ran, up to
`COMMIT_BYTES`; what is beyond becomes the next commit. Else a fast producer and a slow disk would
make commits of `unwritten_max`, packed in memory as a whole. A batch is never divided. The thread
waits for more batches only if all that it has can wait: for `SETTLE_S` at most, until it is called
for anything else, or told to hurry. Bodies are read between two commits. It reports through
`notify`, which runs a callable on the event loop's thread. Results are collected in one report, so
a busy loop is notified only once.

An engine (`Engine`) writes and reads. What its errors mean for a commit:

| error           | answer                                                                       |
|-----------------|------------------------------------------------------------------------------|
| StoreBusyError  | the batch is tried again until it works; producers wait meanwhile            |
| anything else   | final. A failed flush must not be tried again: the system has dropped what   |
|                 | it could not write, and would call the next flush a success                  |

Final means that every batch and read that waits gets the error, and so does every later one. No
error ends the thread silently, not even a bug of ours: the broker would wait for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

from mypy_extensions import mypyc_attr

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.changes import Changes
from covey.core.storage.store import BodyRecord

# Not Final, so that a test of the compiled writer can change them.
RETRY_S = 0.5  # how often an engine that cannot write is asked again
COMMIT_BYTES = 4 * 1024 * 1024  # of heads and bodies; a batch that has more is a commit by itself
SETTLE_S = 0.002  # how long a batch that can wait waits for one that cannot

Notify = Callable[[Callable[[], None]], None]


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine(ABC):
    """What keeps a store's changes; all calls are made on the store's thread."""

    @abstractmethod
    def commit(self, changes: Changes) -> None:
        """Make a batch durable, all of it or nothing."""

    @abstractmethod
    def read(self, places: list[int]) -> list[BodyRecord]:
        """Return the bodies at these places; those that are missing or damaged are left out."""

    @abstractmethod
    def tidy(self) -> bool:
        """Do a little of the work that can wait; return True if more of it is left.

        It takes no longer than a commit. Called after commits and reads, and again while nothing
        else is to be done.
        """

    @abstractmethod
    def shortage(self) -> str:
        """Return why nothing should be written now, "" if it may be; called after each commit."""

    @abstractmethod
    def look(self) -> None:
        """Measure again what `shortage` returns: a limit has changed, or time has passed."""

    @abstractmethod
    def make_room(self) -> None:
        """Free what space can be freed; called while something is short."""

    @abstractmethod
    def finish(self) -> None:
        """Bring everything in order before the end, as far as that can be done."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; called last, on the loop's thread."""


class BodyRead:
    """A request for bodies, and later the bodies."""

    __slots__ = ("bodies", "places", "ticket")

    def __init__(self, ticket: int, places: list[int]) -> None:
        self.ticket = ticket
        self.places = places
        self.bodies: list[BodyRecord] = []


class Report:
    """What the thread has done since the loop last asked."""

    __slots__ = ("error", "pages", "pressure", "tickets")

    def __init__(self) -> None:
        self.tickets: list[int] = []
        self.pages: list[BodyRead] = []
        self.pressure: str | None = None  # None: nothing new
        self.error: StoreError | None = None


class Writer:
    """Changes and page requests in, reports out."""

    def __init__(self, name: str, engine: Engine, notify: Notify, tell: Callable[[], None]) -> None:
        """Start the thread of the store called `name`; `tell` has the loop fetch the report."""
        self._name = name
        self._engine = engine
        self._notify = notify
        self._tell = tell
        self._awake = Condition()
        self._changes: Changes | None = None  # the next commit
        self._later: deque[Changes] = deque()  # those after it
        self._pages: list[BodyRead] = []
        self._report: Report | None = None
        self._is_closing = False
        self._is_due = False  # there is a batch that cannot wait
        self._is_asleep = False  # the thread will not look by itself within `SETTLE_S`
        self._is_look_due = False
        self._has_more = False  # the engine has more to tidy
        self._error: StoreError | None = None
        self._pressure = ""
        # Not `_thread`: the compiled name would be a keyword of C.
        self._worker = Thread(target=self._run, name="covey-store", daemon=True)
        self._worker.start()

    # The loop's side.

    def submit(self, changes: Changes, can_wait: bool = False) -> None:
        """Have a batch written; what waits together becomes one commit, up to a bound."""
        with self._awake:
            last = self._later[-1] if self._later else self._changes
            if last is None:
                self._changes = changes
            elif last.size + changes.size > COMMIT_BYTES:
                self._later.append(changes)
            else:
                last.add(changes)
            self._is_due = self._is_due or not can_wait
            if self._is_due or self._is_asleep:
                self._awake.notify()

    def hurry(self) -> None:
        """Have the batches written that can wait."""
        with self._awake:
            self._is_due = self._changes is not None
            self._awake.notify()

    def ask(self, page: BodyRead) -> None:
        """Have bodies read."""
        with self._awake:
            self._pages.append(page)
            self._awake.notify()

    def look(self) -> None:
        """Have the engine measure again what may be short."""
        with self._awake:
            self._is_look_due = True
            self._awake.notify()

    def take_report(self) -> Report | None:
        """Return what was done since the last time, None if nothing."""
        with self._awake:
            report, self._report = self._report, None
        return report

    def close(self) -> None:
        """Finish what was handed over, and end. A batch that cannot be written is given up."""
        with self._awake:
            self._is_closing = True
            self._awake.notify()
        self._worker.join()
        self._engine.close()

    # The thread's side.

    def _run(self) -> None:
        self._look()
        while self._wait():
            with self._awake:
                changes = self._changes
                self._changes = self._later.popleft() if self._later else None
                self._is_due = self._changes is not None
                pages, self._pages = self._pages, []
            if changes is not None:
                self._commit(changes)
            for page in pages:
                self._read(page)
            self._tidy()
            if self._pressure:
                self._do("room cannot be made", self._engine.make_room)
            if self._pressure or self._is_look_due:
                self._look()
        self._do("it cannot be brought in order", self._engine.finish)

    def _wait(self) -> bool:
        """Wait for something to do; return False when the store is closed and all is done.

        The thread looks again after `SETTLE_S` before it sleeps for longer. So a batch that can
        wait needs to wake nobody, if the last work was a moment ago.
        """
        with self._awake:
            is_quiet = False  # nothing came within `SETTLE_S`
            while not self._is_due and not self._pages and not self._is_look_due:
                if self._is_closing:
                    return self._changes is not None
                if self._has_more:
                    return True
                self._is_asleep = is_quiet
                longest = RETRY_S if self._pressure else None
                is_called = self._awake.wait(longest if is_quiet else SETTLE_S)
                self._is_asleep = False
                if not is_called and (is_quiet or self._changes is not None):
                    return True  # what can wait has waited, or it is time to measure again
                is_quiet = not is_called
        return True

    def _commit(self, changes: Changes) -> None:
        while self._error is None:
            try:
                self._engine.commit(changes)
            except StoreBusyError as error:
                if not self._is_closing:
                    self._wait_for_room(error)
                    continue
                self._fail(f"commit failed: {error}")
            except StoreError as error:
                self._fail(f"commit failed: {error}")
            except Exception as error:
                self._fail(f"commit failed: {error!r}")
            break
        with self._awake:
            report = self._reporting()
            report.tickets += changes.tickets
            report.error = self._error
        if self._error is None:
            self._press(self._engine.shortage())

    def _wait_for_room(self, error: StoreBusyError) -> None:
        """Wait before a batch is tried again; bodies are still read for consumers meanwhile."""
        self._press(f"the store cannot be written: {error}")
        with self._awake:
            if not self._is_closing:
                self._awake.wait(RETRY_S)
            pages, self._pages = self._pages, []
        for page in pages:
            self._read(page)

    def _read(self, page: BodyRead) -> None:
        if self._error is None:
            try:
                page.bodies = self._engine.read(page.places)
            except StoreBusyError:
                self.ask(page)
                return
            except Exception as error:
                self._fail(f"a page could not be read: {error}")
        with self._awake:
            report = self._reporting()
            report.pages.append(page)
            report.error = self._error

    def _tidy(self) -> None:
        self._has_more = False
        if self._error is None:
            try:
                self._has_more = self._engine.tidy()
            except StoreBusyError:
                pass  # a later batch, or the next start, does it
            except Exception as error:
                self._lose(f"what was written cannot be put in its place: {error}")

    def _do(self, failure: str, action: Callable[[], None]) -> None:
        """Do work that no batch waits for; if the store is busy, the work is left for later."""
        if self._error is None:
            try:
                action()
            except StoreBusyError:
                pass
            except Exception as error:
                self._lose(f"{failure}: {error}")

    def _look(self) -> None:
        self._is_look_due = False
        self._do("it cannot be looked at", self._engine.look)
        if self._error is None:
            self._press(self._engine.shortage())

    def _press(self, reason: str) -> None:
        if reason == self._pressure:
            return
        self._pressure = reason
        with self._awake:
            self._reporting().pressure = reason

    def _lose(self, text: str) -> None:
        """Fail while no batch is under way."""
        self._fail(text)
        with self._awake:
            self._reporting().error = self._error

    def _fail(self, text: str) -> None:
        if self._error is None:
            self._error = StoreError(f"{self._name}: {text}")

    def _reporting(self) -> Report:
        """Return the report being filled; when a new one begins, the loop is asked to fetch it."""
        if self._report is None:
            self._report = Report()
            try:
                self._notify(self._tell)
            except RuntimeError:
                pass  # the loop has ended, so nobody listens any more; close() finishes the rest
        return self._report
