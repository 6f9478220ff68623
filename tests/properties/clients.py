"""Clients and messages, as the referee knows them: what it keeps of each, and nothing of the queue.

`law.py` has the questions one may ask of them, `referee.py` what changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Slip:
    """A message as the referee knows it."""

    seq: int
    group: str
    size: int
    colour: str
    closes: bool
    expires_ms: int
    state: str
    holder: int = 0
    deliveries: int = 0
    away_until: float = 0.0
    was_delivered: bool = False
    is_out: bool = False  # its body is out of memory
    since: float = 0.0  # when its holder got it


@dataclass(slots=True, eq=False)
class Client:
    """A consumer as the referee knows it."""

    number: int
    count: int
    size: int
    priority: int = 0
    weight: int = 1
    colour: str = ""  # its selector: the one colour it wants
    from_seq: int = 0
    unsettled_max: int = 100_000
    client_id: str = ""
    is_exclusive: bool = False
    is_presettled: bool = False
    is_paused: bool = False
    is_retiring: bool = False
    absent_until: float = 0.0  # above 0: gone, but its groups wait for its return
    held: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)  # what it must not get again
    deadline_s: float = 0.0  # how long it may hold a message; 0: for ever
    heard_at: float = 0.0  # when it last settled something
    is_overdue: bool = False
    group_asked: str = ""  # the one group it wants, or the next free one
    claimed: str = ""  # the one it has
    is_seeking: bool = False  # it waits for a free one
    is_done: bool = False  # the one it had is empty

    def is_willing(self) -> bool:
        has_credit = self.count > 0 or self.size > 0
        may_take = not (self.is_paused or self.is_overdue or self.is_done)
        return has_credit and may_take and len(self.held) < self.unsettled_max
