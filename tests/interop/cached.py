"""What tests bring from elsewhere and keep in the user's cache directory, outside the checkout.

Several processes run tests at a time, of one checkout or of two. So who fills a folder holds its
lock, and who comes second finds it filled.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder of one kind of things; nobody says that it exists."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "covey-tests" / name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and hold its lock, waiting for whoever holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
