"""Lease: the right to write one virtual host, as a row in PostgreSQL, and its fence.

`epoch` counts owners, `tail` counts commits. Every commit checks both and increments `tail`, in the
transaction that writes its changes:

    update covey_spaces set tail = tail + 1, expires = clock_timestamp() + lease
    where number = S and epoch = E and tail = N

A take-over sets `epoch + 1`. It waits for a commit that is under way, because both lock the row. A
commit of the old owner that comes later changes no row, and so the old owner learns that its time
is over (`FencedError`). So a broker that was frozen or cut off cannot confirm anything any more,
and no promise depends on a clock. `select .. where exists` and `for key share` would not do:
docs/decisions/040 has the race.

Rules:
- All times are the database's. Only `valid_until` is by our own monotonic clock: until then no
  other broker can have taken over. It is counted from *before* the renewal was sent, and it ends
  before the lease does.
- Renewals use the connection of the commits, and are made only when the event loop asks. So if the
  loop, the thread or the database hangs, another broker takes over.
- When a connection breaks during a commit, nobody knows whether the commit was done. The next
  connection asks. Another epoch: this owner's time is over. `tail` is one more: the commit was
  done. `tail` is the same: it was not, or it is still under way, since the server has not noticed
  that the connection broke. So it is tried again; if it cannot be done now, we ask once more.
  Anything else means that the database has lost commits, which is a final error of the store.
- A commit that waits for its synchronous standby is never cancelled by us. If an operator cancels
  it, the server warns and calls it done, although the standby may lack it. So this warning makes a
  commit fail for good: the next owner reads it, and its own first commit waits for the standby.
- If a commit has several statements, the fence is the last one, sent together with COMMIT. So an
  owner that freezes before it holds no lock on the row, and the server ends its transaction.
- A former connection may still hold locks, in the middle of a COPY. It is ended (`former`).
- A lease to which nothing happens rests: it has no connection, and is renewed with others (`idle`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Final

import psycopg

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.cluster import FENCED
from covey.core.storage.postgres.former import end_former, name_of
from covey.core.storage.postgres.schema import Connection

if TYPE_CHECKING:
    from covey.core.storage.postgres.idle import IdleLeases

TAKE: Final = """
    update covey_spaces set epoch = epoch + 1, owner = %(node)s, incarnation = %(incarnation)s,
        expires = clock_timestamp() + make_interval(secs => %(lease_s)s),
        since = clock_timestamp(), wish = null,
        is_pinned = is_pinned and coalesce(wish = %(node)s, false)
    where id = %(space)s and (owner is null or expires < clock_timestamp())
    returning number, epoch, tail
"""
HOLD: Final = """
    update covey_spaces set tail = tail + 1, expires = clock_timestamp() + make_interval(secs => %s)
    where number = %s and epoch = %s and tail = %s
"""
FENCE: Final = f"with held as ({HOLD} returning 1) select 1 / count(*) from held"
# The fence of a commit that changes named records: other brokers see that, and read them.
RECORDS_FENCE: Final = FENCE.replace("tail + 1,", "tail + 1, records = records + 1,", 1)
ROW: Final = (
    f"with held as ({HOLD} returning 1)"
    " insert into covey_journal select %s, %s, %s, %s, %s, %s from held"
)
RENEW: Final = """
    update covey_spaces set expires = clock_timestamp() + make_interval(secs => %s)
    where number = %s and epoch = %s
"""
LEAVE: Final = """
    update covey_spaces set owner = null, expires = '-infinity' where number = %s and epoch = %s
"""
OWNER: Final = """
    select owner, extract(epoch from expires - clock_timestamp()) from covey_spaces where id = %s
"""
ASK: Final = "select epoch, tail from covey_spaces where number = %s and not pg_is_in_recovery()"

RENEW_SHARE: Final = 5  # the lease is renewed when a fifth of it has passed
VALID_SHARE: Final = 0.8  # of the lease: so long we trust, by our own clock, that we have it
CONNECT_TIMEOUT_S: Final = 3
CANCELLED_WAIT: Final = "SyncRepWaitForLSN"  # where the server warns; its words are translated
RECONNECT_PAUSE_S: Final = 0.2
IDLE_S: Final = 10.0  # without a commit or a read, then a lease rests


class FencedError(StoreError):
    """Another broker has the virtual host."""


class Lease:
    """One virtual host's row, and the connection over which all its changes are written."""

    def __init__(
        self,
        dsn: str,
        space: str,
        node: str,
        incarnation: str,
        lease_s: float,
        clock: Callable[[], float],
        idle: IdleLeases | None = None,
    ) -> None:
        """Connect; `clock` is the monotonic clock of the broker's turns.

        With `idle` the lease may rest, once `rest` was called.
        """
        self.space = space
        self.clock = clock
        self.lease_s = lease_s
        self.number = 0
        self.epoch = 0
        self.tail = 0
        self.valid_until = 0.0
        self._idle = idle
        self._may_rest = False
        self._is_resting = False
        self._is_lost = False  # another broker took it while it rested
        self._used = 0.0  # when it last had a commit or a read
        self._dsn = dsn
        self._node = node
        self._incarnation = incarnation
        self._renewed = 0.0
        self._is_in_doubt = False  # it is not known whether the last commit was done
        self._is_retried = False  # an earlier try of this commit may still be under way
        self._warning = ""  # that the wait of a commit for its standby was cancelled
        self.connection = self._connect()

    def try_take(self) -> str:
        """Take the lease; return "" on success, else who has it."""
        self.connection.execute(
            "insert into covey_spaces (id) values (%s) on conflict do nothing", (self.space,)
        )
        sent = self.clock()
        given = {
            "node": self._node,
            "incarnation": self._incarnation,
            "lease_s": self.lease_s,
            "space": self.space,
        }
        row = self.connection.execute(TAKE, given).fetchone()
        if row is None:
            owner = self.connection.execute(OWNER, (self.space,)).fetchone()
            return "another broker" if owner is None or owner[0] is None else str(owner[0])
        self.number, self.epoch, self.tail = row
        self._extend(sent)
        self.connection.execute(f"set application_name = '{name_of(self.number)}'")
        end_former(self.connection, self.number, self.lease_s)
        return ""

    @property
    def hold(self) -> tuple[float, int, int, int]:
        """Return the parameters of HOLD, and so of FENCE."""
        return (self.lease_s, self.number, self.epoch, self.tail)

    def fenced(self) -> FencedError:
        """Return the error for an owner whose epoch is over."""
        return FencedError(f"virtual host {self.space}: epoch {self.epoch} is over, {FENCED}")

    def settle(self) -> bool:
        """Make sure of a working connection; return True if a commit in doubt was done.

        Raises StoreBusyError while the database cannot be reached, FencedError if another broker
        has taken over.
        """
        self._used = self.clock()
        if not self.connection.closed and not self._is_in_doubt:
            return False
        has_rested = self._wake()
        try:
            if not self.connection.closed:
                self.connection.close()
            self.connection = self._connect()
            if self._is_in_doubt:
                end_former(self.connection, self.number, self.lease_s)
            row = self.connection.execute(ASK, (self.number,)).fetchone()
        except psycopg.Error as error:
            pause(RECONNECT_PAUSE_S)
            raise StoreBusyError(f"the database does not answer: {one_line(error)}") from error
        if row is None:
            self.connection.close()
            pause(RECONNECT_PAUSE_S)
            raise StoreBusyError("the database is a standby now")
        if self._idle is not None and not has_rested:
            self._idle.reconnects += 1
        epoch, tail = row
        if epoch != self.epoch:
            raise self.fenced()
        was_in_doubt, self._is_in_doubt = self._is_in_doubt, False
        if tail == self.tail:
            self._is_retried = self._is_retried or was_in_doubt
            return False
        if (was_in_doubt or self._is_retried) and tail == self.tail + 1:
            self._is_retried = False
            self.tail = tail
            return True
        raise StoreError(
            f"virtual host {self.space}: the database has commit {tail}, {self.tail} was confirmed:"
            " it has lost commits, as a standby that is not synchronous does"
        )

    def reconnect(self) -> None:
        """Make sure of a working connection for a read, if it is closed.

        Raises StoreBusyError while a commit is in doubt. What `settle` finds out is for that commit
        alone, which asks when it is tried again. If a read asked first, it would be done twice.
        """
        self._used = self.clock()
        if not self.connection.closed:
            return
        if self._is_in_doubt:
            raise StoreBusyError("it is not known yet whether the last commit was done")
        self.settle()

    def committed(self, sent: float) -> None:
        """Called when a commit that was sent at that time was done; raises StoreError if unsafe."""
        self.tail += 1
        self._is_retried = False
        if self._warning:
            raise StoreError(f"a commit may be missing from the standby: {self._warning}")
        self._extend(sent)

    def failed(self, error: psycopg.Error | None) -> None:
        """Called when a commit was not done; returns if an earlier try of the same commit was.

        Raises what it means otherwise. `error` is None if the fence did not let it pass.
        """
        if error is not None:
            meaning = self.doubt(error)
            if isinstance(meaning, StoreBusyError):
                raise meaning from error
        try:
            row = self.connection.execute(ASK, (self.number,)).fetchone()
        except psycopg.Error as trouble:
            raise self.doubt(trouble) from trouble
        if row is None or row[0] != self.epoch:
            raise self.fenced() from error
        if not self._is_retried or row[1] != self.tail + 1:
            raise (self.fenced() if error is None else meaning) from error
        self._is_retried = False
        self.tail += 1

    def doubt(self, error: psycopg.Error) -> Exception:
        """Return what an error of a commit means for the store.

        If the connection is broken, `settle` asks before the next commit whether this one was done.
        """
        if isinstance(error, psycopg.errors.DivisionByZero):
            return self.fenced()
        if self.connection.closed or self.connection.broken:
            self._is_in_doubt = True
            return StoreBusyError(f"the database does not answer: {one_line(error)}")
        if is_passing(error):
            return StoreBusyError(one_line(error))
        return StoreError(one_line(error))

    def renew(self) -> None:
        """Renew the lease if that is due; called because the event loop asked for it."""
        if self._is_lost:
            raise self.fenced()
        if self._may_rest and not self._is_resting:
            self._lie_down()
        if self._idle is not None and self._is_resting:
            self._idle.ask(self)
            if self.is_renewal_due():
                self._idle.renew(self)
            if self._is_lost:
                raise self.fenced()
        elif self.is_renewal_due():
            self._renew_alone()

    def is_renewal_due(self) -> bool:
        """Return True if the lease should be renewed now."""
        return self.clock() >= self._renewed + self.lease_s / RENEW_SHARE

    def _renew_alone(self) -> None:
        used = self._used
        if self.settle():
            return
        self._used = used  # a renewal is no use
        sent = self.clock()
        try:
            count = self.connection.execute(RENEW, (self.lease_s, self.number, self.epoch)).rowcount
        except psycopg.Error as error:
            if self.connection.closed or self.connection.broken or is_passing(error):
                raise StoreBusyError(f"the database does not answer: {one_line(error)}") from error
            raise StoreError(one_line(error)) from error
        if count != 1:
            raise self.fenced()
        self._extend(sent)

    def rest(self) -> None:
        """Allow the lease to rest from now on: what a start reads was read."""
        self._may_rest = self._idle is not None
        self._used = -IDLE_S

    def rested(self, sent: float, *, is_held: bool) -> None:
        """Called when a statement that was sent at that time has renewed all resting leases."""
        if not self._is_resting:
            return
        if is_held:
            self._extend(sent)
        else:
            self._is_lost = True

    def leave(self) -> None:
        """End the lease, so that another broker can take it at once."""
        if self._is_resting:
            self.settle()
        if not self.connection.closed:
            self.connection.execute(LEAVE, (self.number, self.epoch))

    def close(self) -> None:
        """Let go of the connection."""
        self._wake()
        self.valid_until = 0.0
        self.connection.close()

    def _lie_down(self) -> None:
        """Rest, if nothing happened for a while."""
        if self._is_in_doubt or self.clock() < self._used + IDLE_S:
            return
        self.connection.close()
        self._is_resting = True

    def _wake(self) -> bool:
        """End the rest, and return True if there was one."""
        has_rested, self._is_resting = self._is_resting, False
        if has_rested and self._idle is not None:
            self._idle.forget(self)
        return has_rested

    def _connect(self) -> Connection:
        self._warning = ""
        connection = connect(self._dsn, self.lease_s, name_of(self.number))
        connection.add_notice_handler(self._hear)
        return connection

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.source_function == CANCELLED_WAIT:
            self._warning = notice.message_primary or CANCELLED_WAIT

    def _extend(self, sent: float) -> None:
        self._renewed = sent
        self.valid_until = sent + self.lease_s * VALID_SHARE


def connect(dsn: str, lease_s: float, name: str = "covey") -> Connection:
    """Open a connection with the settings that the store needs; the server shows its `name`."""
    wait_ms = int(lease_s * 1000)
    patience_ms = max(1000, wait_ms // 2)
    connection: Connection = psycopg.connect(
        dsn,
        autocommit=True,
        prepare_threshold=1,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name=name,
        keepalives_idle=2,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=patience_ms,
    )
    # Never cancel a commit that waits for its standby: it would be visible, but not safe.
    connection.execute("set statement_timeout = 0")
    connection.execute("set synchronous_commit = on")
    connection.execute(f"set idle_in_transaction_session_timeout = {wait_ms}")
    with suppress(psycopg.Error):  # a database that only speaks PostgreSQL's protocol has none
        # The server, too, is to notice soon that the machine at the other end is gone.
        connection.execute(
            "set tcp_keepalives_idle = 2; set tcp_keepalives_interval = 1;"
            f" set tcp_keepalives_count = 3; set tcp_user_timeout = {patience_ms}"
        )
    return connection


def pause(seconds: float) -> None:
    """Let time pass on this thread."""
    Event().wait(seconds)


def is_passing(error: psycopg.Error) -> bool:
    """Return True if the same may work later: no room, too many connections, a lock, a shutdown."""
    state = error.sqlstate or ""
    return state[:2] in ("40", "53", "55", "57") or state == "25006"


def one_line(error: Exception) -> str:
    """Return an error's text without its line breaks, and without the query that it is about."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((said or str(error)).split()) or type(error).__name__
