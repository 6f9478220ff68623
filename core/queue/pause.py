# Compiled by mypyc: see setup.py.
"""Pause: a queue that an operator has stopped, for its producers, its consumers, or both.

| way | what stands still                                                                       |
|-----|-----------------------------------------------------------------------------------------|
| in  | a sender waits as for a full queue; with `full_policy = "reject"` it is told no          |
| out | nothing is handed out; what consumers hold may be settled, and browsers look             |

A pause does not stop messages that the broker has taken already: a delayed message that is due, a
dead letter, a message that comes back. Messages of a paused queue expire as ever. An operator's
commands on messages and groups work all the same. Only the operator ends a pause, so it is kept
over a restart (`core.host.stops`).
"""

from __future__ import annotations

from typing import Final

from covey.core.dispatch.state import ParkRecord

IN: Final = "in"
OUT: Final = "out"
BOTH: Final = "both"
WAYS: Final[dict[str, tuple[str, ...]]] = {IN: (IN,), OUT: (OUT,), BOTH: (IN, OUT)}
BITS: Final[dict[str, int]] = {IN: 1, OUT: 2, BOTH: 3}  # as the event log has them


class Pause:
    """Which ways of one queue stand still, and who stopped them."""

    __slots__ = ("coming", "going")

    def __init__(self) -> None:
        self.coming: ParkRecord | None = None  # who stopped the producers
        self.going: ParkRecord | None = None  # who stopped the consumers

    def set(self, way: str, record: ParkRecord | None) -> None:
        """Stop one way or both, or (None) let them go on."""
        for one in WAYS[way]:
            if one == IN:
                self.coming = record
            else:
                self.going = record

    def records(self) -> list[tuple[str, ParkRecord]]:
        """Return each way that stands still, with who stopped it."""
        found = ((IN, self.coming), (OUT, self.going))
        return [(way, record) for way, record in found if record is not None]

    @property
    def way(self) -> str:
        """Return what stands still: "in", "out", "both", or "" for nothing."""
        if self.coming is not None:
            return IN if self.going is None else BOTH
        return "" if self.going is None else OUT


def why_stopped(record: ParkRecord) -> str:
    """Return a text that says who paused the queue, and why."""
    by = f"paused by {record.by}" if record.by else "paused"
    return f"{by}: {record.why}" if record.why else by
