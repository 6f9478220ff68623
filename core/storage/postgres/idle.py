"""Idle leases: virtual hosts to which nothing happens share one connection of their broker.

A virtual host that commits has a connection of its own. After IDLE_S without a commit or a read it
closes that connection, and its lease *rests*: it is renewed over a connection that all resting
leases share, and one statement renews all of them. So a hundred idle virtual hosts do not take a
hundred of the server's connections. The next commit or read opens a connection again, and asks for
`(epoch, tail)` as after a break.

The rules of a lease hold here, too:
- A lease is renewed only if its own thread has asked since the last time, and the thread asks only
  because the event loop does. So a loop or a thread that hangs loses its lease.
- A lease that has work does not rest: who cannot commit cannot renew.
- A virtual host that another broker has taken is missing in the statement's answer. It alone ends.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

import psycopg

from covey.core.errors import StoreBusyError
from covey.core.storage.postgres.lease import Lease, connect, one_line
from covey.core.storage.postgres.schema import Connection

AGAIN_S: Final = 0.5  # after a failure, until the server is asked again

RENEW_ALL: Final = """
    update covey_spaces s set expires = clock_timestamp() + make_interval(secs => %s)
    from unnest(%s::int[], %s::bigint[]) as x (number, epoch)
    where s.number = x.number and s.epoch = x.epoch returning s.number
"""


class IdleLeases:
    """The resting leases of one process; threads of different virtual hosts call it."""

    def __init__(self, dsn: str, lease_s: float, clock: Callable[[], float]) -> None:
        """Do not connect yet; `clock` is the monotonic clock."""
        self.reconnects = 0  # new connections after a break, those of single leases, too
        self._dsn = dsn
        self._lease_s = lease_s
        self._clock = clock
        self._lock = Lock()
        self._asking: dict[int, Lease] = {}  # by number: they have asked since the last renewal
        self._connection: Connection | None = None
        self._again_at = 0.0  # after a failure
        self._failure = ""

    def ask(self, lease: Lease) -> None:
        """Have a lease renewed with the next statement."""
        self._asking[lease.number] = lease

    def forget(self, lease: Lease) -> None:
        """Do not renew a lease any more: it has work, or it ends."""
        self._asking.pop(lease.number, None)

    def renew(self, lease: Lease) -> None:
        """Renew all leases that have asked, unless another thread has just renewed this one.

        Raises StoreBusyError while the database cannot be reached.
        """
        with self._lock:
            if not lease.is_renewal_due():
                return
            sent = self._clock()
            if sent < self._again_at:  # the others that waited need not try, too
                raise StoreBusyError(self._failure)
            asking = dict(self._asking)
            try:
                held = self._renewed(asking)
            except psycopg.Error as error:
                self._again_at = self._clock() + AGAIN_S
                self._failure = f"the database does not answer: {one_line(error)}"
                self._let_go()
                raise StoreBusyError(self._failure) from error
            for number, each in asking.items():
                self._asking.pop(number, None)
                each.rested(sent, is_held=number in held)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._let_go()

    def _renewed(self, leases: dict[int, Lease]) -> set[int]:
        """Renew leases; return the numbers of those that are still ours."""
        if self._connection is None:
            self._connection = connect(self._dsn, self._lease_s)
        epochs = [each.epoch for each in leases.values()]
        rows = self._connection.execute(RENEW_ALL, (self._lease_s, list(leases), epochs)).fetchall()
        return {number for (number,) in rows}

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self.reconnects += 1
