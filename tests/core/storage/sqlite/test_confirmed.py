"""What was confirmed and cannot be found is told; what was not confirmed is no loss."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite.confirmed import CONFIRMED_FILE, SIZE, SLOT, SLOTS, Confirmed
from covey.core.storage.sqlite.database import FILE, SCRATCH_FILE
from tests.core.storage.sqlite.support import Bench, Note, queue_record

BATCHES = 60
EACH = 3  # messages of a batch
LOG = FILE + "-wal"
TOLD = re.compile(r"batch(?:es)? (\d+)(?: to (\d+))? of the store")

Places = dict[int, set[int]]  # messages by batch


class Life:
    """A store that runs, what it has confirmed, and its files as a kill would leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bench = Bench(folder / "running")
        self.bench.store._database.journal.bytes_max = 20_000  # so that it folds now and then
        self.confirmed: Places = {}
        self.bench.store.define(queue_record(1, "a", 10_000))
        assert self.bench.flush() is None
        self.write(BATCHES)

    def write(self, batches: int) -> None:
        store = self.bench.store
        for _ in range(batches):
            first = EACH * len(self.confirmed) + 1
            numbers = set(range(first, first + EACH))
            for seq in numbers:
                store.append(1, seq, "", Note(b"%d" % seq * 300))
            assert self.bench.flush() is None
            self.confirmed[store._database.journal.number] = numbers

    def checkpoint(self) -> None:
        self.bench.store._connection.execute("pragma wal_checkpoint(passive)").fetchone()

    def killed(self, name: str = "killed") -> Path:
        """Return a copy of the files; page cache and disk are the same to a process."""
        shutil.copytree(self.bench.store._database.file.parent, self.folder / name)
        return self.folder / name

    def close(self) -> None:
        self.bench.store.close()


def young(life: Life) -> None:
    """Leave everything in the log."""


def at_rest(life: Life) -> None:
    """Have all of the log in the file, and the log still there."""
    life.checkpoint()


def used_again(life: Life) -> None:
    """Have a log that begins anew, in front of what is left of the last one."""
    life.checkpoint()
    life.write(BATCHES // 2)


def behind_a_reader(life: Life) -> None:
    """Have a log whose first part is in the file, and that goes on."""
    with closing(sqlite3.connect(life.bench.store._database.file)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from queues").fetchone()
        life.checkpoint()
        life.write(BATCHES // 2)


LIVES: dict[str, Callable[[Life], None]] = {
    each.__name__: each for each in (young, at_rest, used_again, behind_a_reader)
}


def flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def assert_all_found_or_told(folder: Path, confirmed: Places) -> int:
    """Open a store; return how many of its messages are lost, each of which must be told."""
    bench = Bench(folder)
    try:
        found = {seq for _, seq in bench.numbers()}
        told = set()
        for text in bench.store.losses:
            match = TOLD.search(text)
            assert match is not None, text
            told |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
        missing = {number for number, seqs in confirmed.items() if not seqs <= found}
        assert missing <= told, (missing, bench.store.damages)
        assert not told or bench.store.damages
        # And what is there can be read.
        bodies = bench.page(*[(1, seq) for seq in sorted(found)])
        assert {body.seq: body.body for body in bodies} == {seq: b"%d" % seq * 300 for seq in found}
        # The store goes on, and the next start tells of no loss again.
        bench.store.append(1, 5000, "", Note(b"new"))
        assert bench.flush() is None
    finally:
        bench.store.close()
    bench = Bench(folder)
    assert bench.store.damages == bench.store.losses == []
    assert (1, 5000) in bench.numbers()
    bench.store.close()
    return EACH * len(missing)


@pytest.mark.parametrize("name", LIVES)
def test_one_bit_of_the_log_costs_nothing_that_is_not_told(tmp_path: Path, name: str) -> None:
    life = Life(tmp_path)
    LIVES[name](life)
    killed = life.killed()
    size = (killed / LOG).stat().st_size
    chance = Random(name)
    # The log's head, a frame's head, the last frame, and anywhere.
    bits = [0, 8 * 17, 8 * 33, 8 * 45, 8 * (size - 1), 8 * (size - 4000)]
    bits += [chance.randrange(8 * size) for _ in range(18)]
    for at, bit in enumerate(bits):
        trial = tmp_path / f"trial-{at}"
        shutil.copytree(killed, trial)
        flip(trial / LOG, bit)
        assert_all_found_or_told(trial, life.confirmed)
        shutil.rmtree(trial)
    life.close()


@pytest.mark.parametrize("name", LIVES)
@pytest.mark.parametrize("percent", [0, 10, 50, 99, -1])
def test_a_log_that_was_cut_or_removed_costs_nothing_that_is_not_told(
    tmp_path: Path, name: str, percent: int
) -> None:
    life = Life(tmp_path)
    LIVES[name](life)
    killed = life.killed()
    if percent < 0:
        (killed / LOG).unlink()
    else:
        content = (killed / LOG).read_bytes()
        (killed / LOG).write_bytes(content[: len(content) * percent // 100])
    lost = assert_all_found_or_told(killed, life.confirmed)
    assert lost or name != "young"
    assert not lost or name != "at_rest"  # the file has everything
    life.close()


@pytest.mark.parametrize("name", LIVES)
def test_a_kill_costs_nothing_and_nothing_is_told(tmp_path: Path, name: str) -> None:
    life = Life(tmp_path)
    LIVES[name](life)
    for turn in range(10):
        life.write(1)
        killed = life.killed(f"killed-{turn}")
        bench = Bench(killed)
        assert bench.store.damages == []
        assert {seq for _, seq in bench.numbers()} == set().union(*life.confirmed.values())
        bench.store.close()
    life.close()


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    """What was on its way and never confirmed may be gone, in part or whole."""
    life = Life(tmp_path)
    notes = (life.folder / "running" / CONFIRMED_FILE).read_bytes()
    size = (life.folder / "running" / LOG).stat().st_size
    life.write(1)
    last = life.confirmed.popitem()[1]
    whole = life.killed()
    content = (whole / LOG).read_bytes()
    assert len(content) > size
    for at, length in enumerate(range(size, len(content), 1000)):
        trial = tmp_path / f"trial-{at}"
        shutil.copytree(whole, trial)
        (trial / CONFIRMED_FILE).write_bytes(notes)  # the kill came before the disk had it
        (trial / LOG).write_bytes(content[:length])
        bench = Bench(trial)
        assert bench.store.damages == []
        found = {seq for _, seq in bench.numbers()}
        assert found == set().union(*life.confirmed.values()) and not found & last
        bench.store.close()
    life.close()


def test_the_damaged_log_is_kept_and_the_report_says_where(tmp_path: Path) -> None:
    life = Life(tmp_path)
    killed = life.killed()
    life.close()
    flip(killed / LOG, 8 * 20_000)
    content = (killed / LOG).read_bytes()
    bench = Bench(killed)
    (told,) = bench.store.damages
    assert told.endswith(f"{LOG} is kept as {FILE}.damaged-1-wal")
    assert (killed / f"{FILE}.damaged-1-wal").read_bytes() == content
    (loss,) = bench.store.losses
    assert told.startswith(loss)
    lost = EACH * BATCHES - len(bench.numbers())
    assert f": {lost} messages came with them" in loss
    bench.store.close()


def test_an_older_copy_of_the_database_is_told(tmp_path: Path) -> None:
    life = Life(tmp_path)
    with (
        closing(sqlite3.connect(life.bench.store._database.file)) as source,
        closing(sqlite3.connect(tmp_path / "backup")) as backup,
    ):
        source.backup(backup)
    life.write(10)
    life.close()
    (tmp_path / "backup").replace(tmp_path / "running" / FILE)
    assert assert_all_found_or_told(tmp_path / "running", life.confirmed) == 10 * EACH


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_emptied", [False, True])
@pytest.mark.parametrize("gone", [(), (CONFIRMED_FILE,), (CONFIRMED_FILE, LOG)])
def test_a_database_that_vanished_or_is_empty_refuses_the_start_until_the_rest_is_removed(
    tmp_path: Path, *, is_killed: bool, is_emptied: bool, gone: tuple[str, ...]
) -> None:
    life = Life(tmp_path)
    folder = life.killed() if is_killed else tmp_path / "running"
    life.close()
    (folder / FILE).write_bytes(b"") if is_emptied else (folder / FILE).unlink()
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    what = "is empty" if is_emptied else "is gone"
    for _ in range(2):
        with pytest.raises(StoreError, match=rf"covey\.db {what}, and .*: rm .*") as refusal:
            Bench(folder)
    for name in refusal.value.text.rpartition(": rm ")[2].split():
        Path(name).unlink()
    bench = Bench(folder)
    assert bench.store.damages == [] and bench.numbers() == []
    bench.store.close()


def test_a_start_that_was_killed_before_there_was_anything_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    (tmp_path / "lock").write_text("17\n")
    bench = Bench(tmp_path)
    assert bench.store.damages == []
    bench.store.close()
    assert (tmp_path / SCRATCH_FILE).exists()


def test_an_upgraded_store_has_noted_nothing_yet(tmp_path: Path) -> None:
    life = Life(tmp_path)
    killed = life.killed()
    life.close()
    (killed / CONFIRMED_FILE).unlink()
    with closing(sqlite3.connect(killed / FILE)) as connection:
        connection.execute("delete from journal where number = 0")
        connection.commit()
    bench = Bench(killed)
    assert bench.store.damages == []
    bench.store.close()


def test_noise_in_the_notes_is_no_evidence(tmp_path: Path) -> None:
    life = Life(tmp_path)
    killed = life.killed()
    life.close()
    (killed / CONFIRMED_FILE).write_bytes(Random(1).randbytes(SIZE // 2))
    bench = Bench(killed)
    assert bench.store.damages == []
    bench.store.close()


def test_notes_go_round_and_the_newest_count(tmp_path: Path) -> None:
    confirmed = Confirmed(tmp_path)
    confirmed.open()
    for number in range(1, 2 * SLOTS + 1):
        confirmed.note(number, 2)
    confirmed.note(2 * SLOTS, 9)  # a batch without a number of its own
    confirmed.close()
    again = Confirmed(tmp_path)
    assert again.newest == 2 * SLOTS
    assert again.missing(2 * SLOTS) == ""
    assert f"batch {2 * SLOTS} of the store" in again.missing(2 * SLOTS - 1)
    assert ": 2 messages came with them" in again.missing(2 * SLOTS - 1)
    assert f": at least {2 * SLOTS} messages" in again.missing(SLOTS - 100)
    assert SLOT.size * SLOTS == SIZE


def test_a_batch_that_declares_a_queue_is_missed_too(tmp_path: Path) -> None:
    life = Life(tmp_path)
    before = life.killed("before")
    life.bench.store.define(queue_record(2, "b"))
    assert life.bench.flush() is None
    killed = life.killed()
    shutil.copy(before / LOG, killed / LOG)
    life.close()
    bench = Bench(killed)
    assert ": 0 messages came with them" in bench.store.losses[0]
    bench.store.close()
