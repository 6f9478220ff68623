# Compiled by mypyc: see setup.py.
"""Consumers of a simulated queue: who works, who is next, and which lanes each may take from.

WorkerPool knows the workers, present and gone. A worker is willing while it holds fewer than
`credit` messages. A new lane goes to the willing worker with the least load. If two have the same
load, it goes to the one that has waited longest for a new lane. A message without a group goes to
the willing worker with the fewest messages so far. Workers are numbered as they come, from 1.

ReadyLanes lists the first message of each lane that can be taken. The message is listed with the
lane's owner, or as free if nobody owns the lane. The oldest comes first. An entry can become wrong:
its message is gone, or its lane has another owner. A wrong entry stays until it is on top.
"""

from __future__ import annotations

from heapq import heappop, heappush

from covey.groups.simulation.parts import NEVER, Lane, Worker
from covey.groups.strategy import FREE, GroupStrategy


class WorkerPool:
    """The workers, present and gone."""

    __slots__ = ("_credit", "_followers", "_strategy", "everybody", "present")

    def __init__(self, strategy: GroupStrategy, credit: int, followers: list[int]) -> None:
        self.present: dict[int, Worker] = {}
        self.everybody: list[Worker] = []
        self._strategy = strategy
        self._credit = credit
        self._followers = followers

    def join(self, now: float) -> Worker:
        """Let one more worker in."""
        worker = Worker(len(self.everybody) + 1, now, self._followers)
        self.everybody.append(worker)
        self.present[worker.id] = worker
        return worker

    def leave_first(self, now: float) -> Worker | None:
        """Let the first worker go, if another stays."""
        if len(self.present) < 2:
            return None
        leaver = next(iter(self.present.values()))
        del self.present[leaver.id]
        leaver.is_gone = True
        leaver.finishes_at = NEVER
        leaver.present_s = now - leaver.began
        return leaver

    def first_to_finish(self) -> Worker:
        """Return the worker whose message is done next; of two, the one that began first."""
        first = self.everybody[-1]
        for worker in self.everybody:
            if worker.finishes_at < first.finishes_at or (
                worker.finishes_at == first.finishes_at and worker.started < first.started
            ):
                first = worker
        return first

    def least_loaded(self) -> Worker | None:
        """Return the willing worker with the least load, longest without a new lane."""
        best: Worker | None = None
        least = 0
        is_sticky = self._strategy.is_sticky
        for worker in self.present.values():
            if worker.held.count < self._credit:
                load = worker.lanes if is_sticky else self._strategy.load(worker.id)
                if (
                    best is None
                    or load < least
                    or (load == least and worker.assigned < best.assigned)
                ):
                    best, least = worker, load
        return best

    def least_served(self, willing: Worker) -> Worker:
        """Return the willing worker with the fewest messages so far; `willing` is one."""
        for worker in self.present.values():
            if worker.held.count < self._credit and worker.served < willing.served:
                willing = worker
        return willing


class ReadyLanes:
    """The lanes whose first message can be taken."""

    __slots__ = ("_groups", "_lanes", "free")

    def __init__(self, lanes: list[Lane], groups: list[int]) -> None:
        """Keep the lanes; `groups` has each message's group number, which finds its lane."""
        self.free: list[int] = []  # heads of lanes that nobody owns
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
