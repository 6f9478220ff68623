"""Batches as statements: few of them, and the order in which they are written."""

from __future__ import annotations

import sqlite3

import pytest

from covey.core.storage.sqlite.changes import (
    GRAIN,
    ROWS_PER_STATEMENT,
    Changes,
    Statement,
    carry_out,
    insert,
)
from covey.core.storage.sqlite.schema import place_of
from tests.core.storage.sqlite.support import Note


@pytest.mark.parametrize("count", [1, GRAIN, GRAIN + 1, ROWS_PER_STATEMENT, 1000])
def test_rows_are_inserted_by_few_statements_of_few_lengths(
    connection: sqlite3.Connection, count: int
) -> None:
    changes = Changes()
    for place in range(count):
        changes.ids[place] = b"digest"
    statements = changes.others()
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


def test_a_batch_that_names_rows_says_so() -> None:
    assert not Changes().names_rows
    for change in ("moves", "retries", "emptied"):
        changes, later = Changes(), Changes()
        if change == "emptied":
            later.empty(1)
        else:
            getattr(later, change)[1] = 2
        changes.add(later)
        assert changes.names_rows


def test_what_is_emptied_takes_with_it_what_came_before_and_nothing_else() -> None:
    mine, other = place_of(1, 5), place_of(2, 5)
    changes, later = Changes(), Changes()
    for place in (mine, other):
        changes.arrive(place, "", Note(b"x"))
        changes.spill(place, Note(b"x"))
        changes.ids[place] = b"digest"
        changes.retries[place] = changes.moves[place] = 1
        changes.deletions.append(place)
        changes.unspills.append(place)
    changes.forget_ids(1, 3)
    later.empty(1)
    later.arrive(mine, "", Note(b"later"))
    later.ids[place_of(1, 1)] = b"digest"
    changes.add(later)
    assert (changes.emptied, changes.forgotten) == ({1}, {})
    assert set(changes.arrivals) == {mine, other}
    assert set(changes.ids) == {place_of(1, 1), other}
    for left in (changes.spills, changes.retries, changes.moves):
        assert set(left) == {other}
    assert (changes.deletions, changes.unspills) == ([other], [other])


def test_ids_forgotten_are_not_written() -> None:
    changes, later = Changes(), Changes()
    for queue, number in ((1, 1), (1, 2), (2, 1)):
        changes.ids[place_of(queue, number)] = b"digest"
    later.forget_ids(1, 2)
    changes.add(later)
    assert list(changes.ids) == [place_of(1, 2), place_of(2, 1)]


def test_nothing_to_insert_is_no_statement() -> None:
    found: list[Statement] = []
    insert(found, "ids", 2, [])
    assert found == []
