"""Commits whose connection broke: found done or not, also when the server is not yet through."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from covey.core.errors import StoreBusyError
from covey.core.storage import open_store
from covey.core.storage.changes import Changes
from covey.core.storage.packing import SEQ_BITS
from covey.core.storage.postgres.engine import COPY_MESSAGES, DIRECT, MESSAGE_TYPES, PostgresEngine
from covey.core.storage.postgres.former import name_of
from covey.core.storage.postgres.lease import FencedError, Lease
from covey.core.storage.postgres.schema import prepare
from tests.core.storage.postgres.server import Postgres
from tests.core.storage.sqlite.support import Note

LEASE_S = 30.0
QUEUE = 1 << SEQ_BITS


def engine(postgres: Postgres) -> PostgresEngine:
    """Return what writes the virtual host, with its lease."""
    lease = Lease(postgres.dsn, "default", "a", "a", LEASE_S, time.monotonic)
    prepare(lease.connection)
    assert lease.try_take() == ""
    return PostgresEngine(lease, 1 << 20, [])


def batch(*numbers: int, folds: bool = False) -> Changes:
    """Return a batch of messages; one that changes rows of the tables folds."""
    changes = Changes()
    for number in numbers:
        changes.arrive(QUEUE | number, "g", Note(b"%d" % number))
    if folds:
        changes.retries[QUEUE | numbers[0]] = 2
    return changes


def kept(postgres: Postgres) -> list[int]:
    """Return the numbers of all messages as a restart finds them."""
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set expires = '-infinity'")
    store = open_store(postgres.settings(node="b"), "default", lambda call: None)
    try:
        return [record.seq for record in store.messages()]
    finally:
        store.close()


def wait_for(postgres: Postgres, condition: str) -> None:
    """Wait until one of the connections that write the virtual host is in some state."""
    query = (
        "select 1 from pg_stat_activity where datname = current_database()"
        f" and application_name like 'covey space %%' and {condition}"
    )
    with postgres.connect() as connection:
        while connection.execute(query).fetchone() is None:
            pass  # the test's time limit bounds it


@contextmanager
def locked(postgres: Postgres) -> Iterator[Callable[[], object]]:
    """Hold the row of the virtual host, so that the server cannot go on; give what frees it."""
    with postgres.connect() as connection:
        connection.execute("begin")
        connection.execute("select from covey_spaces for update")
        yield lambda: connection.execute("commit")


def break_connection(lease: Lease) -> None:
    """Cut the client's side; a server that waits for a lock does not notice."""
    with socket.socket(fileno=os.dup(lease.connection.fileno())) as stream:
        stream.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("folds", [False, True])
def test_a_commit_that_the_server_ends_after_the_next_try_began_is_found_done(
    postgres: Postgres, folds: bool
) -> None:
    writing = engine(postgres)
    writing.commit(batch(1, 2))
    changes = batch(3, 4, folds=folds)
    failures: list[BaseException] = []

    def commit() -> None:
        try:
            writing.commit(changes)
        except BaseException as error:
            failures.append(error)

    with locked(postgres) as free:
        first = threading.Thread(target=commit)
        first.start()
        wait_for(postgres, "wait_event_type = 'Lock'")
        break_connection(writing.lease)
        first.join()
        assert isinstance(failures.pop(), StoreBusyError)
        second = threading.Thread(target=commit)
        second.start()
        wait_for(postgres, "wait_event_type = 'Lock' having count(*) = 2")
        free()
        second.join()
    assert failures == []
    assert writing.lease.tail == 2
    writing.commit(batch(5))
    writing.commit(batch(6, folds=True))
    writing.close()
    assert kept(postgres) == [1, 2, 3, 4, 5, 6]


def test_all_tries_of_a_batch_write_the_same(postgres: Postgres) -> None:
    writing = PostgresEngine(engine(postgres).lease, 100, [])  # full with the first batch
    changes = Changes()
    changes.arrive(QUEUE | 1, "g", Note(bytes(400)))
    with locked(postgres) as free:
        failures: list[BaseException] = []

        def commit() -> None:
            try:
                writing.commit(changes)
            except BaseException as error:
                failures.append(error)

        for tries in (1, 2):
            thread = threading.Thread(target=commit)
            thread.start()
            wait_for(postgres, f"wait_event_type = 'Lock' having count(*) = {tries}")
            was_folding = writing._is_folding
            break_connection(writing.lease)
            thread.join()
            assert was_folding
        assert [type(each) for each in failures] == [StoreBusyError] * 2
        free()
    writing.commit(changes)
    assert (writing._waiting, writing._size, writing._direct) == ({}, 0, DIRECT * 100)
    writing.close()
    assert kept(postgres) == [1]


def test_an_owner_that_was_followed_is_told_so_by_a_fold_too(postgres: Postgres) -> None:
    writing = engine(postgres)
    writing.commit(batch(1, 2))
    assert kept(postgres) == [1, 2]  # by another broker, which has folded the journal
    with pytest.raises(FencedError, match="another has it"):
        writing.commit(batch(3, folds=True))
    writing.close()


def test_an_owner_that_hangs_in_the_middle_of_a_copy_holds_nobody_up(postgres: Postgres) -> None:
    writing = engine(postgres)
    writing.commit(batch(1, 2))
    assert writing.lease.connection.info.parameter_status("application_name") == name_of(
        writing.lease.number
    )
    with suppress(psycopg.Error):
        with writing.lease.connection.cursor().copy(COPY_MESSAGES) as out:
            out.set_types(MESSAGE_TYPES)
            for number in range(1, 2000):  # more than the client keeps before it sends
                out.write_row((writing.lease.number, QUEUE | number, b"g", 0, 1, 0, 4, 0))
            wait_for(postgres, "wait_event = 'ClientRead' and xact_start is not null")
            began = time.monotonic()
            assert kept(postgres) == [1, 2]
            assert time.monotonic() - began < 20
    with pytest.raises((StoreBusyError, FencedError)):
        writing.commit(batch(3))
    with pytest.raises(FencedError):
        writing.commit(batch(3))
    writing.close()


def test_the_server_soon_notices_that_a_machine_is_gone(postgres: Postgres) -> None:
    lease = engine(postgres).lease
    shown = lease.connection.execute("show tcp_keepalives_idle").fetchone()
    assert shown == ("2",)
    lease.close()
