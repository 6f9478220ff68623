"""Heads: the first messages of a model's lanes, where whoever may take them looks.

A lane's head is listed with its owner, or as free if nobody owns it, oldest first. An entry that
has become wrong (its message is gone, or its lane another's) stays, and dies when it is on top.
"""

from __future__ import annotations

from heapq import heappop, heappush

from covey.groups.base import FREE
from covey.groups.model_parts import Lane, Worker


class Heads:
    """What is to be taken next."""

    __slots__ = ("_groups", "_lanes", "free")

    def __init__(self, lanes: list[Lane], groups: list[int]) -> None:
        """Find a message's lane by `groups`, its group's number."""
        self.free: list[int] = []  # of lanes nobody owns
        self._lanes = lanes
        self._groups = groups

    def add(self, lane: Lane, owner: Worker | None) -> None:
        """List the head of a lane that has one."""
        heappush(self.free if owner is None else owner.ready, lane.messages.first)

    def best_ready(self, worker: Worker) -> Lane | None:
        """Return the lane with the oldest head that only this worker may take."""
        ready = worker.ready
        while ready:
            head = ready[0]
            lane = self._lanes[self._groups[head]]
            if (
                lane.owner == worker.id
                and lane.messages.count
                and lane.messages.first == head
                and (lane.unsettled == 0 or lane.holder == worker.id)
            ):
                return lane
            heappop(ready)
        return None

    def best_free(self) -> Lane | None:
        """Return the free lane with the oldest head."""
        free = self.free
        while free:
            head = free[0]
            lane = self._lanes[self._groups[head]]
            if lane.owner == FREE and lane.messages.count and lane.messages.first == head:
                return lane
            heappop(free)
        return None
