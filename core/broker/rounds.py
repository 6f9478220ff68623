"""Rounds: what is checked every few seconds, whatever happens meanwhile.

A round checks queues and topics that are empty and unused, traces that nobody asks for any more,
clients that do not read, and producers that have to wait. Memory is checked whenever the server
has measured it.

A producer waits while one of its messages finds no room (`core.session`). Most such waits are over
in a moment and are only counted. A wait that lasts is told to the audit once, with its reason. The
connection's record shows every wait (`blocked_on`).

A client is slow once its outbox has been full for `slow_consumer_s`. The client was sent more than
it reads, and nobody else gets the messages that it holds. A slow client is told to the audit once
each time, shown in the connection's record (`unread_s`), and cut off if `slow_consumer_kill` is on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from covey.config.settings import BrokerSettings
from covey.core.events.audit import Audit
from covey.core.session import Session

if TYPE_CHECKING:
    from covey.core.broker.broker import Broker


TOLD_AFTER_S: Final = 1.0  # a shorter wait is normal flow control


def look_for_blocked(sessions: Iterable[Session], audit: Audit, now: float) -> None:
    """Tell the audit of producers that have been waiting for a while."""
    for session in sessions:
        waited_s = now - session.blocked_since
        if session.is_blocked and not session.is_block_told and waited_s >= TOLD_AFTER_S:
            session.is_block_told = True
            audit.producer_blocked(
                session.identity.name, session.remote, session.blocked_on, waited_s
            )


def look_for_slow(
    sessions: Iterable[Session], limits: BrokerSettings, audit: Audit, now: float
) -> None:
    """Tell the audit of clients that do not read, and cut them off if the settings say so."""
    if not limits.slow_consumer_s:
        return
    for session in sessions:
        waited_s = session.paused_s(now)
        if waited_s < limits.slow_consumer_s or session.is_slow:
            continue
        session.is_slow = True
        audit.slow_consumer(session.identity.name, session.remote, waited_s)
        if limits.slow_consumer_kill:
            session.kick(f"slow consumer: it has not read for {waited_s:.0f} s")


EVERY_S: Final = 5.0  # much less than the shortest wait that a setting allows


class Rounds:
    """Makes the rounds of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last = 0.0
        self._used = 0  # bytes of memory, when they were last counted

    def make(self, now: float) -> None:
        """Make a round, unless the last one was less than EVERY_S ago."""
        if now - self._last < EVERY_S:
            return
        self._last = now
        broker = self._broker
        broker.host.sweep()
        broker.traces.sweep(broker.limits.trace_idle_s, now)
        sessions = list(broker.sessions.values())
        look_for_slow(sessions, broker.limits, broker.audit, now)
        look_for_blocked(sessions, broker.audit, now)

    def weigh(self, used: int) -> None:
        """Called when the process's memory was measured: make producers wait if it is too much."""
        self._used = used
        broker = self._broker
        allowed = broker.shared.memory_allowed(broker.limits)
        # To look for a message goes through all queues: only where it matters, not each second.
        is_short = 0 < allowed < used and broker.shared.holds_messages
        broker.commits.overload.weigh(used, allowed if is_short else 0)
        if broker.commits.pager is not None:
            broker.commits.pager.look_again()

    def weigh_again(self) -> None:
        """Compare the last measurement with the limits again: they may have changed."""
        self.weigh(self._used)
