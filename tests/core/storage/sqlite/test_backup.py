"""Backups beside a broker: whole or not there, with all that was confirmed, and in order."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite import backup
from covey.core.storage.sqlite.backup import MANIFEST, BackupOrigin, back_up, restore
from tests.core.storage.sqlite.support import Bench, House, Note, bodies

MADE: BackupOrigin = {"covey": "1", "begun_ms": 1}


def _tell(host: str, pages: int, total: int) -> None:
    """Tell nobody."""


def _restored(saved: Path, data: Path) -> House:
    restore(saved, data)
    return House(data / "h")


def test_what_was_confirmed_is_in_the_copy_and_in_order(tmp_path: Path) -> None:
    house = House(tmp_path / "data" / "h")
    for number in range(20):
        house.send("q", str(number).encode(), f"g{number % 3}")
    house.rest()
    reader = house.reader("q", 5)
    house.rest()
    for entry in list(reader.unsettled.values()):
        house.settle(entry)
    house.rest()
    back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    house.send("q", b"later")
    house.rest()
    house.store.close()
    house = _restored(tmp_path / "saved", tmp_path / "again")
    reader = house.reader("q")
    house.rest()
    assert bodies(reader) == [str(number).encode() for number in range(5, 20)]
    assert not house.store.damages
    house.store.close()


def test_a_store_that_no_broker_uses_is_copied_as_well(tmp_path: Path) -> None:
    house = House(tmp_path / "data" / "h")
    house.send("q", b"x")
    house.rest()
    house.store.close()
    back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    house = _restored(tmp_path / "saved", tmp_path / "again")
    assert house.queue("q").state.index.count == 1
    house.store.close()


def test_backups_under_load_lose_nothing_that_was_confirmed_before(tmp_path: Path) -> None:
    """A small journal is used again and again while backups are made."""
    bench = Bench(tmp_path / "data" / "h", journal_size=256 * 1024)
    from_here = Event()
    confirmed = [0]

    def fill() -> None:
        for number in range(1, 300):
            bench.store.append(1, number, "g", Note(bytes(4000)))
            bench.flush()
            confirmed[0] = number
            from_here.set()

    filling = Thread(target=fill)
    filling.start()
    assert from_here.wait(10)
    kept: list[int] = []
    while (filling.is_alive() and len(kept) < 20) or not kept:
        kept.append(confirmed[0])
        back_up(tmp_path / "data", tmp_path / f"saved{len(kept)}", MADE, _tell, sleep)
    filling.join()
    bench.store.close()
    for number, least in enumerate(kept, 1):
        restore(tmp_path / f"saved{number}", tmp_path / f"again{number}")
        found = Bench(tmp_path / f"again{number}" / "h")
        seqs = [record.seq for record in found.store.messages()]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= least
        assert not found.store.damages
        found.store.close()


def test_a_backup_that_came_to_no_end_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path / "data" / "h")
    house.send("q", b"x")
    house.rest()

    def killed(partial: Path, place: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backup, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    assert not (tmp_path / "saved").exists()
    (tmp_path / "saved.partial" / MANIFEST).unlink()
    with pytest.raises(StoreError, match="is no backup: it has no"):
        restore(tmp_path / "saved.partial", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    assert not (tmp_path / "saved.partial").exists()
    house.store.close()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    house = House(tmp_path / "data" / "h")
    house.store.close()
    back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    with pytest.raises(StoreError, match="a backup is never written over another"):
        back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
    with pytest.raises(StoreError, match="a restore never writes over data"):
        restore(tmp_path / "saved", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "saved", tmp_path / "empty")
    assert (tmp_path / "empty" / "h").is_dir()


def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    house = House(tmp_path / "data" / "h")
    house.send("q", b"x")
    house.rest()
    saved = tmp_path / "saved"
    back_up(tmp_path / "data", saved, MADE, _tell, sleep)
    house.store.close()
    file = saved / "h" / "covey.db"
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match="is not what was written to it"):
        restore(saved, tmp_path / "again")
    file.unlink()
    with pytest.raises(StoreError, match="is gone: this backup is damaged"):
        restore(saved, tmp_path / "again")
    (saved / MANIFEST).write_text(json.dumps({"format": 2}))
    with pytest.raises(StoreError, match="is of format 2"):
        restore(saved, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no data directory"):
        back_up(tmp_path / "none", tmp_path / "saved", MADE, _tell, sleep)
    (tmp_path / "data").mkdir()
    with pytest.raises(StoreError, match="holds no store"):
        back_up(tmp_path / "data", tmp_path / "saved", MADE, _tell, sleep)
