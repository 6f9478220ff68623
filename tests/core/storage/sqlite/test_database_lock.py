"""The lock: one broker per data directory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite.database import LOCK_FILE, DirectoryLock


def test_directory_can_be_locked_once_and_names_its_owner(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(StoreError, match=rf"{tmp_path} is in use .*process {os.getpid()}\b"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()


def test_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(StoreError, match=f"{tmp_path} cannot be written to: Is a directory"):
        DirectoryLock(tmp_path)


def test_a_disk_without_room_for_a_number_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", write)
    DirectoryLock(tmp_path).release()
