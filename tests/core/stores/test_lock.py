"""The lock: one broker per data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covey.core.errors import StoreError
from covey.core.stores.lock import DirectoryLock


def test_directory_can_be_locked_once_and_names_its_owner(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(StoreError, match=rf"{tmp_path} is in use .*process {os.getpid()}\b"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()
