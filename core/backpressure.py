"""Backpressure: which producers wait, and for what.

A session is blocked while one of its messages finds no room (`core.session`); most such waits are
over in a moment and only counted. One that lasts is told to the audit, once, with its reason; the
connection's record shows it all the time (`blocked_on`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.core.audit import Audit
from covey.core.session import Session

TOLD_AFTER_S: Final = 1.0  # a shorter wait is the flow control at work and no news


def look_for_blocked(sessions: Iterable[Session], audit: Audit, now: float) -> None:
    """Tell of producers that have been waiting for a while."""
    for session in sessions:
        waited_s = now - session.blocked_since
        if session.is_blocked and not session.is_block_told and waited_s >= TOLD_AFTER_S:
            session.is_block_told = True
            audit.producer_blocked(
                session.identity.name, session.remote, session.blocked_on, waited_s
            )
