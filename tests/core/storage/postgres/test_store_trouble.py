"""A database that refuses: one clear line, nothing lost, and all goes on when that is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from covey.core.errors import StoreError
from covey.core.storage import open_members, open_store
from covey.core.storage.store import MessageStore
from tests.core.storage.bench import StoreBench
from tests.core.storage.postgres.server import Pair, Postgres
from tests.core.storage.sqlite.support import Note

# A server without room answers by this code; a trigger answers as it would.
FULL = """
create function no_room() returns trigger language plpgsql as $$ begin
    raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
end $$;
"""


@pytest.fixture
def bench(postgres: Postgres) -> Iterator[StoreBench[MessageStore]]:
    settings = postgres.settings()
    made = StoreBench(lambda notify: open_store(settings, "default", notify))
    yield made
    made.store.close()


def fill_up(postgres: Postgres, table: str) -> None:
    """Leave no room for further rows of a table."""
    with postgres.connect() as connection:
        connection.execute(FULL)
        connection.execute(
            f"create trigger full_disk before insert on {table} execute function no_room()"
        )


def make_room(postgres: Postgres, table: str) -> None:
    with postgres.connect() as connection:
        connection.execute(f"drop trigger full_disk on {table}")


def count(postgres: Postgres, table: str) -> object:
    with postgres.connect() as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()
    return None if row is None else row[0]


def test_a_full_disk_makes_producers_wait_and_loses_nothing(
    bench: StoreBench[MessageStore], postgres: Postgres
) -> None:
    bench.store.append(1, 1, "g", Note(b"before"))
    assert bench.flush() is None
    fill_up(postgres, "covey_journal")
    bench.store.append(1, 2, "g", Note(b"while it is full"))
    bench.store.flush(77)
    bench.loop.until(lambda: any("No space left" in each for each in bench.pressures))
    assert "\n" not in bench.pressures[-1]
    assert 77 not in bench.done
    make_room(postgres, "covey_journal")
    bench.loop.until(lambda: 77 in bench.done)
    assert bench.done[77] is None
    bench.until_unpressed()
    bench.reopen()
    assert bench.numbers() == [(1, 1), (1, 2)]


def test_a_fold_that_is_interrupted_has_done_nothing_and_is_done_later(
    bench: StoreBench[MessageStore], postgres: Postgres
) -> None:
    for number in (1, 2, 3):
        bench.store.append(1, number, "g", Note(b"x"))
        assert bench.flush() is None
    bench.store.delete(1, 2)
    assert bench.flush() is None
    fill_up(postgres, "covey_bodies")  # what a fold writes second, after the messages
    bench.store.close()
    assert (count(postgres, "covey_messages"), count(postgres, "covey_journal")) == (0, 4)
    with postgres.connect() as connection:  # it could not be brought in order, nor left
        connection.execute("update covey_spaces set expires = clock_timestamp() - interval '1 s'")
    with pytest.raises(StoreError, match="cannot be replayed: could not extend file"):
        bench.open_store(bench.loop.notify)
    assert count(postgres, "covey_journal") == 4
    make_room(postgres, "covey_bodies")
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set expires = clock_timestamp() - interval '1 s'")
    bench.store = bench.open_store(bench.loop.notify)
    bench.store.listen(bench)
    assert bench.numbers() == [(1, 1), (1, 3)]
    assert count(postgres, "covey_journal") == 0


@pytest.mark.slow
def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_not_confirmed() -> None:
    pair = Pair()
    try:
        postgres = Postgres(pair)
        settings = postgres.settings(lease_s=30)
        bench = StoreBench(lambda notify: open_store(settings, "default", notify))
        bench.store.append(1, 1, "g", Note(b"on both"))
        assert bench.flush() is None
        pair.standby.stop()
        bench.store.append(1, 2, "g", Note(b"on one"))
        bench.store.flush(77)
        with postgres.connect() as connection:
            query = (
                "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
            )
            while connection.execute(query).fetchone() is None:
                assert 77 not in bench.done
            bench.loop.until(lambda: 77 in bench.done)
        assert "may be missing from the standby" in str(bench.done[77])
        pair.standby.start()
        bench.store.close()
    finally:
        pair.remove()


@pytest.mark.parametrize("has_tables", [False, True])
def test_a_user_without_rights_is_told_in_one_line(postgres: Postgres, has_tables: bool) -> None:
    settings = postgres.settings()
    if has_tables:
        open_members(settings, "1", "", lambda line: None).leave()
    with postgres.connect() as connection:
        connection.execute("revoke all on schema public from public")
        connection.execute("drop role if exists guest")
        connection.execute("create role guest login")
        connection.execute("grant usage on schema public to guest")
    dsn = postgres.dsn.replace("user=covey", "user=guest")
    store = settings.store.model_copy(update={"dsn": dsn})
    with pytest.raises(StoreError) as caught:
        open_members(settings.model_copy(update={"store": store}), "1", "", lambda line: None)
    with postgres.connect() as connection:
        connection.execute("drop owned by guest")
        connection.execute("drop role guest")
    assert "permission denied" in caught.value.text
    assert "\n" not in caught.value.text
