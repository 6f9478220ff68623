"""Slowness: which clients do not read what is meant for them.

A client is slow while its outbox has been full for `slow_consumer_s`: it was sent more than it
reads, and what it holds nobody else gets. It is told to the audit once each time, shown in the
connection's record (`unread_s`), and cut off if `slow_consumer_kill` says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from covey.config.settings import BrokerSettings
from covey.core.audit import Audit
from covey.core.session import Session


def look_for_slow(
    sessions: Iterable[Session], limits: BrokerSettings, audit: Audit, now: float
) -> None:
    """Tell of clients that do not read, and cut them off if that is wanted."""
    if not limits.slow_consumer_s:
        return
    for session in sessions:
        waited_s = session.paused_s(now)
        if waited_s < limits.slow_consumer_s or session.is_slow:
            continue
        session.is_slow = True
        audit.slow_consumer(session.identity.name, session.remote, waited_s)
        if limits.slow_consumer_kill and session.kick is not None:
            session.kick(f"slow consumer: it has not read for {waited_s:.0f} s")
