"""Rounds: what is looked at every few seconds, whatever happens meanwhile.

Queues and topics that are empty and unused, traces that nobody asks for any more, clients that do
not read, producers that have to wait. And memory, whenever the server has weighed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.backpressure import look_for_blocked
from covey.core.slowness import look_for_slow

if TYPE_CHECKING:
    from covey.core.broker import Broker

EVERY_S: Final = 5.0  # short against the shortest patience that a setting may ask for


class Rounds:
    """When somebody last looked around."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last = 0.0

    def make(self, now: float) -> None:
        """Look around, unless it was done a moment ago."""
        if now - self._last < EVERY_S:
            return
        self._last = now
        broker = self._broker
        for host in broker.hosts:
            host.sweep()
        broker.traces.sweep(broker.limits.trace_idle_s, now)
        sessions = list(broker.sessions.values())
        look_for_slow(sessions, broker.limits, broker.audit, now)
        look_for_blocked(sessions, broker.audit, now)

    def weigh(self, used: int) -> None:
        """Hear how many bytes of memory the process uses, and let producers wait if need be."""
        broker = self._broker
        limits = broker.limits
        allowed = limits.memory_limit * limits.memory_alarm_percent // 100
        is_any = any(
            queue.board.index.count for host in broker.hosts for queue in host.all_queues()
        )
        broker.commits.dam.weigh(used, allowed if is_any else 0)
