"""The lease in PostgreSQL: who may write, who may not any more, how a lost answer is settled."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from covey.config.settings import Settings, StoreSettings
from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage import open_store
from covey.core.storage.postgres import store as module
from covey.core.storage.postgres.lease import FENCE, FencedError, Lease, connect
from covey.core.storage.postgres.schema import Connection, look_at_server, prepare
from tests.core.storage.postgres.server import Pair, Postgres, Server

LEASE_S = 2.0


def lease(postgres: Postgres, node: str = "a", lease_s: float = LEASE_S) -> Lease:
    made = Lease(postgres.dsn, "default", node, node, lease_s, time.monotonic)
    prepare(made.connection)
    return made


def commit(owner: Lease) -> None:
    """Make a commit that brings nothing but its number."""
    try:
        owner.connection.execute(FENCE, owner.hold)
    except psycopg.Error as error:
        raise owner.doubt(error) from error
    owner.committed(0.0)


def end(owner: Lease, postgres: Postgres) -> None:
    """Let the time of an owner pass, by the database's clock."""
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set expires = clock_timestamp() - interval '1 s'")


def test_one_owner_at_a_time_and_who_leaves_is_followed_at_once(postgres: Postgres) -> None:
    first, second = lease(postgres, "a"), lease(postgres, "b")
    assert first.try_take() == ""
    assert second.try_take() == "a"
    commit(first)
    first.leave()
    assert second.try_take() == ""
    assert (second.epoch, second.tail) == (first.epoch + 1, 1)


def test_an_owner_whose_time_is_over_can_write_and_renew_nothing(postgres: Postgres) -> None:
    first, second = lease(postgres, "a"), lease(postgres, "b")
    first.try_take()
    commit(first)
    end(first, postgres)
    commit(first)  # nobody was faster: it is the owner still, and its lease is renewed
    assert second.try_take() == "a"
    end(first, postgres)
    assert second.try_take() == ""
    with pytest.raises(FencedError, match="epoch 1 is over"):
        commit(first)
    first._renewed = 0.0
    with pytest.raises(FencedError):
        first.renew()
    commit(second)
    assert second.tail == 3


@pytest.mark.parametrize("was_done", [True, False])
def test_a_commit_without_an_answer_is_found_done_or_not(
    postgres: Postgres, was_done: bool
) -> None:
    owner = lease(postgres)
    owner.try_take()
    commit(owner)
    if was_done:
        with postgres.connect() as connection:
            connection.execute("update covey_spaces set tail = tail + 1")
    owner.connection.close()
    assert isinstance(owner.doubt(psycopg.OperationalError("gone")), StoreBusyError)
    assert owner.settle() is was_done
    assert owner.tail == (2 if was_done else 1)
    commit(owner)


def test_a_read_leaves_a_commit_in_doubt_to_whoever_tries_it_again(postgres: Postgres) -> None:
    owner = lease(postgres)
    owner.try_take()
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set tail = tail + 1")
    owner.connection.close()
    owner.doubt(psycopg.OperationalError("gone"))
    with pytest.raises(StoreBusyError, match="not known yet"):
        owner.reconnect()
    assert owner.settle()
    owner.connection.close()
    owner.reconnect()
    assert not owner.connection.closed


def test_a_database_that_has_lost_commits_ends_the_owner_loudly(postgres: Postgres) -> None:
    owner = lease(postgres)
    owner.try_take()
    for _ in range(3):
        commit(owner)
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set tail = 1")
    owner.connection.close()
    with pytest.raises(StoreError, match="lost commits"):
        owner.settle()


def test_two_brokers_may_make_the_tables_at_once(postgres: Postgres) -> None:
    failures: list[BaseException] = []

    def make() -> None:
        try:
            lease(postgres)
        except BaseException as error:  # told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


WRONG = {
    "where exists": """
        insert into covey_journal select %(s)s, %(n)s, %(e)s, 'x', 'y', 0
        where exists (select 1 from covey_spaces where number = %(s)s and epoch = %(e)s)
    """,
    "for key share": """
        with held as (select from covey_spaces where number = %(s)s and epoch = %(e)s for key share)
        insert into covey_journal select %(s)s, %(n)s, %(e)s, 'x', 'y', 0 from held
    """,
}
RIGHT = """
    with held as (
        update covey_spaces set tail = tail + 1
        where number = %(s)s and epoch = %(e)s and tail = %(n)s - 1 returning 1)
    insert into covey_journal select %(s)s, %(n)s, %(e)s, 'x', 'y', 0 from held
"""


def breaches(postgres: Postgres, fence: str, rounds: int, until: int = 0) -> int:
    """Count take-overs that did not see what a zombie could confirm; stop at `until`."""
    taker, zombie = postgres.connect(), postgres.connect()
    for connection in (taker, zombie):
        connection.execute("set synchronous_commit = off")
    prepare(taker)
    made = taker.execute("insert into covey_spaces (id) values ('race') returning number")
    (space,) = made.fetchone() or (0,)
    found = 0
    for _ in range(rounds):
        row = taker.execute(
            "update covey_spaces set epoch = epoch + 1, tail = 0 where number = %s returning epoch",
            (space,),
        ).fetchone()
        assert row is not None
        (epoch,) = row
        confirmed: list[int] = []
        began = threading.Event()

        def write(
            epoch: object = epoch,
            confirmed: list[int] = confirmed,
            began: threading.Event = began,
        ) -> None:
            number = 0
            while True:
                number += 1
                given = {"s": space, "n": number, "e": epoch}
                if zombie.execute(fence, given).rowcount != 1:
                    return
                confirmed.append(number)
                began.set()

        thread = threading.Thread(target=write)
        thread.start()
        began.wait()
        taker.execute("update covey_spaces set epoch = epoch + 1 where number = %s", (space,))
        rows = taker.execute("select number from covey_journal where epoch = %s", (epoch,))
        seen = {number for (number,) in rows}
        thread.join()
        found += bool(set(confirmed) - seen)
        taker.execute("delete from covey_journal")
        if until and found >= until:
            break
    taker.close()
    zombie.close()
    return found


def test_no_commit_slips_in_behind_a_take_over(postgres: Postgres) -> None:
    assert breaches(postgres, RIGHT, 150) == 0


@pytest.mark.slow
@pytest.mark.parametrize("fence", WRONG)
def test_fences_that_do_not_hold_are_seen_by_the_same_race(postgres: Postgres, fence: str) -> None:
    assert breaches(postgres, WRONG[fence], 5000, until=1) == 1


# What a start says.


def refusal(settings: Settings) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(settings, "default", lambda call: None)
    return caught.value.text


def given(dsn: str, **store: object) -> Settings:
    return Settings.model_validate({"store": {"kind": "postgres", "dsn": dsn, **store}})


def test_what_waiting_cannot_mend_is_one_line(postgres: Postgres) -> None:
    assert "does not exist" in refusal(given(postgres.server.dsn("nowhere")))
    assert "role" in refusal(given(postgres.dsn.replace("user=covey", "user=nobody")))
    assert "\n" not in refusal(given("host"))
    lease(postgres).close()
    with postgres.connect() as connection:
        connection.execute("update covey_meta set format = 99")
    assert "format 99" in refusal(given(postgres.dsn))


def test_a_server_that_is_not_there_yet_is_waited_for(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def absent_at_first(dsn: str, lease_s: float) -> Connection:
        if not lines:
            raise psycopg.OperationalError("connection to server failed: Connection refused")
        return connect(dsn, lease_s)

    monkeypatch.setattr(module, "connect", absent_at_first)
    monkeypatch.setattr(module, "WAIT_S", 0.01)
    opened = open_store(postgres.settings(), "default", lambda call: None, lines.append)
    opened.close()
    assert lines[0].startswith("waiting for PostgreSQL: connection")
    assert lines[1].startswith("PostgreSQL ") and "no standby" in lines[1]


def test_a_server_that_may_lose_what_was_confirmed_is_refused() -> None:
    server = Server(("fsync=off", "synchronous_commit=off"))
    try:
        assert "fsync is off" in refusal(given(server.dsn()))
        assert "synchronous_commit is off" in refusal(given(server.dsn()))
        lines: list[str] = []
        allowed = given(server.dsn(), allow_unsafe=True)
        open_store(allowed, "default", lambda call: None, lines.append).close()
        assert "fsync off, synchronous_commit off, no standby" in lines[0]
        for cause in ("fsync", "synchronous_commit"):
            assert any(f"unsafe, and allowed: {cause}" in line for line in lines)
    finally:
        server.remove()


@pytest.mark.slow
def test_a_standby_is_told_refused_as_a_server_and_has_to_be_synchronous() -> None:
    pair = Pair()
    try:
        lines: list[str] = []
        open_store(given(pair.dsn()), "default", lambda call: None, lines.append).close()
        assert "synchronous standby walreceiver" in lines[0]
        assert "is a standby: name its primary" in refusal(given(pair.standby.dsn()))
        with psycopg.connect(pair.dsn(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = ''")
            connection.execute("select pg_reload_conf()")
            asked = "select 1 from pg_stat_replication where sync_state = 'async'"
            deadline = time.monotonic() + 30
            while connection.execute(asked).fetchone() is None:
                assert time.monotonic() < deadline, "the standby is still waited for"
        assert "standby walreceiver is not synchronous" in refusal(given(pair.dsn()))
        lines.clear()
        allowed = given(pair.dsn(), allow_unsafe=True)
        open_store(allowed, "default", lambda call: None, lines.append).close()
        assert any("unsafe, and allowed: standby walreceiver" in line for line in lines)
    finally:
        pair.remove()


def test_a_role_whose_commits_wait_is_enough(postgres: Postgres) -> None:
    with postgres.connect() as connection:
        connection.execute(f"alter database {postgres.name} set synchronous_commit = local")
    assert "synchronous_commit is local" in refusal(given(postgres.dsn))
    with postgres.connect() as connection:
        connection.execute(f"alter database {postgres.name} set synchronous_commit = remote_apply")
    open_store(given(postgres.dsn), "default", lambda call: None).close()


def test_the_settings_say_where_the_database_is() -> None:
    with pytest.raises(ValueError, match=r"store\.dsn is to say where it is"):
        Settings(store=StoreSettings(kind="postgres"))


def test_what_was_found_names_the_version(postgres: Postgres) -> None:
    owner = lease(postgres)
    found, unsafe = look_at_server(owner.connection)
    assert found.startswith("PostgreSQL 1") and unsafe == []
