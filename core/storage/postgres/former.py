"""Former connections: those of a virtual host that have no client any more, but still hold locks.

A commit puts its fence last, so a client that freezes or breaks before it holds no lock on the row
of the virtual host. But what it has copied to the tables so far is locked, and whoever copies the
same messages waits for it: the next owner, which reads them from the journal, or the same owner on
its next connection. The server ends a transaction between two statements after the time of a lease.
In the middle of a COPY it would wait for ever.

So each connection has a name that tells its virtual host, and a broker that begins to write ends
the transactions of others with that name that wait for their client. What waits for its client does
not commit: a commit that waits for its standby is left alone, and one that is under way is waited
for.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import Final

import psycopg

from covey.core.storage.postgres.schema import Connection

LOOK_S: Final = 0.02
PATIENCE_MAX_S: Final = 5.0
# Who waits for a lock or a standby is not counted: it may take long, and the fence decides then.
END: Final = """
    select case when wait_event = 'ClientRead' then pg_terminate_backend(pid) end
    from pg_stat_activity
    where application_name = %s and datname = current_database() and pid <> pg_backend_pid()
        and xact_start is not null and coalesce(wait_event_type, '') <> 'Lock'
        and coalesce(wait_event, '') <> 'SyncRep'
"""


def name_of(number: int) -> str:
    """Return the name of the connections that write a virtual host; it shows in the server."""
    return f"covey space {number}" if number else "covey"


def end_former(connection: Connection, number: int, lease_s: float) -> None:
    """End what others have begun to write to a virtual host and cannot finish."""
    looks = int(min(lease_s, PATIENCE_MAX_S) / LOOK_S)
    with suppress(psycopg.Error):  # it may be forbidden: then what is locked is waited for
        while connection.execute(END, (name_of(number),)).fetchall() and looks > 0:
            looks -= 1
            Event().wait(LOOK_S)
