"""Changes as statements: few of them, and all or none are carried out."""

from __future__ import annotations

import sqlite3

import pytest

from covey.core.storage.changes import Changes
from covey.core.storage.sqlite.statements import (
    GRAIN,
    ROWS_PER_STATEMENT,
    Statement,
    carry_out,
    insert,
    others,
)


@pytest.mark.parametrize("count", [1, GRAIN, GRAIN + 1, ROWS_PER_STATEMENT, 1000])
def test_rows_are_inserted_by_few_statements_of_few_lengths(
    connection: sqlite3.Connection, count: int
) -> None:
    changes = Changes()
    for place in range(count):
        changes.ids[place] = b"digest"
    statements = others(changes)
    assert len(statements) <= count // ROWS_PER_STATEMENT + 2
    carry_out(connection, statements)
    assert connection.execute("select count(*) from ids").fetchone() == (count,)
    lengths = {text.count("(") for text, _ in statements}
    assert all(length <= GRAIN or length % GRAIN == 0 for length in lengths)


def test_statements_are_all_carried_out_or_none(connection: sqlite3.Connection) -> None:
    statements: list[Statement] = [
        ("insert into ids values (1, 'x')", ()),
        ("insert into nowhere values (1)", ()),
    ]
    with pytest.raises(sqlite3.OperationalError):
        carry_out(connection, statements)
    connection.execute("rollback")
    assert connection.execute("select count(*) from ids").fetchone() == (0,)
    carry_out(connection, [])
    assert not connection.in_transaction


def test_nothing_to_insert_is_no_statement() -> None:
    found: list[Statement] = []
    insert(found, "ids", 2, [])
    assert found == []
