"""Schema: the tables in PostgreSQL, made and upgraded by the broker, and checks of the server.

One database holds all virtual hosts ("spaces"). The key of every table of messages begins with the
number of the space, and no statement touches two spaces:

    covey_spaces    one row per space: epoch and tail, the lease (`core.storage.postgres.lease`)
                    and how many commits have changed its records: other brokers read them anew
    covey_queues, covey_durables, covey_records     definitions
    covey_messages, covey_bodies, covey_ids         as in SQLite's store
    covey_journal   the last commits, one row each

Texts that a client chooses are kept as bytes (UTF-8): PostgreSQL's text cannot hold every character
that a name or a group may have. Bodies are not compressed by the server: that costs more than it
saves. SQL is kept plain, for other databases that speak PostgreSQL's protocol.

Two brokers may start at once: an advisory lock lets one make the tables while the other waits.

A server that could lose a confirmed commit is refused unless `allow_unsafe` is set: a server that
does not flush (`fsync = off`), and one with a standby that is not synchronous, since the standby
may be promoted without the last commits. Whether a commit waits for its flush and its standby is a
setting of each connection, and our connections ask for it. A pooler between us and the server may
not pass that on. So the server's own `synchronous_commit` must make commits wait, too.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from covey.core.errors import StoreError

FORMAT: Final = 3
VERSION_MIN: Final = 130000
SETUP_LOCK: Final = 0x436F7679  # "Covy"

Connection = psycopg.Connection[tuple[Any, ...]]

TABLES: Final = """
create table covey_meta (format int not null);
create table covey_spaces (
    id text primary key,
    number int generated always as identity unique,
    epoch bigint not null default 0,
    tail bigint not null default 0,
    owner text,
    incarnation text,
    expires timestamptz not null default '-infinity',
    since timestamptz, wish text, is_pinned boolean not null default false,
    records bigint not null default 0
) with (fillfactor = 50);
create table covey_queues (
    space int not null, number bigint not null, host text not null, kind text not null,
    name bytea not null, next_seq bigint not null, is_live boolean not null,
    settings text not null, dropped_to bigint not null default 0,
    primary key (space, number));
create table covey_durables (
    space int not null, host text not null, name bytea not null, destinations bytea not null,
    selector bytea not null, not_from bytea not null, primary key (space, host, name));
create table covey_records (
    space int not null, host text not null, kind text not null, key bytea not null,
    value bytea not null, primary key (space, host, kind, key));
create table covey_messages (
    space int not null, id bigint not null, grp bytea not null, deliveries int not null,
    size bigint not null, expires_ms bigint not null, priority smallint not null,
    due_ms bigint not null, primary key (space, id));
create table covey_bodies (
    space int not null, id bigint not null, kind text not null, head bytea not null,
    body bytea not null, crc bigint not null, primary key (space, id));
create table covey_ids (
    space int not null, place bigint not null, digest bytea not null, primary key (space, place));
create table covey_journal (
    space int not null, number bigint not null, epoch bigint not null,
    arrivals bytea not null, deletions bytea not null, crc bigint not null,
    primary key (space, number)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000);
alter table covey_journal alter arrivals set storage external, alter deletions set storage external;
alter table covey_bodies alter body set storage external;
"""
NODES: Final = """
create table covey_nodes (
    node text primary key, incarnation text not null, address text not null, version text not null,
    digest text not null, draining boolean not null default false, load text not null,
    started timestamptz not null default clock_timestamp(),
    seen timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
"""
# The statements that bring tables of a format to the next one, by the earlier format.
UPGRADES: Final = {
    1: """
alter table covey_spaces add since timestamptz, add wish text,
    add is_pinned boolean not null default false;
"""
    + NODES,
    2: "alter table covey_spaces add records bigint not null default 0",
}


def prepare(connection: Connection) -> None:
    """Make the tables, or check and upgrade them; raises StoreError if they cannot be used."""
    if connection.info.server_version < VERSION_MIN:
        raise StoreError(
            f"PostgreSQL is {connection.info.server_version // 10000}, the store needs 13 or newer"
        )
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        if connection.execute("select to_regclass('covey_meta')").fetchone() == (None,):
            connection.execute(TABLES)
            connection.execute(NODES)
            connection.execute("insert into covey_meta values (%s)", (FORMAT,))
            return
        row = connection.execute("select format from covey_meta").fetchone()
        found = -1 if row is None else row[0]
        while found in UPGRADES:
            connection.execute(UPGRADES[found])
            found += 1
            connection.execute("update covey_meta set format = %s", (found,))
    if found != FORMAT:
        raise StoreError(
            f"the tables in PostgreSQL have format {found}, this release knows format {FORMAT}:"
            " a newer release has made them"
        )


def look_at_server(connection: Connection) -> tuple[str, list[str]]:
    """Return one line about the server, and the reasons why it could lose a confirmed commit."""
    version, fsync, commit, names, is_replica = _row(
        connection,
        "select current_setting('server_version'), current_setting('fsync'), (select reset_val"
        " from pg_settings where name = 'synchronous_commit'),"
        " current_setting('synchronous_standby_names'), pg_is_in_recovery()",
    )
    if is_replica:
        raise StoreError("this PostgreSQL is a standby: name its primary in dsn")
    standbys = connection.execute(
        "select coalesce(application_name, ''), coalesce(sync_state, '') from pg_stat_replication"
    ).fetchall()
    waited_for = [name for name, state in standbys if state in ("sync", "quorum")]
    others = [name for name, state in standbys if state == "async"]
    unsafe = []
    if fsync != "on":
        unsafe.append("fsync is off: a crash of the server loses what was confirmed")
    if commit not in ("on", "remote_apply"):
        unsafe.append(
            f"synchronous_commit is {commit}: a broker asks for on, but a pooler in between may not"
            " pass that on, and what was confirmed could be lost; alter role .. set"
            " synchronous_commit = on"
        )
    if others and not names:
        unsafe.append(
            f"standby {', '.join(others)} is not synchronous: if it is promoted, it may lack what"
            " was confirmed; set synchronous_standby_names"
        )
    if names and not waited_for:
        standing = f"no synchronous standby is there ({names}): commits wait for one"
    elif waited_for:
        standing = f"synchronous standby {', '.join(waited_for)}"
    else:
        standing = "no standby: the loss of this server loses its messages"
    settings = f"fsync {fsync}, synchronous_commit {commit}"
    return f"PostgreSQL {version}, {settings}, {standing}", unsafe


def _row(connection: Connection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row
