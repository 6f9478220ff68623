"""Storage: what waits for the disk, which bodies are in memory, and the stores themselves.

Read `store` first: the interface of every store, with its records; `listener` is what a store tells
the core. `commits` hands changes to the store, a `batch` at a time, and shows them once it has
them; `promises` knows who waits for which batch.
`overload` makes producers wait for disk and memory. `ledger` tells the store of queues, durable
subscriptions and named records. `paging` moves bodies out and in.

Every durable store gathers `changes` on the loop's thread (`threaded`) and gives them to its engine
on a thread of its own (`writer`); `packing` writes messages as bytes. `memory` keeps nothing,
`sqlite/` keeps files, `postgres/` keeps rows in a server. `STORES` is the registry of stores.
`open_store` opens the store of a virtual host, of the kind that the settings name. `cluster`
decides which of several brokers serves a virtual host, and `open_members` connects to the list of
these brokers. Imports `queue` and what is below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from covey.config.settings import Settings, StoreSettings
from covey.core.errors import StoreError
from covey.core.storage.memory import MemoryStore
from covey.core.storage.sqlite.layout import close_root, directory_of, move_in
from covey.core.storage.sqlite.store import SqliteStore
from covey.core.storage.store import MessageStore
from covey.core.storage.writer import Notify

if TYPE_CHECKING:
    from covey.core.storage.postgres.members import Members

Say = Callable[[str], None]
Clock = Callable[[], float]

__all__ = [
    "STORES", "StoreKind", "open_leased", "open_members", "open_store", "prepare_stores"
]  # fmt: skip


class StoreKind(NamedTuple):
    """One kind of store: its name in the settings, and what opens the store of a virtual host."""

    name: str
    open: Callable[[Settings, str, Notify, Say, Clock], MessageStore]


def _open_sqlite(
    settings: Settings, space: str, notify: Notify, say: Say, clock: Clock
) -> MessageStore:
    path = str(directory_of(settings.store.path, space))
    return SqliteStore(settings.store.model_copy(update={"path": path}), notify)


def _open_postgres(
    settings: Settings, space: str, notify: Notify, say: Say, clock: Clock
) -> MessageStore:
    try:
        from covey.core.storage.postgres.store import PostgresStore
    except ImportError as error:
        raise _without_psycopg(error) from error
    return PostgresStore(settings.store, settings.cluster, space, notify, say, clock)


def open_leased(
    settings: Settings, space: str, notify: Notify, clock: Clock, members: Members
) -> MessageStore:
    """Open a virtual host's store in the server of `members`, which was checked before.

    Raises OwnedError if another broker has the virtual host.
    """
    from covey.core.storage.postgres.store import PostgresStore

    return PostgresStore(
        settings.store, settings.cluster, space, notify, _nobody, clock, idle=members.idle
    )


def open_members(
    settings: Settings, version: str, digest: str, say: Say, clock: Clock | None = None
) -> Members:
    """Connect to the list of brokers; waits for a server that does not answer yet.

    `clock` is the monotonic clock, for leases that rest.
    """
    try:
        from covey.core.storage.postgres.members import Members
    except ImportError as error:
        raise _without_psycopg(error) from error
    return Members(settings, version, digest, say, clock or _stopped)


def _without_psycopg(error: ImportError) -> StoreError:
    return StoreError(
        f"store.kind is postgres, which needs the extra covey[cluster] ({error}):"
        " scripts/setup cluster, or pip install 'covey[cluster]'"
    )


STORES: Final = {
    kind.name: kind
    for kind in (
        StoreKind("memory", lambda *given: MemoryStore()),
        StoreKind("sqlite", _open_sqlite),
        StoreKind("postgres", _open_postgres),
    )
}


def open_store(
    settings: Settings,
    space: str,
    notify: Notify,
    say: Say | None = None,
    clock: Clock | None = None,
) -> MessageStore:
    """Open the store of a virtual host.

    `notify` runs a callable on the event loop's thread; any thread may call it. `say` gets lines
    for the log: what was found, and who is waited for. `clock` is the monotonic clock, for a store
    whose right to write ends by itself. Raises StoreError if the store cannot serve: it is in use,
    damaged, or of a newer release.
    """
    return STORES[settings.store.kind].open(
        settings, space, notify, say or _nobody, clock or _stopped
    )


def prepare_stores(settings: StoreSettings, first: str) -> tuple[list[str], list[str]]:
    """Bring the data directory in order, before a store is opened there.

    Returns what was moved to its place there, and what is open to other users. Raises StoreError if
    the directory cannot be used. `first` is the id of the first virtual host.
    """
    if settings.kind != "sqlite":
        return [], []
    return move_in(settings, first), close_root(settings)


def _nobody(line: str) -> None:
    """Tell nobody."""


def _stopped() -> float:
    """Stand still: a store in a test needs no time."""
    return 0.0
