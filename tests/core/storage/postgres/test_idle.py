"""Idle leases: many virtual hosts share one connection, and each of them alone can be lost."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from covey.core.errors import StoreBusyError
from covey.core.storage import open_leased, open_members
from covey.core.storage.postgres.idle import IdleLeases
from covey.core.storage.postgres.lease import FENCE, IDLE_S, FencedError, Lease
from covey.core.storage.postgres.schema import prepare
from covey.core.storage.store import MessageStore
from tests.core.storage.bench import StoreBench
from tests.core.storage.postgres.server import Postgres
from tests.core.storage.sqlite.support import Note

LEASE_S = 10.0
SPACES = ("one", "two", "three")


class Hands:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def idle(postgres: Postgres, clock: Hands) -> IdleLeases:
    return IdleLeases(postgres.dsn, LEASE_S, clock)


def leases(postgres: Postgres, idle: IdleLeases, clock: Callable[[], float]) -> list[Lease]:
    """Take virtual hosts that may rest."""
    with postgres.connect() as connection:
        prepare(connection)
    found = [Lease(postgres.dsn, each, "a", "a", LEASE_S, clock, idle) for each in SPACES]
    for lease in found:
        assert lease.try_take() == ""
        lease.rest()
    return found


def count_connections(postgres: Postgres) -> int:
    with postgres.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where application_name like 'covey%'"
            " and datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


def until_few(postgres: Postgres, count: int) -> None:
    """Wait until the server has noticed that connections were closed."""
    while count_connections(postgres) != count:
        pass  # the test's time limit bounds it


def expires(postgres: Postgres) -> list[object]:
    with postgres.connect() as connection:
        rows = connection.execute("select expires from covey_spaces order by number").fetchall()
    return [row[0] for row in rows]


def commit(owner: Lease) -> None:
    assert not owner.settle()
    try:
        owner.connection.execute(FENCE, owner.hold)
    except psycopg.Error as error:
        raise owner.doubt(error) from error
    owner.committed(owner.clock())


def test_leases_that_rest_share_a_connection_and_one_statement(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    found = leases(postgres, idle, clock)
    assert count_connections(postgres) == len(found)
    for lease in found:
        lease.renew()
    until_few(postgres, 0)  # renewed by the take just now: nothing to do yet
    clock.now += LEASE_S / 4
    for lease in found[1:]:
        idle.ask(lease)
    before = expires(postgres)
    found[0].renew()
    assert count_connections(postgres) == 1
    assert all(now > then for now, then in zip(expires(postgres), before, strict=True))  # type: ignore[operator]
    assert {lease.valid_until for lease in found} == {clock.now + 0.8 * LEASE_S}
    before = expires(postgres)
    for lease in found:
        lease.renew()
    assert expires(postgres) == before


def test_a_lease_whose_thread_does_not_ask_is_not_renewed_by_the_others(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    found = leases(postgres, idle, clock)
    for lease in found:
        lease.renew()
    for _ in range(2):
        clock.now += LEASE_S / 4
        for lease in found[:2]:
            lease.renew()
    assert found[2].valid_until < found[1].valid_until == clock.now + 0.8 * LEASE_S


def test_a_commit_ends_the_rest_and_begins_a_new_one_only_when_nothing_happens(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    first, *others = leases(postgres, idle, clock)
    for lease in (first, *others):
        lease.renew()
    commit(first)
    until_few(postgres, 1)
    for _ in range(3):
        clock.now += IDLE_S / 4
        first.renew()
        assert not first.connection.closed
    clock.now += IDLE_S / 4
    first.renew()
    assert first.connection.closed
    commit(first)
    assert first.tail == 2
    assert idle.reconnects == 0  # nothing has broken


def test_one_that_another_broker_has_taken_ends_alone(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    first, second, third = leases(postgres, idle, clock)
    for lease in (first, second, third):
        lease.renew()
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set epoch = epoch + 1 where id = 'two'")
    clock.now += LEASE_S / 4
    idle.ask(second)
    first.renew()
    with pytest.raises(FencedError, match="virtual host two: epoch 1 is over"):
        second.renew()
    third.renew()
    commit(first)
    with pytest.raises(FencedError):
        commit(second)


def test_one_that_was_taken_while_it_rested_commits_nothing(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    first, *_ = leases(postgres, idle, clock)
    first.renew()
    with postgres.connect() as connection:
        connection.execute("update covey_spaces set epoch = epoch + 1 where id = 'one'")
    with pytest.raises(FencedError):
        commit(first)


def test_one_that_leaves_while_it_rests_is_free_at_once(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    first, *_ = leases(postgres, idle, clock)
    first.renew()
    first.leave()
    first.close()
    other = Lease(postgres.dsn, "one", "b", "b", LEASE_S, clock)
    assert other.try_take() == ""


def test_a_server_that_is_away_is_asked_once_for_all(
    postgres: Postgres, idle: IdleLeases, clock: Hands
) -> None:
    found = leases(postgres, idle, clock)
    for lease in found:
        lease.renew()
    with psycopg.connect(postgres.server.dsn(), autocommit=True) as connection:
        connection.execute(f"alter database {postgres.name} allow_connections false")
        clock.now += LEASE_S / 4
        for lease in found:
            with pytest.raises(StoreBusyError, match="does not answer"):
                lease.renew()
        assert idle._connection is None
        connection.execute(f"alter database {postgres.name} allow_connections true")
    with pytest.raises(StoreBusyError):
        found[0].renew()  # so soon after a failure nobody asks
    clock.now += 1.0
    found[0].renew()
    assert {lease.valid_until for lease in found} == {clock.now + 0.8 * LEASE_S}


def test_a_store_without_work_has_no_connection_and_loses_nothing(
    postgres: Postgres, clock: Hands
) -> None:
    members = open_members(postgres.settings(), "1", "", lambda line: None, clock)
    bench: StoreBench[MessageStore] = StoreBench(
        lambda notify: open_leased(postgres.settings(), "default", notify, clock, members)
    )
    bench.store.append(1, 1, "g", Note(b"before"))
    assert bench.flush() is None
    bench.store.rest()
    until_few(postgres, 1)  # the list of brokers
    assert [body.body for body in bench.page((1, 1))] == [b"before"]
    bench.store.append(1, 2, "g", Note(b"after"))
    assert bench.flush() is None
    bench.store.rest()
    until_few(postgres, 1)
    assert bench.numbers() == [(1, 1), (1, 2)]
    bench.store.close()
    members.leave()
