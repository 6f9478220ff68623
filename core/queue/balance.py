# Compiled by mypyc: see setup.py.
"""Balance: moves as few groups as possible to other consumers, for an even load.

`plan` says which groups a rebalance would move. Only strategies that remember owners have something
to move (`GroupStrategy.is_sticky`). The unit that moves is a group. With `hash-buckets` it is a
bucket with all its groups. Each consumer shall have a share by its weight: of the units with
messages, and of those without. A consumer with more than its share gives the surplus to those with
less. Nothing else moves, so caches stay warm. Units without unsettled messages leave a consumer
first, since they need not drain. Then come those with the fewest waiting messages. Of the units
that move, the one with the most waiting messages goes to the consumer with the fewest.

`Balancer` carries the plan out: at once by command, or some time after a consumer has joined
(`rebalance_after_s`), so many groups a second (`rebalance_rate`).

It also moves a group that waits only because its owner has no credit (`spill_after_ms`). None of
the group's messages may be unsettled. The group goes to a willing consumer. With a sticky strategy
it stays there, with `hash-buckets` together with its bucket. With `consistent-hash` it stays there
until it is empty.

A group changes its owner at once. The gate (`core.dispatch.lane`) makes the group wait, as ever,
until the old owner has settled what it holds.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.lane import READY, Lane
from covey.core.events.event import EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry

if TYPE_CHECKING:
    from covey.core.queue.queue import Queue


IDLE_LOOKED_AT: Final = 100_000  # at most so many units without messages: some 50 ms


class Unit:
    """What moves as one: a group, or a bucket of groups."""

    __slots__ = ("is_out", "key", "lanes", "owner", "waiting")

    def __init__(self, key: str, owner: Consumer) -> None:
        self.key = key  # the strategy's name for it (`unit_of`)
        self.owner = owner
        self.lanes: list[Lane] = []
        self.waiting = 0  # messages that no consumer holds
        self.is_out = False  # some of its messages are unsettled


class Step:
    """One unit that goes from one consumer to another."""

    __slots__ = ("target", "unit")

    def __init__(self, unit: Unit, target: Consumer) -> None:
        self.unit = unit
        self.target = target


def plan(queue: Queue) -> list[Step]:
    """Return the moves after which each consumer has its share."""
    state = queue.state
    if not state.strategy.is_sticky:
        return []
    takers = [
        each
        for each in state.consumers.values()
        if not (each.is_barred or each.is_retiring or each.group_asked) and each.view is not None
    ]
    if len(takers) < 2:
        return []
    busy = _units(queue)
    idle = _idle(queue, takers, busy)
    counts = dict.fromkeys([each.id for each in takers], 0)
    steps = _evened(takers, list(busy.values()), counts)
    for unit in busy.values():
        if unit.owner.id in counts:
            counts[unit.owner.id] += 1
    for step in steps:
        counts[step.unit.owner.id] -= 1
        counts[step.target.id] += 1
    return steps + _evened(takers, idle, counts)


def groups_with_messages(steps: list[Step]) -> int:
    """Count the groups with messages that these steps move."""
    return sum([len(step.unit.lanes) for step in steps])


def _first_of(steps: list[Step], most: int) -> list[Step]:
    """Return the first steps that move so many groups with messages together; 0: all steps."""
    taken: list[Step] = []
    moved = 0
    for step in steps:
        if 0 < most <= moved:
            break
        moved += len(step.unit.lanes)
        taken.append(step)
    return taken


def _evened(takers: list[Consumer], units: list[Unit], counts: dict[int, int]) -> list[Step]:
    """Return which of the units must move; `counts` says how many others each consumer has."""
    owned: dict[int, list[Unit]] = {each.id: [] for each in takers}
    for unit in units:
        if unit.owner.id in owned:
            owned[unit.owner.id].append(unit)
    shares = _shares(takers, {each: len(own) + counts[each] for each, own in owned.items()})
    for number, count in counts.items():
        shares[number] = max(0, shares[number] - count)
    moving: list[Unit] = []
    for taker in takers:
        own = owned[taker.id]
        surplus = len(own) - shares[taker.id]
        if surplus > 0:
            own.sort(key=_cost)
            moving += own[:surplus]
            owned[taker.id] = own[surplus:]
    return _shared_out(takers, owned, shares, moving)


def _idle(queue: Queue, takers: list[Consumer], busy: dict[str, Unit]) -> list[Unit]:
    """Return the units without messages, looking at `IDLE_LOOKED_AT` at most."""
    known = {each.id: each for each in takers}
    found: list[Unit] = []
    for key, number in islice(queue.state.strategy.remembered(), IDLE_LOOKED_AT):
        owner = known.get(number)
        if owner is not None and key not in busy:
            found.append(Unit(key, owner))
    return found


def _units(queue: Queue) -> dict[str, Unit]:
    strategy = queue.state.strategy
    units: dict[str, Unit] = {}
    for lane in queue.state.lanes.values():
        owner = lane.owner
        if owner is None or lane.count == 0 or owner.group:
            continue
        key = strategy.unit_of(lane.name)
        unit = units.get(key)
        if unit is None:
            unit = units[key] = Unit(key, owner)
        unit.lanes.append(lane)
        unit.waiting += lane.count - lane.unsettled
        unit.is_out = unit.is_out or lane.unsettled > 0
    return units


def _shares(takers: list[Consumer], counts: dict[int, int]) -> dict[int, int]:
    """Return how many each shall have; the remainder goes to those who have most already."""
    total = sum(counts.values())
    weights = sum([each.weight for each in takers])
    shares = {each.id: total * each.weight // weights for each in takers}
    left = total - sum(shares.values())
    richest = sorted(takers, key=lambda each: shares[each.id] - counts[each.id])
    for taker in richest[:left]:
        shares[taker.id] += 1
    return shares


def _shared_out(
    takers: list[Consumer],
    owned: dict[int, list[Unit]],
    shares: dict[int, int],
    moving: list[Unit],
) -> list[Step]:
    """Give the unit with most waiting to the consumer with least waiting that has room; repeat."""
    line: list[tuple[float, int, Consumer]] = []
    room: dict[int, int] = {}
    for taker in takers:
        room[taker.id] = shares[taker.id] - len(owned[taker.id])
        if room[taker.id] > 0:
            waiting = sum([unit.waiting for unit in owned[taker.id]])
            heappush(line, (waiting / taker.weight, taker.id, taker))
    steps: list[Step] = []
    moving.sort(key=_weight)
    for unit in reversed(moving):
        waiting_each, number, taker = heappop(line)
        steps.append(Step(unit, taker))
        room[number] -= 1
        if room[number] > 0:
            heappush(line, (waiting_each + unit.waiting / taker.weight, number, taker))
    return steps


def _cost(unit: Unit) -> tuple[bool, int]:
    return (unit.is_out, unit.waiting)


def _weight(unit: Unit) -> int:
    return unit.waiting


class Balancer:
    """Moves groups of one queue."""

    __slots__ = ("due", "queue")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.due = 0.0  # when to rebalance without a command; 0: never

    def joined(self) -> None:
        """Called when a consumer has joined: after a while it shall have its share."""
        state = self.queue.state
        if state.rules.rebalance_after_s and state.strategy.is_sticky:
            self.due = state.now + state.rules.rebalance_after_s

    def rebalance(self, most: int = 0, *, by_itself: bool = False) -> int:
        """Move what the plan says, or about the first `most` groups; return how many had messages.

        The event comes first: whoever reads the events must know why owners change. Groups without
        messages move, too.
        """
        queue = self.queue
        taken = _first_of(plan(queue), most)
        moved = groups_with_messages(taken)
        if taken or not by_itself:
            queue.state.record(EventKind.REBALANCE, "", 0, moved)
        touched: dict[Consumer, None] = {}
        for step in taken:
            touched[step.unit.owner] = touched[step.target] = None
            self._give(step.unit, step.target)
        for consumer in touched:
            queue.dispatch.reline(consumer)
        queue.counters.rebalanced += moved
        if moved:
            queue.mark()
        return moved

    def run_if_due(self) -> None:
        """Move a second's worth of groups, if it is time."""
        state = self.queue.state
        if not 0.0 < self.due <= state.now:
            return
        self.due = 0.0
        if self.rebalance(state.rules.rebalance_rate, by_itself=True):
            self.due = state.now + 1.0

    def run_spills(self) -> None:
        """Move groups that have waited too long for their owner's credit."""
        state = self.queue.state
        if state.stale.is_any:
            return  # the owners of some groups are yet to be asked for
        seq = state.take_spill()
        while seq:
            entry = state.index.get(seq)
            if entry is not None and entry.lane.head is entry and self._may_spill(entry.lane):
                if not self._spill(entry):
                    state.await_credit(seq)  # nobody is willing yet
            seq = state.take_spill()

    def _may_spill(self, lane: Lane) -> bool:
        owner = lane.owner
        if lane.where != READY or owner is None or lane.target is not owner:
            return False
        if owner.is_gone or owner.is_retiring or owner.group:
            return False
        return lane.unsettled == 0 and not owner.is_willing()

    def _spill(self, head: Entry) -> bool:
        """Give a group to the willing consumer with the fewest groups; False if it cannot go."""
        queue = self.queue
        state = queue.state
        lane = head.lane
        lanes = self._neighbours(lane)
        if any([each.unsettled for each in lanes]):
            return False
        best: Consumer | None = None
        for each in state.consumers.values():
            if each is lane.owner or each.is_retiring or not each.is_willing():
                continue
            if each.group_asked or each.view is None or not self._admits(each, head):
                continue
            if best is None or _is_lighter(each, best):
                best = each
        if best is None:
            return False
        state.record(EventKind.SPILL, lane.name, best.id, head.seq)
        queue.counters.spilled += 1
        before = lane.owner
        state.spill(lane.name, best.id)
        for one in lanes:
            queue.membership.ask_again(one)
        queue.dispatch.reline(best)
        if before is not None:
            queue.dispatch.reline(before)
        return True

    def _admits(self, consumer: Consumer, head: Entry) -> bool:
        queue = self.queue
        if not queue.state.has_selectors:
            return True
        if head.message is None or consumer.view is None:
            return False
        return queue.placement.admission.admits(consumer.view, head)

    def _neighbours(self, lane: Lane) -> list[Lane]:
        """Return all lanes that move with this one, itself among them."""
        strategy = self.queue.state.strategy
        if not strategy.moves_in_units:
            return [lane]
        unit = strategy.unit_of(lane.name)
        lanes = self.queue.state.lanes.values()
        claimed = self.queue.state.claims.taken
        return [
            each
            for each in lanes
            if strategy.unit_of(each.name) == unit and each.name not in claimed
        ]

    def _give(self, unit: Unit, target: Consumer) -> None:
        queue = self.queue
        queue.state.hand(unit.key, target.id)
        for lane in unit.lanes:
            queue.membership.ask_again(lane)


def _is_lighter(one: Consumer, other: Consumer) -> bool:
    ours, theirs = len(one.lanes) / one.weight, len(other.lanes) / other.weight
    return (-one.priority, ours, one.id) < (-other.priority, theirs, other.id)
