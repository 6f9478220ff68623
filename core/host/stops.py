"""Stops: what is stopped in one virtual host: groups parked, queues paused, rests that die.

A stop lasts until somebody ends it: over a restart, over a fail-over, without messages, and even if
its queue was swept away and is made again. Each stop is a named record of the store
(`core.storage.ledger`): the queue, which part of it is stopped, who stopped it, when and why. The
records of a queue are deleted with it. Groups that were parked after failures are not kept here.

| kind    | which part of a queue is stopped                         |
|---------|----------------------------------------------------------|
| `park`  | one group, by its name                                   |
| `pause` | one way: "in" for producers, "out" for consumers         |
| `rest`  | one group: what is left of it follows its dead message   |

The stop of a rest ends when all of the rest is dead. A restart before that goes on with the work,
so that nothing behind the failure is processed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.state import ParkRecord

if TYPE_CHECKING:
    from covey.core.storage.ledger import Ledger

PARK: Final = "park"
PAUSE: Final = "pause"
REST: Final = "rest"


class Stops:
    """The stops of one kind in one virtual host, by queue and part."""

    def __init__(self, kind: str, host_id: str, ledger: Ledger | None) -> None:
        self._kind = kind
        self._host_id = host_id
        self._ledger = ledger
        self._queues: dict[str, dict[str, ParkRecord]] = {}

    def recall(self) -> None:
        """Take over the store's records; called before queues are made."""
        if self._ledger is None:
            return
        for key, value in self._ledger.records_of(self._host_id, self._kind).items():
            queue, part = json.loads(key)
            told = json.loads(value)
            record = ParkRecord(told.get("by", ""), told.get("at_ms", 0), told.get("why", ""))
            self._queues.setdefault(queue, {})[part] = record

    def queues(self) -> list[str]:
        """Return the names of the queues that have stops."""
        return [queue for queue, parts in self._queues.items() if parts]

    def of(self, queue: str) -> dict[str, ParkRecord]:
        """Return the stopped parts of a queue."""
        return dict(self._queues.get(queue, {}))

    def keep(self, queue: str, part: str, record: ParkRecord) -> None:
        """Remember that a part was stopped."""
        self._queues.setdefault(queue, {})[part] = record
        if self._ledger is not None:
            told = {"by": record.by, "at_ms": record.at_ms, "why": record.why}
            self._ledger.put(self._host_id, self._kind, _key(queue, part), json.dumps(told))

    def end(self, queue: str, part: str) -> None:
        """Forget the stop of a part, if there is one."""
        parts = self._queues.get(queue, {})
        if parts.pop(part, None) is not None and self._ledger is not None:
            self._ledger.take_away(self._host_id, self._kind, _key(queue, part))

    def forget(self, queue: str) -> None:
        """Forget all stops of a queue that was deleted."""
        for part in list(self._queues.get(queue, {})):
            self.end(queue, part)
        self._queues.pop(queue, None)


def _key(queue: str, part: str) -> str:
    return json.dumps([queue, part])
