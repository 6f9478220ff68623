"""Batches as statements: one for the usual batch, and the order in which the others are written."""

from __future__ import annotations

import sqlite3

import pytest

from covey.core.stores import schema
from covey.core.stores.changes import GRAIN, ROWS_PER_STATEMENT, Changes
from tests.core.stores.support import Note


@pytest.fixture
def connection() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(made)
    return made


def write(connection: sqlite3.Connection, changes: Changes) -> int:
    statements = changes.statements()
    for text, parameters in statements:
        connection.execute(text, parameters)
    return len(statements)


def batch(first: int, count: int, *deletions: int) -> Changes:
    changes = Changes()
    for place in range(first, first + count):
        changes.arrive(place, "g", Note(b"x"))
    changes.deletions += deletions
    return changes


def places(connection: sqlite3.Connection, table: str) -> list[int]:
    return [place for (place,) in connection.execute(f"select id from {table} order by id")]


@pytest.mark.parametrize("count", [1, GRAIN, GRAIN + 1, 3 * GRAIN - 2, ROWS_PER_STATEMENT - 1])
def test_arrivals_and_deletions_are_one_statement(
    connection: sqlite3.Connection, count: int
) -> None:
    write(connection, batch(1, 3))
    assert write(connection, batch(4, count, 1, 3)) == 1
    wanted = [2, *range(4, 4 + count)]
    assert places(connection, "messages") == places(connection, "bodies") == wanted


def test_deletions_alone_are_one_statement(connection: sqlite3.Connection) -> None:
    write(connection, batch(1, 3))
    changes = Changes()
    changes.deletions.append(2)
    assert write(connection, changes) == 1
    assert places(connection, "messages") == places(connection, "bodies") == [1, 3]


def test_a_large_batch_is_several_statements_and_whole(connection: sqlite3.Connection) -> None:
    count = 2 * ROWS_PER_STATEMENT + 5
    assert write(connection, batch(1, count, 1)) == 3
    assert places(connection, "bodies") == list(range(2, count + 1))


def test_one_that_moved_is_deleted_by_its_new_place(connection: sqlite3.Connection) -> None:
    write(connection, batch(1, 2))
    changes = batch(3, 1, 9)
    changes.moves[2] = 9
    assert write(connection, changes) == 4
    assert places(connection, "messages") == places(connection, "bodies") == [1, 3]
