"""One way to open each durable store, for what all of them do (`test_store_contract.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.config.settings import Settings, StoreSettings
from covey.core.storage import open_store
from covey.core.storage.store import MessageStore
from covey.core.storage.writer import Notify
from tests.core.storage.postgres.server import Postgres, Server


@pytest.fixture
def open_postgres(postgres: Postgres) -> Callable[[Notify], MessageStore]:
    """A store in a database of the test's own."""
    settings = postgres.settings()
    return lambda notify: open_store(settings, "default", notify)


@pytest.fixture
def open_sqlite(tmp_path: Path) -> Callable[[Notify], MessageStore]:
    """A SQLite store in a directory of the test's own."""
    store = StoreSettings(kind="sqlite", path=str(tmp_path / "data"), disk_free_min=0)
    settings = Settings(store=store)
    return lambda notify: open_store(settings, "default", notify)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests of a process; a commit of it does not wait for the disk."""
    server = Server(("full_page_writes=off", "max_connections=50"))
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server: Server) -> Postgres:
    """A database of the test's own."""
    return Postgres(postgres_server)
