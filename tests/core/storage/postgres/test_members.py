"""The brokers' list in PostgreSQL: names, what each sees of the others, tables of before."""

from __future__ import annotations

import pytest

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage import open_members, open_store
from covey.core.storage.cluster import SpaceLoad
from covey.core.storage.postgres import members as module
from covey.core.storage.postgres import store as store_module
from covey.core.storage.postgres.members import Members
from covey.core.storage.postgres.schema import FORMAT
from tests.core.storage.postgres.server import Postgres

SPACES = ("default", "orders")


def member(postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch, run: str) -> Members:
    """Return a broker's row as another process would have it."""
    monkeypatch.setattr(module, "INCARNATION", run)
    made = open_members(postgres.settings(node=name), "1.0", f"digest-{name}", lambda line: None)
    made.enter(SPACES, lambda line: None)
    return made


def test_each_sees_the_others_with_what_they_have(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = member(postgres, "a", monkeypatch, "1")
    first.beat(SPACES, {"orders": SpaceLoad(7, 2)}, [])
    monkeypatch.setattr(module, "INCARNATION", "2")
    second = open_members(postgres.settings(node="b"), "1.1", "x", lambda line: None)
    second.enter(SPACES, lambda line: None)
    seen = second.beat(
        SPACES, {}, [("update covey_spaces set wish = %s where id = %s", ("b", "orders"))]
    )
    assert [(node.node, node.version, node.digest) for node in seen.nodes] == [
        ("a", "1.0", "digest-a"),
        ("b", "1.1", "x"),
    ]
    assert seen.nodes[0].loads == {"orders": SpaceLoad(7, 2)}
    assert [(row.space, row.owner, row.wish) for row in seen.spaces] == [
        ("default", None, None),
        ("orders", None, "b"),
    ]
    second.leave()
    monkeypatch.setattr(module, "INCARNATION", "1")
    assert [node.node for node in first.beat(SPACES, {}, []).nodes] == ["a"]
    first.leave()


def test_a_name_that_is_alive_is_refused_and_one_that_is_dead_is_had_after_its_lease(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = member(postgres, "a", monkeypatch, "1")
    said: list[str] = []

    def beats(seconds: float) -> None:
        monkeypatch.setattr(module, "INCARNATION", "1")
        first.beat(SPACES, {}, [])
        monkeypatch.setattr(module, "INCARNATION", "2")

    monkeypatch.setattr(module, "INCARNATION", "2")
    second = open_members(postgres.settings(node="a"), "1.0", "", lambda line: None)
    with monkeypatch.context() as patch:
        patch.setattr(module, "pause", beats)
        with pytest.raises(StoreError, match="another broker is called a, and it is alive"):
            second.enter(SPACES, said.append)
    assert len(said) == 1
    with postgres.connect() as connection:
        connection.execute("update covey_nodes set seen = seen - interval '3 s'")
    second.enter(SPACES, said.append)
    monkeypatch.setattr(module, "INCARNATION", "1")
    with pytest.raises(StoreError, match="another broker is called a now"):
        first.beat(SPACES, {}, [])
    first.leave()
    monkeypatch.setattr(module, "INCARNATION", "2")
    assert [node.node for node in second.beat(SPACES, {}, []).nodes] == ["a"]
    second.leave()


def test_a_connection_that_breaks_is_made_anew_and_a_row_that_is_gone_is_written_again(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = member(postgres, "a", monkeypatch, "1")
    with postgres.connect() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        connection.execute("delete from covey_nodes")
    with pytest.raises(StoreBusyError, match="the database does not answer"):
        first.beat(SPACES, {}, [])
    assert [node.node for node in first.beat(SPACES, {}, []).nodes] == ["a"]
    assert first.reconnects == 1
    first.leave()


def test_tables_of_the_first_format_are_brought_to_this_one(postgres: Postgres) -> None:
    open_store(postgres.settings(), "default", lambda call: None).close()
    with postgres.connect() as connection:
        connection.execute("drop table covey_nodes")
        connection.execute(
            "alter table covey_spaces drop since, drop wish, drop is_pinned, drop records"
        )
        connection.execute("update covey_meta set format = 1")
    open_store(postgres.settings(), "default", lambda call: None).close()
    with postgres.connect() as connection:
        assert connection.execute("select format from covey_meta").fetchone() == (FORMAT,)
        assert connection.execute("select epoch, wish from covey_spaces").fetchone() == (2, None)


def test_a_virtual_host_that_another_broker_has_cannot_be_opened(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_store(postgres.settings(node="a"), "default", lambda call: None)
    monkeypatch.setattr(store_module, "INCARNATION", "2")
    with pytest.raises(StoreError, match="virtual host default is served by a"):
        open_store(postgres.settings(node="b"), "default", lambda call: None)
    first.close()
    open_store(postgres.settings(node="b"), "default", lambda call: None).close()
