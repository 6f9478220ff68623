"""The engine: faults at every write and statement, a full disk, a killed process."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from covey.core.errors import StoreError
from covey.core.queue.timers import PLACE
from covey.core.storage import writer
from covey.core.storage.sqlite import engine
from covey.core.storage.sqlite.journal import SEGMENT_MIN, SEGMENTS
from covey.core.storage.sqlite.segments import segment_files
from tests.core.storage.bench import queue_record
from tests.core.storage.sqlite.faults import (
    DISK_FULL,
    FSYNC_FAILED,
    Plan,
    WritePlan,
    failing,
)
from tests.core.storage.sqlite.killed import QUEUES
from tests.core.storage.sqlite.support import Bench, House, Note

ROOT = Path(__file__).parents[4]
SMALL = SEGMENTS * SEGMENT_MIN


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)


def batches(bench: Bench) -> list[Exception | None]:
    """Do one of everything, in four batches; return how each ended."""
    store = bench.store
    store.define(queue_record(1))
    for seq in (1, 2, 3):
        store.append(1, seq, "g", Note(b"%d" % seq))
    store.append(1, PLACE, "g", Note(b"6"))
    ended = [bench.flush()]
    store.count_retry(1, 2, 5)
    store.delete(1, 1)
    store.move(1, PLACE, 6)
    store.remember(1, 1, DIGEST)
    ended.append(bench.flush())
    store.reserve(1, 1000)
    store.append(1, 4, "", Note(b"4"))
    ended.append(bench.flush())
    store.spill(1, 5, Note(b"5"))
    store.empty(1)
    ended.append(bench.flush())
    return ended


def contents(directory: Path) -> tuple[object, ...]:
    bench = Bench(directory)
    records = [(record.seq, record.deliveries) for record in bench.store.messages()]
    numbers = [record.next_seq for record in bench.store.queues()]
    ids = [record.digest for record in bench.store.ids()]
    found = [body.body for body in bench.page(*[(1, seq) for seq, _ in records])]
    assert found == [b"6" if seq == PLACE else b"%d" % seq for seq, _ in records]
    assert bench.store.damages == []
    bench.store.close()
    return (records, numbers, ids)


DIGEST = b"d" * 16
STEPS = [
    ([], [], []),
    ([(1, 0), (2, 0), (3, 0), (PLACE, 0)], [1], []),
    ([(2, 5), (3, 0), (6, 0)], [1], [DIGEST]),
    ([(2, 5), (3, 0), (4, 0), (6, 0)], [1000], [DIGEST]),
    ([], [1000], []),
]


@pytest.mark.parametrize("is_done_first", [False, True], ids=["not done", "done, but reported"])
def test_failing_flush_at_any_write_ends_all_promises_and_leaves_a_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done_first: bool
) -> None:
    for nth in count(1):
        directory = tmp_path / str(nth)
        plan = WritePlan(nth, errno.EIO, is_done_first=is_done_first)
        with monkeypatch.context() as patch:
            plan.install(patch)
            bench = Bench(directory, journal_size=SMALL)
            plan.is_armed = True
            ended = batches(bench)
            plan.is_armed = False
            bench.store.close()
        good = next((at for at, error in enumerate(ended) if error), len(ended))
        assert all(isinstance(error, StoreError) for error in ended[good:]), (
            "once a commit failed, no later one may succeed"
        )
        assert contents(directory) in STEPS[good : good + 2]
        if plan.failures == 0:
            assert ended == [None] * 4
            assert nth > 4
            return
        assert good < 4
        assert "injected into write" in str(ended[good])


@pytest.mark.parametrize("is_done_first", [False, True], ids=["not done", "done, but reported"])
def test_failing_statement_of_a_fold_ends_all_promises_and_leaves_a_whole_store(
    tmp_path: Path, is_done_first: bool
) -> None:
    for nth in count(1):
        directory = tmp_path / str(nth)
        plan = Plan(nth, FSYNC_FAILED, is_done_first=is_done_first)
        plan.is_armed = False
        bench = Bench(directory, failing(plan))
        plan.is_armed = True
        ended = batches(bench)
        bench.store.close()  # folds everything
        plan.is_armed = False
        good = next((at for at, error in enumerate(ended) if error), len(ended))
        assert good >= 3, "only the last batch, with a spilled body, has a statement of its own"
        assert contents(directory) in STEPS[good : good + 2]
        if plan.failures == 0:
            assert nth > 8
            return


def test_a_fold_that_fails_while_nothing_is_under_way_is_told(tmp_path: Path) -> None:
    plan = Plan(1, FSYNC_FAILED, start="delete from messages")
    plan.is_armed = False
    bench = Bench(tmp_path, failing(plan), journal_size=SMALL)
    plan.is_armed = True
    for seq in range(1, 400):
        bench.store.delete(1, seq)  # of the tables, for all that the journal knows
    # By itself, or with the batch before it, if that was not told of yet.
    failure = bench.flush()
    bench.loop.until(lambda: bool(failure or bench.failure))
    assert "cannot be put in its place: injected" in str(failure or bench.failure)
    bench.store.append(1, 1, "", Note(b"x"))
    assert isinstance(bench.flush(), StoreError)
    bench.store.close()


def test_full_disk_at_any_write_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in count(1):
        directory = tmp_path / str(nth)
        plan = WritePlan(nth, errno.ENOSPC, times=3)
        with monkeypatch.context() as patch:
            plan.install(patch)
            bench = Bench(directory, journal_size=SMALL)
            plan.is_armed = True
            assert batches(bench) == [None] * 4
            plan.is_armed = False
            if plan.failures == 3:
                bench.until_unpressed()
            bench.store.close()
        assert contents(directory) == STEPS[4]
        if plan.failures == 0:
            return


def test_full_disk_at_any_statement_is_waited_out(tmp_path: Path) -> None:
    for nth in count(1):
        directory = tmp_path / str(nth)
        plan = Plan(nth, DISK_FULL, times=3)
        plan.is_armed = False
        bench = Bench(directory, failing(plan), journal_size=SMALL)
        plan.is_armed = True
        assert batches(bench) == [None] * 4
        bench.store.close()
        assert contents(directory) == STEPS[4]
        if plan.failures == 0:
            return


def test_opening_that_fails_at_any_statement_leaves_the_directory_to_the_next(
    tmp_path: Path,
) -> None:
    for nth in count(1):
        directory = tmp_path / str(nth)
        plan = Plan(nth, FSYNC_FAILED)
        try:
            bench = Bench(directory, failing(plan))
        except StoreError as error:
            assert "cannot be opened: injected" in str(error)
            bench = Bench(directory)
        plan.is_armed = False
        assert batches(bench) == [None] * 4
        bench.store.close()
        if plan.failures == 0:
            return


def test_page_that_cannot_be_read_is_final_too(tmp_path: Path) -> None:
    plan = Plan(1, FSYNC_FAILED)
    plan.is_armed = False
    bench = Bench(tmp_path, failing(plan))
    plan.is_armed = True
    assert bench.page((1, 1)) == []
    assert isinstance(bench.page_error, StoreError)
    assert isinstance(bench.flush(), StoreError)
    bench.store.close()


def test_a_mistake_of_ours_is_final_too_and_not_silent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    note = Note(b"x")
    note.expires_ms = 2**70  # no column takes that
    bench.store.append(1, 1, "", note)
    assert isinstance(bench.flush(), StoreError)
    bench.store.append(1, 2, "", Note(b"y"))
    assert isinstance(bench.flush(), StoreError)
    assert bench.page((1, 1)) == []
    bench.store.close()
    assert contents(tmp_path) == STEPS[0]


def test_disk_that_is_full_holds_up_the_batch_until_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = WritePlan(1, errno.ENOSPC, times=1000)
    plan.install(monkeypatch)
    bench = Bench(tmp_path)
    plan.is_armed = True
    bench.store.append(1, 1, "", Note(b"x" * 200_000))
    bench.store.flush(1)
    bench.loop.until(lambda: bool(bench.pressures))
    assert "the store cannot be written: journal-" in bench.pressures[0]
    assert bench.done == {}
    plan.is_armed = False
    bench.loop.until(lambda: bench.done == {1: None} and bench.pressures[1:] == [""])
    assert bench.numbers() == [(1, 1)]
    bench.store.close()


def test_low_disk_is_noticed_at_start_and_its_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_bavail=10, f_frsize=4096, f_blocks=1000)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    bench = Bench(tmp_path, disk_free_min=50_000)
    bench.loop.turn()
    assert bench.pressures == ["the disk has 40.0 KiB free, less than 48.8 KiB"]
    bench.store.append(1, 1, "", Note(b"what came before is still written"))
    assert bench.flush() is None
    disk.f_bavail = 20
    bench.until_unpressed()
    bench.store.close()


def test_close_gives_up_a_batch_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = WritePlan(1, errno.ENOSPC, times=1000)
    plan.install(monkeypatch)
    bench = Bench(tmp_path)
    plan.is_armed = True
    bench.store.append(1, 1, "", Note(b"x" * 200_000))
    bench.store.flush(1)
    bench.loop.until(lambda: bool(bench.pressures))
    bench.store.close()
    plan.is_armed = False
    assert contents(tmp_path) == STEPS[0]


def test_after_a_failure_the_broker_sends_no_receipt_and_shows_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = WritePlan(1, errno.EIO)
    plan.install(monkeypatch)
    house = House(tmp_path)
    reader = house.reader("a")
    house.send("a", b"1", receipt="good")
    house.rest()
    plan.is_armed = True
    house.send("a", b"2", receipt="bad")
    house.rest()
    assert isinstance(house.broker.promises.failure, StoreError)
    house.send("a", b"3", receipt="worse")
    house.settle(reader.entries[0])
    house.broker.promises.after(house.session, lambda: house.receipts.append("ack"))
    house.rest()
    house.broker.promises.after(house.session, lambda: house.receipts.append("nothing to wait for"))
    assert house.receipts == ["good"]
    assert reader.got == [1]
    house.store.close()


def test_batches_that_meet_are_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = WritePlan(1, errno.ENOSPC)
    plan.install(monkeypatch)
    bench = Bench(tmp_path)
    plan.is_armed = True
    for seq in range(1, 101):
        bench.store.append(1, seq, "", Note(b"x"))
        bench.store.flush(seq)
    bench.loop.until(lambda: len(bench.done) == 100)
    assert list(bench.done) == list(range(1, 101))
    assert bench.batch < 100
    bench.store.close()


def test_log_of_the_tables_and_files_of_the_journal_stay_few_and_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CHECKPOINT_BYTES", 100_000)
    bench = Bench(tmp_path, journal_size=400_000)
    for seq in range(1, 1001):
        bench.store.append(1, seq, "", Note(b"x" * 5000))
        assert bench.flush() is None
    assert (tmp_path / "covey.db-wal").stat().st_size < 2_000_000
    assert sum(path.stat().st_size for _, _, path in segment_files(tmp_path)) < 1_500_000
    assert len(bench.numbers()) == 1000
    bench.store.close()


@pytest.mark.slow
def test_killed_process_leaves_every_batch_whole_and_every_promise_kept(tmp_path: Path) -> None:
    chance = random.Random(7)
    told = 0
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.core.storage.sqlite.killed", str(tmp_path)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 120)):
            told = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split("\n")[:-1]
        process.wait()
        told = int(rest[-1]) if rest else told
        bench = Bench(tmp_path)
        places = bench.numbers()
        newest = max(seq for _, seq in places)
        assert newest in (told, told + 1)
        kept = range(max(1, newest - 49), newest + 1)
        assert places == [(queue, seq) for queue in QUEUES for seq in kept]
        assert len(bench.page(*places)) == len(places)
        bench.store.close()
