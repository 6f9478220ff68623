"""The writer: what waits together becomes one commit, up to a bound, and no batch is divided."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from covey.core.errors import StoreError
from covey.core.storage import writer
from covey.core.storage.changes import Changes
from covey.core.storage.packing import place_of
from covey.core.storage.store import BodyRecord
from covey.core.storage.writer import Engine, Writer
from tests.core.storage.bench import PATIENCE_S, Loop
from tests.core.storage.sqlite.support import Bench, Note

BOUND = 1000


class SlowEngine(Engine):
    """Notes its commits; the first one takes until the test lets it end."""

    def __init__(self) -> None:
        self.commits: list[list[int]] = []  # the places of each
        self.has_begun = Event()
        self.may_end = Event()
        self.fails_at = 0

    def commit(self, changes: Changes) -> None:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_S)
        self.commits.append([*changes.arrivals, *changes.deletions])
        if len(self.commits) == self.fails_at:
            raise StoreError("the disk is gone")

    def read(self, places: list[int]) -> list[BodyRecord]:
        return []

    def tidy(self) -> bool:
        return False

    def shortage(self) -> str:
        return ""

    def look(self) -> None:
        pass

    def make_room(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class Desk:
    """A writer whose engine is busy with its first batch, ticket 1 and place 1."""

    def __init__(self) -> None:
        self.engine = SlowEngine()
        self.loop = Loop()
        self.tickets: list[int] = []
        self.error: StoreError | None = None
        self.writer = Writer("test", self.engine, self.loop.notify, self.take)
        self.count = 0
        self.submit(10)
        assert self.engine.has_begun.wait(PATIENCE_S)

    def take(self) -> None:
        report = self.writer.take_report()
        if report is not None:
            self.tickets += report.tickets
            self.error = self.error or report.error

    def submit(self, size: int, messages: int = 1) -> None:
        """Hand over a batch of messages that have so many bytes together."""
        changes = Changes()
        for _ in range(messages):
            self.count += 1
            changes.arrive(self.count, "", Note(b"x" * (size // messages - 3)))
        changes.tickets.append(self.count)
        self.writer.submit(changes)

    def settle(self, place: int) -> None:
        changes = Changes()
        changes.deletions.append(place)
        self.count += 1
        changes.tickets.append(self.count)
        self.writer.submit(changes)

    def end(self) -> list[list[int]]:
        """Let all be written; return what each commit had."""
        self.engine.may_end.set()
        self.loop.until(lambda: self.count in self.tickets)
        self.writer.close()
        return self.engine.commits


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "COMMIT_BYTES", BOUND)


def test_what_waits_together_becomes_commits_up_to_the_bound_in_order() -> None:
    desk = Desk()
    for _ in range(9):
        desk.submit(300)
    assert desk.end() == [[1], [2, 3, 4], [5, 6, 7], [8, 9, 10]]
    assert desk.tickets == list(range(1, 11))


def test_a_batch_is_never_divided_and_is_a_commit_by_itself_if_it_is_larger() -> None:
    desk = Desk()
    desk.submit(100)
    desk.submit(5000, messages=50)
    desk.submit(100)
    desk.submit(100)
    assert desk.end() == [[1], [2], list(range(3, 53)), [53, 54]]


def test_settlements_behind_a_commit_that_is_full_go_with_it_and_never_before_it() -> None:
    desk = Desk()
    desk.submit(900)
    desk.submit(900)
    desk.settle(2)
    desk.settle(3)
    assert desk.end() == [[1], [2], [3, 2, 3]]
    assert desk.tickets == [1, 2, 3, 4, 5]


def test_what_waits_behind_a_commit_that_failed_is_never_called_written() -> None:
    desk = Desk()
    desk.engine.fails_at = 2
    for _ in range(4):
        desk.submit(900)
    assert desk.end() == [[1], [2]]
    assert desk.error is not None and "the disk is gone" in str(desk.error)
    assert desk.tickets == [1, 2, 3, 4, 5]


def test_an_emptied_queue_stays_empty_however_its_batches_are_divided() -> None:
    desk = Desk()
    desk.submit(900)
    emptied = Changes()
    emptied.empty(0)
    emptied.arrive(place_of(0, 77), "", Note(b"x" * 900))
    desk.count = 77
    emptied.tickets.append(desk.count)
    desk.writer.submit(emptied)
    assert desk.end() == [[1], [2], [77]]


def test_a_transaction_larger_than_the_bound_is_one_batch_on_the_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.flush() is None
    before = bench.batch
    for seq in range(1, 101):
        bench.store.append(1, seq, "g", Note(b"x" * 100))
    assert bench.flush() is None
    assert bench.batch == before + 1
    assert bench.numbers() == [(1, seq) for seq in range(1, 101)]
    bench.store.close()
