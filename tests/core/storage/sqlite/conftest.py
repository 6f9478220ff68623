"""What several tests of the store begin with."""

from __future__ import annotations

import sqlite3

import pytest

from covey.core.storage.sqlite import schema


@pytest.fixture
def connection() -> sqlite3.Connection:
    """An empty store of the present format, in memory."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(made)
    return made
