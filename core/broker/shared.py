# Compiled by mypyc: see setup.py.
"""Shared: what all brokers of one process have in common.

A broker serves one virtual host, with a store of its own. A process may have several of them. They
share the clock, the users, and every limit that bounds the process: connections, bodies in memory,
bytes on their way to the disk. So a limit holds however many virtual hosts there are. A user's
failed logins are counted together, whichever virtual host they were for.

A broker that is made without a `Shared` makes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.config.settings import BrokerSettings, Settings
from covey.core.clock import Clock
from covey.core.events.audit import Audit, Unheard
from covey.core.jobs.turn_length import TurnLengths
from covey.core.security.throttle import throttle_of
from covey.core.security.users import Users
from covey.core.storage.overload import Unwritten
from covey.core.storage.paging import BodiesInMemory

if TYPE_CHECKING:
    from covey.core.broker.broker import Broker
    from covey.core.broker.cluster import Cluster
    from covey.core.session import Session

Entries = dict[str, dict[str, dict[str, object]]]  # kind, name, fields (management.overlay)
EntryChanged = Callable[[str, str, dict[str, object] | None], None]  # None: it was removed


class Shared:
    """The clock, the users and the counts of one process."""

    def __init__(
        self,
        settings: Settings,
        audit: Audit | None = None,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        """Begin with no broker; `stopwatch` tells the time within a turn."""
        self.file_settings = settings  # without what is set at run time (management.overlay)
        self.audit = audit or Unheard()
        self.stopwatch = stopwatch
        self.turn_lengths = TurnLengths(stopwatch, self.audit)
        self.clock = Clock()
        self.users = Users(
            settings.users,
            settings.permissions,
            throttle=throttle_of(settings.broker),
            clock=self.clock,
            audit=self.audit,
        )
        self.unwritten = Unwritten()
        self.bodies = BodiesInMemory()
        self.sessions: dict[int, Session] = {}  # of all brokers
        self.session_numbers = 0
        self.brokers: list[Broker] = []
        self.cluster: Cluster | None = None  # the other brokers of a shared database
        self.elsewhere: dict[str, Entries] = {}  # set at run time in other processes, by their name
        self.entry_changed: EntryChanged = _nobody  # hears what is set here
        self.memory = 0  # bytes that the process may have by the system; 0: nobody knows
        self.build = ""  # whether the process runs compiled; the server knows

    def new_session_number(self) -> int:
        """Return a number that no connection of this process has had."""
        self.session_numbers += 1
        return self.session_numbers

    def memory_allowed(self, limits: BrokerSettings) -> int:
        """Return the bytes of memory from which on producers wait; 0: there is no such limit."""
        return (limits.memory_limit or self.memory) * limits.memory_alarm_percent // 100

    @property
    def holds_messages(self) -> bool:
        """Return True if any queue of any broker holds a message."""
        return any(
            queue.state.index.count for broker in self.brokers for queue in broker.host.all_queues()
        )

    def part_with(self, broker: Broker) -> None:
        """Take a broker that has ended out of all counts."""
        self.brokers.remove(broker)
        for number in broker.sessions:
            self.sessions.pop(number, None)
        broker.commits.overload.leave()
        for queue in broker.host.all_queues():
            self.bodies.total -= queue.storage_state.counted


def _nobody(kind: str, name: str, fields: dict[str, object] | None) -> None:
    """Tell nobody: this process is alone."""
