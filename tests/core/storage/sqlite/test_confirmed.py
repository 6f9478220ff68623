"""What was confirmed and cannot be found is told; what was not confirmed is no loss."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite.confirmed import CONFIRMED_FILE, SIZE, SLOT, SLOTS, Confirmed
from covey.core.storage.sqlite.database import FILE, SCRATCH_FILE
from covey.core.storage.sqlite.segments import Scan, segment_files
from tests.core.storage.bench import queue_record
from tests.core.storage.sqlite.support import Bench, Note, snapshot

BATCHES = 60
EACH = 3  # messages of a batch
LOG = FILE + "-wal"
JOURNAL_SIZE = 512 * 1024  # some segments of it are in use after a life
TOLD = re.compile(r"batch(?:es)? (\d+)(?: to (\d+))? of the store")

Places = dict[int, set[int]]  # messages by batch


class Life:
    """A store that runs, what it has confirmed, and its files as a kill would leave them."""

    def __init__(self, folder: Path, journal_size: int = JOURNAL_SIZE) -> None:
        self.folder = folder
        self.bench = Bench(folder / "running", journal_size=journal_size)
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
            self.confirmed[self.bench.batch] = numbers

    def killed(self, name: str = "killed") -> Path:
        """Return a copy of the files; page cache and disk are the same to a process."""
        return snapshot(self.folder / "running", self.folder / name)

    def close(self) -> None:
        self.bench.store.close()


def segments(folder: Path) -> list[Path]:
    """Return the segments that hold something."""
    found = segment_files(folder)
    return [path for _, mark, path in found if Scan(path.read_bytes(), mark).batches]


def mark_of(file: Path) -> bytes:
    return bytes.fromhex(file.name[-16:])


def flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def assert_all_found_or_told(folder: Path, confirmed: Places) -> int:
    """Open a store; return how many of its messages are lost, each of which must be told."""
    bench = Bench(folder)
    try:
        found = {record.seq for record in bench.store.messages()}
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


@pytest.fixture
def short_life(tmp_path: Path) -> Iterator[Life]:
    """A life with a short journal, most of which is in the tables and their log."""
    made = Life(tmp_path, JOURNAL_SIZE // 8)
    yield made
    made.close()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path)
    yield made
    made.close()


def test_one_bit_of_the_journal_costs_nothing_that_is_not_told(life: Life, tmp_path: Path) -> None:
    killed = life.killed()
    files = segments(killed)
    assert len(files) > 2
    chance = Random(1)
    lost = 0
    for at in range(40):
        trial = tmp_path / f"trial-{at}"
        shutil.copytree(killed, trial)
        file = trial / chance.choice(files).name
        flip(file, chance.randrange(8 * file.stat().st_size))
        lost += assert_all_found_or_told(trial, life.confirmed)
        shutil.rmtree(trial)
    assert 0 < lost <= 40 * EACH, "a bit costs one batch"


def test_the_last_batch_is_missed_too(life: Life) -> None:
    """Nothing follows it in the journal: only the notes know that it was confirmed."""
    killed = life.killed()
    last = segments(killed)[-1]
    scan = Scan(last.read_bytes(), mark_of(last))
    flip(last, 8 * (scan.batches[-1].at + 100))
    assert assert_all_found_or_told(killed, life.confirmed) == EACH


@pytest.mark.parametrize("percent", [0, 10, 50, 99])
def test_a_journal_that_was_cut_costs_nothing_that_is_not_told(life: Life, percent: int) -> None:
    killed = life.killed()
    for file in segments(killed):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) * percent // 100])
    assert assert_all_found_or_told(killed, life.confirmed) or percent == 99


@pytest.mark.parametrize("percent", [-1, 0, 50])
def test_the_log_of_the_tables_costs_nothing_at_all(short_life: Life, percent: int) -> None:
    """Whatever it loses is in the journal still."""
    short_life.write(BATCHES)
    killed = short_life.killed()
    content = (killed / LOG).read_bytes()
    if percent < 0:
        (killed / LOG).unlink()
    else:
        (killed / LOG).write_bytes(content[: len(content) * percent // 100])
    assert assert_all_found_or_told(killed, short_life.confirmed) == 0


def test_one_bit_of_the_log_of_the_tables_costs_nothing_at_all(
    short_life: Life, tmp_path: Path
) -> None:
    short_life.write(BATCHES)
    killed = short_life.killed()
    size = (killed / LOG).stat().st_size
    chance = Random(2)
    for at in range(12):
        trial = tmp_path / f"trial-{at}"
        shutil.copytree(killed, trial)
        flip(trial / LOG, chance.randrange(8 * size))
        assert assert_all_found_or_told(trial, short_life.confirmed) == 0


def test_a_kill_costs_nothing_and_nothing_is_told(short_life: Life) -> None:
    for turn in range(10):
        short_life.write(7)
        bench = Bench(short_life.killed(f"killed-{turn}"))
        assert bench.store.damages == []
        assert {seq for _, seq in bench.numbers()} == set().union(*short_life.confirmed.values())
        bench.store.close()


def test_a_torn_tail_is_no_damage(life: Life, tmp_path: Path) -> None:
    """What was on its way and never confirmed may be gone, in part or whole."""
    notes = (life.folder / "running" / CONFIRMED_FILE).read_bytes()
    before = segments(life.folder / "running")[-1].read_bytes()
    life.write(1)
    last = life.confirmed.popitem()[1]
    whole = life.killed()
    file = segments(whole)[-1]
    after = file.read_bytes()
    start = next(at for at in range(len(after)) if after[at : at + 1] != before[at : at + 1])
    for at, length in enumerate(range(start, start + 3000, 500)):
        trial = tmp_path / f"trial-{at}"
        shutil.copytree(whole, trial)
        (trial / CONFIRMED_FILE).write_bytes(notes)  # the kill came before the disk had it
        (trial / file.name).write_bytes(after[:length] + bytes(len(after) - length))
        bench = Bench(trial)
        assert bench.store.damages == []
        found = {seq for _, seq in bench.numbers()}
        assert found == set().union(*life.confirmed.values()) and not found & last
        bench.store.close()


def test_the_damaged_segment_is_kept_and_the_report_says_where(life: Life) -> None:
    killed = life.killed()
    file = segments(killed)[0]
    flip(file, 8 * 3000)
    content = file.read_bytes()
    bench = Bench(killed)
    (told,) = bench.store.damages
    assert told.endswith(f"{file.name} is kept as {file.name}.damaged")
    assert file.with_name(f"{file.name}.damaged").read_bytes() == content
    (loss,) = bench.store.losses
    assert told.startswith(loss)
    assert f": {EACH} messages came with them" in loss
    assert len(bench.numbers()) == EACH * (BATCHES - 1)
    bench.store.close()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_segment_without_one_whole_batch_is_damaged_and_not_gone(
    life: Life, which: int, is_emptied: bool
) -> None:
    killed = life.killed()
    file = segments(killed)[which]
    size = file.stat().st_size
    file.write_bytes(b"" if is_emptied else b"\xff" * size)
    held = len(Scan((life.folder / "running" / file.name).read_bytes(), mark_of(file)).batches)
    copy = shutil.copytree(killed, life.folder / "copy")
    bench = Bench(copy)
    (told,) = bench.store.damages
    assert told.endswith(f"{file.name} is kept as {file.name}.damaged")
    bench.store.close()
    assert assert_all_found_or_told(killed, life.confirmed) in (EACH * held, EACH * (held - 1))


@pytest.mark.parametrize("which", ["first", "middle", "all"])
def test_a_segment_that_vanished_refuses_the_start_and_says_how_to_go_on(
    life: Life, which: str
) -> None:
    killed = life.killed()
    files = segments(killed)
    gone = {"first": files[:1], "middle": files[1:2], "all": files}[which]
    if which == "all":
        gone = [path for _, _, path in segment_files(killed)]
    contents = {path: path.read_bytes() for path in gone}
    for path in gone:
        path.unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"journal.* gone, and it held batches") as refusal:
            Bench(killed)
    copy = shutil.copytree(killed, life.folder / "copy")
    for path, content in contents.items():
        (copy / path.name).write_bytes(content)
    assert assert_all_found_or_told(copy, life.confirmed) == 0, "put back, nothing is lost"
    way_on = refusal.value.text.rpartition(": rm ")[2]
    Path(way_on).unlink()
    bench = Bench(killed)
    assert bool(bench.store.damages) == (which != "all"), "without notes only a gap is known"
    bench.store.close()


def test_an_older_copy_of_the_database_is_told(life: Life, tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(life.bench.store._database.file)) as source,
        closing(sqlite3.connect(tmp_path / "backup")) as backup,
    ):
        source.backup(backup)
    life.write(BATCHES)
    life.close()
    (tmp_path / "backup").replace(tmp_path / "running" / FILE)
    with pytest.raises(StoreError, match=r"all segments of the journal .* are gone"):
        Bench(tmp_path / "running")
    life.bench = Bench(tmp_path / "other")


def test_a_backup_of_a_running_store_has_all_that_was_confirmed_before(
    life: Life, tmp_path: Path
) -> None:
    """As docs/durability.md says: the journal's files first, then the tables."""
    copy = tmp_path / "copy"
    copy.mkdir()
    before = set().union(*life.confirmed.values())
    for path in (tmp_path / "running").glob("journal-*"):
        shutil.copy(path, copy)
    life.write(BATCHES)
    with (
        closing(sqlite3.connect(life.bench.store._database.file)) as source,
        closing(sqlite3.connect(copy / FILE)) as backup,
    ):
        source.backup(backup)
    bench = Bench(copy)
    assert before <= {seq for _, seq in bench.numbers()}
    assert bench.store.damages == []
    bench.store.close()


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


def test_a_store_without_notes_is_taken_as_it_is(tmp_path: Path) -> None:
    life = Life(tmp_path)
    killed = life.killed()
    life.close()
    (killed / CONFIRMED_FILE).unlink()
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
    assert f"batch {2 * SLOTS} of the store" in again.told(2 * SLOTS, 2 * SLOTS)
    assert ": 2 messages came with them" in again.told(2 * SLOTS, 2 * SLOTS)
    assert f": at least {2 * SLOTS} messages" in again.told(SLOTS - 100, 2 * SLOTS)
    assert SLOT.size * SLOTS == SIZE


def test_a_batch_that_declares_a_queue_is_missed_too(life: Life) -> None:
    last = segments(life.folder / "running")[-1]
    before = last.read_bytes()
    life.bench.store.define(queue_record(2, "b"))
    assert life.bench.flush() is None
    killed = life.killed()
    (killed / last.name).write_bytes(before)
    bench = Bench(killed)
    assert ": 0 messages came with them" in bench.store.losses[0]
    bench.store.close()
