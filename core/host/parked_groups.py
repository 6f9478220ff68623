"""ParkedGroups: the groups of one virtual host that were parked by command.

A group that somebody parked stays so until somebody un-parks it: over a restart, over a fail-over,
without messages, and even if its queue went away unused and is made again. Each is a named record
of the store (`core.storage.ledger`) with the queue, the group, who parked it, when and why. A queue
that is deleted takes its records with it. Groups that failures have parked are not among these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.state import ParkRecord

if TYPE_CHECKING:
    from covey.core.storage.ledger import Ledger

KIND: Final = "park"


class ParkedGroups:
    """What is parked in one virtual host, by queue and group."""

    def __init__(self, host_id: str, ledger: Ledger | None) -> None:
        self._host_id = host_id
        self._ledger = ledger
        self._queues: dict[str, dict[str, ParkRecord]] = {}

    def recall(self) -> None:
        """Take over what the store has; called before queues are made."""
        if self._ledger is None:
            return
        for key, value in self._ledger.records_of(self._host_id, KIND).items():
            queue, group = json.loads(key)
            told = json.loads(value)
            record = ParkRecord(told.get("by", ""), told.get("at_ms", 0), told.get("why", ""))
            self._queues.setdefault(queue, {})[group] = record

    def of(self, queue: str) -> dict[str, ParkRecord]:
        """Return the parked groups of a queue."""
        return dict(self._queues.get(queue, {}))

    def park(self, queue: str, group: str, record: ParkRecord) -> None:
        """Remember that a group was parked."""
        self._queues.setdefault(queue, {})[group] = record
        if self._ledger is not None:
            told = {"by": record.by, "at_ms": record.at_ms, "why": record.why}
            self._ledger.put(self._host_id, KIND, _key(queue, group), json.dumps(told))

    def unpark(self, queue: str, group: str) -> None:
        """Forget it, if it was."""
        groups = self._queues.get(queue, {})
        if groups.pop(group, None) is not None and self._ledger is not None:
            self._ledger.take_away(self._host_id, KIND, _key(queue, group))

    def forget(self, queue: str) -> None:
        """Forget all groups of a queue that was deleted."""
        for group in list(self._queues.get(queue, {})):
            self.unpark(queue, group)
        self._queues.pop(queue, None)


def _key(queue: str, group: str) -> str:
    return json.dumps([queue, group])
