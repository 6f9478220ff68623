"""The referee: a model of one queue that judges it delivery by delivery.

It keeps the tables of the law (`law.py`) by itself. The driver tells it every event before the
queue hears it, the consumers tell it every delivery, and the queue's events tell it when an
expired message went.

Judged at each delivery: the receiver may have the message and wants it, nobody holds messages of
its group but the receiver, no older message could have gone to somebody willing, first deliveries
of a group come in order, the first flag, and the priority of the receiver.
Judged whenever the pump rests: nothing can go, contents, holders, owners and counts are equal.

Not judged: fairness within one priority, weights, and, while a selector's scan is cut short by a
small budget, plain messages that scan has not come to. Which groups a retiring consumer keeps is
read from the queue.
"""

from __future__ import annotations

from covey.core.events.event import EventKind, QueueEvents
from covey.core.model.entry import ACQUIRED
from covey.core.queue.queue import Queue
from tests.properties.clients import Client, Slip
from tests.properties.law import AWAY, HELD, PENDING, STORING, Group, Law, Policy, Taken
from tests.properties.ownership import Ownership


class Referee(Law, QueueEvents):
    """What the queue must do, event by event."""

    def __init__(self, queue: Queue, policy: Policy, memory: Ownership) -> None:
        super().__init__(policy, memory)
        self.queue = queue
        self.browsers = 0
        self.started_at = 0.0
        self.saw_selectors = False
        self.newest_first: dict[str, int] = {}
        self.assigned: dict[str, int] = {}  # as the events say
        self.draining: set[str] = set()
        self.enqueued = self.acked = self.dead = self.expired = self.dropped = 0
        self.deliveries = 0
        self.overdue = 0
        self.moved = 0
        self.taking = ""  # the group that a command takes messages of just now
        self.may_rebalance = False  # it is time to, in this pump
        self.is_picking = False  # a command takes single messages just now
        self.picked = 0  # the last of them

    # Deliveries.

    def delivered(self, number: int, seq: int, is_first: bool) -> None:
        self.deliveries += 1
        if self.may_rebalance:
            self.see_rebalance()
        slip, client = self.slips[seq], self.clients[number]
        assert slip.state == PENDING, f"{seq} was delivered but is {slip.state}"
        self._judge_receiver(slip, client)
        self._judge_order(slip)
        expected = self._is_first(slip, client)
        assert is_first == expected, f"{seq}: first flag is {is_first}"
        client.count -= 1
        client.size -= slip.size
        slip.state, slip.holder, slip.was_delivered = HELD, number, True
        slip.since = self.now
        client.held.add(seq)
        if slip.group:
            self._own(slip, client)
        if client.is_presettled:
            self.accepted(seq)
        self.bind_heads()

    def _judge_receiver(self, slip: Slip, client: Client) -> None:
        takers = self.takers(slip)
        allowed = [taker.number for taker in takers]
        assert self.is_started, f"{slip.seq} was delivered before the dispatch started"
        assert client in takers, f"{slip.seq} went to {client.number}, allowed: {allowed}"
        assert client.is_willing(), f"{slip.seq} went to {client.number}, who is not willing"
        best = max(taker.priority for taker in takers if taker.is_willing())
        if slip.group or not self.is_scanning():
            assert client.priority == best, f"{slip.seq} went to a client of low priority"
        if slip.group:
            holder = self.holder(self.groups[slip.group])
            assert holder in (0, client.number), f"{slip.group} is held by two"

    def _judge_order(self, slip: Slip) -> None:
        # Groups that are still to be asked, after a change of the selectors, come in their turn.
        for other in self.candidates() if not self.queue.state.stale.is_any else ():
            if other.group or not self.is_scanning():
                assert other.seq >= slip.seq, f"{slip.seq} went before {other.seq}"
        if slip.group and not slip.was_delivered:
            newest = self.newest_first.get(slip.group, 0)
            # A message nobody's selector admitted for a while is late by right.
            assert self.saw_selectors or slip.seq > newest, f"{slip.seq} is out of order"
            self.newest_first[slip.group] = max(newest, slip.seq)

    def _is_first(self, slip: Slip, client: Client) -> bool:
        if not slip.group:
            return False
        group = self.groups[slip.group]
        if not group.owner and not client.is_seeking:
            return True
        if client.is_seeking:
            is_known = self.introduced.get(slip.group) == client.number
            self.introduced[slip.group] = client.number
            return not is_known
        if not group.is_fresh or group.owner != client.number:
            return False
        if not client.claimed:
            self.memory.handed.discard(self.memory.unit_of(slip.group))
        is_known = self.introduced.get(slip.group) == client.number
        if self.memory.is_rule or client.claimed or slip.group in self.introduced:
            self.introduced[slip.group] = client.number
        return not is_known

    def _own(self, slip: Slip, client: Client) -> None:
        group = self.groups[slip.group]
        if client.is_seeking:
            self.claiming.take(slip.group, client)
            group.owner = client.number
        elif not group.owner:
            self.introduced.pop(slip.group, None)
            self.memory.took(slip.group, client.number)
            group.owner = client.number
            self.ask_all()
        if group.owner == client.number:
            group.is_fresh = False
        self.memory.delivered(slip.group)
        self.pace(slip.group)
        if slip.closes and self.memory.acts_on_close:
            self.close(slip.group, group)

    # What happens to messages.

    def sent(self, slip: Slip) -> None:
        self.enqueued += 1
        self.slips[slip.seq] = slip
        if not slip.group:
            self.plain[slip.seq] = slip
            return
        if slip.group not in self.groups:
            self.groups[slip.group] = Group()
            self.memory.appeared(slip.group)
        self.groups[slip.group].slips[slip.seq] = slip
        self.bind_heads()

    def committed(self, seq: int) -> None:
        if seq in self.slips and self.slips[seq].state == STORING:
            self.slips[seq].state = PENDING

    def accepted(self, seq: int) -> None:
        self.acked += 1
        slip = self._unhold(seq)
        if slip.group:
            self.groups[slip.group].failures = 0
        self._finish(slip)

    def rejected(self, seq: int) -> None:
        self.dead += 1
        group = self.groups.get(self.slips[seq].group)
        if group is not None and self.policy.dead_then_park:
            group.is_parked = group.is_kept = True
        elif group is not None and self.policy.dead_rest and group.taken is None:
            if any(slip.state != HELD for slip in group.slips.values()):
                group.taken = Taken(int(EventKind.DEAD_LETTER), self.queue.next_seq - 1, False)
        self._finish(self._unhold(seq))

    def released(self, seq: int) -> None:
        self._unhold(seq)
        self.bind_heads()

    def is_kept_from(self, seq: int) -> bool:
        """Whether a refused message can be kept from its holder; one that takes all cannot."""
        return not self.clients[self.slips[seq].holder].group_asked

    def refused(self, seq: int) -> None:
        self.clients[self.slips[seq].holder].refused.add(seq)
        self.saw_selectors = True

    def failed(self, seq: int) -> None:
        slip = self.slips[seq]
        slip.deliveries += 1
        group = self.groups.get(slip.group)
        if group is not None:
            group.failures += 1
            if 0 < self.policy.park_after_failures <= group.failures:
                group.is_parked = True
        if self.policy.nak_limit and slip.deliveries >= self.policy.nak_limit:
            self.rejected(seq)
            return
        if group is None:
            self._unhold(seq)
            if self.policy.delay_s:
                slip.state, slip.away_until = AWAY, self.now + self.policy.delay_s
            return
        if self.policy.delay_s:
            group.hold_until = max(group.hold_until, self.now + self.policy.delay_s)
        self.released(seq)

    def _unhold(self, seq: int) -> Slip:
        slip = self.slips[seq]
        holder = self.clients.get(slip.holder)
        if holder is not None:  # else it left with a transaction open
            holder.held.discard(seq)
        slip.state, slip.holder = PENDING, 0
        group = self.groups.get(slip.group)
        if group is not None and not self.holder(group):
            self._drained(slip.group, group)
        return slip

    def _drained(self, name: str, group: Group) -> None:
        if self.memory.frees_when_drained and group.owner:
            self.memory.closed(name, self.groups)
            if name not in self.claiming.claims:
                group.owner = 0

    def _finish(self, slip: Slip) -> None:
        """Take a message off the queue."""
        del self.slips[slip.seq]
        self.plain.pop(slip.seq, None)
        group = self.groups.get(slip.group)
        if group is not None:
            del group.slips[slip.seq]
            if not group.slips:
                if slip.group in self.claiming.claims:
                    self.claiming.emptied(slip.group)
                group.owner, group.is_fresh = 0, False
                self._vanish(slip.group, group)
            self.bind_heads()

    def _vanish(self, name: str, group: Group) -> None:
        if not group.slips and not group.is_kept:
            del self.groups[name]
            self.memory.vanished(name)

    def enlisted(self, seq: int) -> None:
        """A transaction settles it: it is out, but counts for its consumer no more."""
        slip = self.slips[seq]
        self.clients[slip.holder].held.discard(seq)
        self.heard(slip.holder)

    def given_back(self, seq: int) -> None:
        self.clients[self.slips[seq].holder].held.add(seq)
        self.heard(self.slips[seq].holder)

    def dropped_one(self, seq: int) -> None:
        slip = self.slips[seq]
        assert slip.state != HELD, f"{seq} was dropped though somebody has it"
        older = [one.seq for one in self.slips.values() if one.state != HELD and one.seq < seq]
        assert not older, f"{seq} was dropped before {older}"
        self.dropped += 1
        self._finish(slip)

    def purged(self) -> None:
        for slip in [slip for slip in self.slips.values() if slip.state != HELD]:
            self.dropped += 1
            self._finish(slip)

    # What happens to clients.

    def joined(self, client: Client) -> None:
        self.clients[client.number] = client
        self._arrived()
        self.saw_selectors = self.saw_selectors or self.has_selectors()
        if client.group_asked:
            self._claim(client)
            return
        self.memory.joined(client.number, client.weight)
        before = next((one for one in self.clients.values() if _waits_for(one, client)), None)
        if before is not None:
            del self.clients[before.number]
            self.memory.renamed(before.number, client.number)
            for group in self.groups.values():
                if group.owner == before.number:
                    group.owner = client.number
        self.bind_heads()

    def _claim(self, client: Client) -> None:
        """One that wants one group has it, or waits for it; the gate holds as ever."""
        name = self.claiming.claim(client)
        if name in self.groups:
            self.groups[name].owner, self.groups[name].is_fresh = client.number, True
        self.bind_heads()

    def group_done(self, number: int, name: str) -> None:
        self.claiming.was_told(number, name)

    def browser_joined(self) -> None:
        self.browsers += 1
        self._arrived()

    def _arrived(self) -> None:
        if not self.is_started and not self.started_at:
            self.started_at = self.now + self.policy.time_before_s

    def left(self, number: int) -> None:
        client = self.clients[number]
        for seq in sorted(client.held):
            slip = self.slips[seq]
            slip.state, slip.holder = PENDING, 0
            slip.deliveries += 1
        for name in {self.slips[seq].group for seq in client.held} - {""}:
            group = self.groups[name]
            if group.owner == number and not self.holder(group):  # or a transaction has some
                self._drained(name, group)
        client.held.clear()
        returns = not (client.is_retiring or client.is_overdue or client.group_asked)
        if self.policy.sticky_return_s and client.client_id and returns:
            client.absent_until = self.now + self.policy.sticky_return_s
            self.clients[number] = self.clients.pop(number)  # the first to leave is replaced first
        else:
            self._forget(number)
        self.rearm()

    def browser_ended(self) -> None:
        self.browsers -= 1

    def browser_left(self, *, has_ended: bool) -> None:
        self.browsers -= not has_ended
        self.rearm()

    def rearm(self) -> None:
        self.bind_heads()
        if not self.present() and not self.browsers:
            self.is_started = not (self.policy.consumers_before or self.policy.time_before_s)
            self.started_at = 0.0

    def _forget(self, number: int) -> None:
        self.claiming.unclaim(self.clients.pop(number))
        self.memory.left(number)
        for name, group in self.groups.items():
            if group.owner == number:
                group.owner = self.named(name)
                group.is_fresh = self.is_fresh_for(name)

    def retired(self, number: int, kept: set[str]) -> None:
        """`kept`, the groups it owned, is read from the queue."""
        client = self.clients[number]
        client.is_retiring = True
        self.memory.left(number)
        group_claimed = self.groups.get(client.claimed)
        if group_claimed is None or not group_claimed.slips:
            self.claiming.unclaim(client)
        for name, group in self.groups.items():
            if name in kept and group.owner != number:
                group.owner, group.is_fresh = number, self.is_fresh_for(name)
            elif group.owner == number and name not in kept:
                group.owner = 0
        self.bind_heads()

    # Commands and time.

    def closed(self, name: str) -> None:
        group = self.groups.get(name)
        if group is None:
            self.memory.closed(name, self.groups)
        else:
            self.close(name, group)
            self.bind_heads()

    def parked(self, name: str, parked: bool) -> None:
        if name not in self.groups and parked:
            self.groups[name] = Group()
            self.memory.appeared(name)
        group = self.groups.get(name)
        if group is not None:
            group.is_parked = group.is_kept = parked
            group.failures = 0
            self._vanish(name, group)

    def seized(self, name: str, kind: int, *, waits: bool) -> None:
        """A command begins to take a group out; nothing of it goes to anybody meanwhile."""
        group = self.groups.get(name)
        if group is not None:
            group.taken = Taken(int(kind), self.queue.next_seq - 1, waits)

    def unseized(self, name: str) -> None:
        group = self.groups.get(name)
        if group is None or group.taken is None:
            return
        self._begin_taking(group)
        left = [seq for seq in group.taken.numbers or () if seq in self.slips]
        assert not left, f"the command ended, and {left} are there"
        group.taken = None
        group.hold_until = 0.0
        self.bind_heads()

    def begin_portion(self, name: str, *, is_numbered: bool) -> None:
        """A command does a portion; if it takes a group, what it takes is known from here."""
        self.taking, self.is_picking, self.picked = name, is_numbered, 0
        group = self.groups.get(name)
        if group is not None and group.taken is not None:
            if not (group.taken.waits and self.holder(group)):
                self._begin_taking(group)

    def end_portion(self) -> None:
        self.taking, self.is_picking = "", False

    def _begin_taking(self, group: Group) -> None:
        taken = group.taken
        assert taken is not None
        if taken.numbers is None:
            assert not (taken.waits and self.holder(group)), "it did not wait for what is held"
            free = [slip.seq for slip in group.slips.values() if slip.state != HELD]
            taken.numbers = [seq for seq in sorted(free) if seq <= taken.last]

    def _take_out(self, kind: int, seq: int) -> None:
        slip = self.slips[seq]
        assert slip.state != HELD, f"{seq} was taken from its holder"
        if self.is_picking:
            assert seq > self.picked, f"{seq} was taken out behind {self.picked}"
            self.picked = seq
        else:
            group = self.groups[slip.group]
            assert group.taken is not None, f"{seq} was taken out by nobody"
            self._begin_taking(group)
            numbers = [one for one in group.taken.numbers or () if one in self.slips]
            assert numbers[:1] == [seq], f"{seq} was taken out before {numbers[:1]}"
        if kind == EventKind.MOVE:
            self.moved += 1
        elif kind == EventKind.DROP:
            self.dropped += 1
        else:
            self.dead += 1
        self._finish(slip)

    def rebalanced(self, steps: list[tuple[str, int, int]]) -> None:
        """Some units go to others; each from its owner, to somebody who takes new ones."""
        for key, before, after in steps:
            taker = self.clients[after]
            assert not (taker.is_retiring or taker.is_overdue or taker.absent_until)
            self.memory.hand(key, after)
            for name, group in self.groups.items():
                is_free = name not in self.claiming.claims
                if is_free and self.memory.unit_of(name) == key and group.owner == before:
                    group.owner, group.is_fresh = after, self.is_fresh_for(name)

    def see_rebalance(self) -> None:
        """It is time, and nothing was delivered since: which units went is read from the queue."""
        self.may_rebalance = False
        steps = [
            (key, self.memory.owner_of(key), number)
            for key, number in self.queue.state.strategy.remembered()
            if self.memory.owner_of(key) not in (0, number)
        ]
        self.rebalanced(steps)

    def _spilled(self, name: str, number: int, seq: int) -> None:
        """Judge that a group left its owner, who has no credit."""
        group, taker = self.groups[name], self.clients[number]
        owner = self.clients[group.owner]
        assert self.policy.spill_s, f"{name} left its owner"
        assert not owner.is_willing(), f"{name} left {owner.number}, who is willing"
        assert taker.is_willing() and not taker.is_retiring, f"{number} did not want {name}"
        assert self.admits(taker, self.slips[seq]), f"{number} may not have {seq}"
        key = self.memory.unit_of(name)
        unclaimed = {k: v for k, v in self.groups.items() if k not in self.claiming.claims}
        for other, each in unclaimed.items():
            if self.memory.unit_of(other) == key:
                assert not self.holder(each), f"{other} is out"
        self.memory.spilled(name, number)
        for other, each in unclaimed.items():
            if each.owner and self.memory.unit_of(other) == key:
                each.owner, each.is_fresh = number, self.is_fresh_for(other)

    def strategy_changed(self, memory: Ownership) -> None:
        self.memory = memory
        self.introduced.clear()
        for client in self.present():
            if not (client.is_retiring or client.is_overdue or client.group_asked):
                memory.joined(client.number, client.weight)
        for name in self.groups:
            memory.appeared(name)

    def pump_begins(self, now: float, wall_ms: int) -> None:
        self.now = now
        self.wall_ms = wall_ms
        for slip in self.plain.values():
            if slip.state == AWAY and slip.away_until <= now:
                slip.state = PENDING
        for client in list(self.clients.values()):
            if 0 < client.absent_until <= now:
                self._forget(client.number)
        self._run_out()
        if not self.is_started:
            enough = 0 < self.policy.consumers_before <= len(self.present()) + self.browsers
            self.is_started = enough or 0 < self.started_at <= now
        if self.is_started:
            self.ask_all()
        self.bind_heads()

    # Deadlines.

    def heard(self, number: int) -> None:
        """A consumer settles something, in time or late."""
        client = self.clients.get(number)
        if client is None:
            return
        client.heard_at = self.now
        if client.is_overdue:
            client.is_overdue = False
            if client.group_asked and not client.is_retiring:
                self._claim(client)
            elif not client.is_retiring:
                self.memory.rejoined(number, client.weight)
            self.bind_heads()

    def _run_out(self) -> None:
        """Take back what is held for too long, and let its holder have no group."""
        late = {}
        for client in self.present():
            overdue = [seq for seq in sorted(client.held) if self._is_overdue(client, seq)]
            if client.deadline_s and overdue:
                late[client.number] = overdue
        for number, overdue in late.items():
            client = self.clients[number]
            if not client.is_overdue:
                client.is_overdue = True
                self.memory.left(number)
                self.claiming.unclaim(client)
            self.saw_selectors = self.saw_selectors or self.has_selectors()
            for seq in overdue:
                self.overdue += 1
                self.failed(seq)

    def _is_overdue(self, client: Client, seq: int) -> bool:
        return max(self.slips[seq].since, client.heard_at) + client.deadline_s <= self.now

    # At rest.

    def rests(self) -> None:
        self.is_at_rest = True
        waiting = [slip.seq for slip in self.candidates()]
        self.is_at_rest = False
        assert not waiting, f"the pump rests but {waiting} could go"
        assert not self.claiming.done, f"nobody was told: {self.claiming.done}"
        self._judge_contents()
        self._judge_counts()
        if self.is_started:
            for name, group in self.groups.items():
                told = self.assigned.get(name, 0)
                # Without a message that can go, the queue may leave the question open.
                if self.head(group) is not None:
                    assert told == group.owner, f"{name} is {told}'s, should be {group.owner}'s"
        assert set(self.assigned) <= set(self.groups), "a group without messages has an owner"

    def _judge_contents(self) -> None:
        state = self.queue.state
        found = {
            entry.seq: (entry.holder.id if entry.holder else 0, entry.deliveries)
            for entry in state.index
        }
        assert found == {seq: (s.holder, s.deliveries) for seq, s in self.slips.items()}
        held = {entry.seq for entry in state.index if entry.state == ACQUIRED}
        assert held == {seq for seq, slip in self.slips.items() if slip.state == HELD}
        assert set(state.lanes) == set(self.groups)
        for slip in self.slips.values():
            if slip.expires_ms and slip.state in (PENDING, AWAY):
                is_past = (slip.expires_ms // 1000 + 1) * 1000 <= self.wall_ms
                assert not is_past, f"{slip.seq} expired long ago"

    def _judge_counts(self) -> None:
        counts = self.queue.counters
        gone = (counts.acked, counts.dead, counts.expired, counts.dropped, counts.moved)
        told = (counts.enqueued, *gone)
        ours = (self.acked, self.dead, self.expired, self.dropped, self.moved)
        assert told == (self.enqueued, *ours)
        assert self.enqueued == sum(told[1:]) + self.queue.state.index.count
        assert counts.overdue == self.overdue
        assert self.queue.size == sum(slip.size for slip in self.slips.values())

    # The queue's events.

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        is_command = bool(self.taking) or self.is_picking
        if is_command and kind in (EventKind.DROP, EventKind.MOVE, EventKind.DEAD_LETTER):
            self._take_out(kind, seq)
        elif kind == EventKind.EXPIRE:
            slip = self.slips[seq]
            assert self.is_expired(slip), f"{seq} was expired before its time"
            assert slip.state in (PENDING, AWAY), f"{seq} expired while {slip.state}"
            self.expired += 1
            self._finish(slip)
        elif kind == EventKind.SPILL:
            self._spilled(group, consumer, seq)
        elif kind == EventKind.ASSIGN:
            assert group not in self.assigned, f"{group} was assigned twice"
            self.assigned[group] = consumer
        elif kind == EventKind.REVOKE:
            assert self.assigned.pop(group, 0) == consumer, f"{group} was not {consumer}'s"
        elif kind == EventKind.DRAIN_START:
            assert group not in self.draining, f"{group} began to drain twice"
            self.draining.add(group)
        elif kind == EventKind.DRAIN_END:
            self.draining.remove(group)


def _waits_for(absent: Client, client: Client) -> bool:
    return absent.absent_until > 0 and absent.client_id == client.client_id
