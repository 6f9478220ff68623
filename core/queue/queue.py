# Compiled by mypyc: see setup.py.
"""Queue: sequence numbers, how messages come in, are settled and expire.

The queue gives each message its number and its lane, and keeps the counters. Who gets the message
next is decided in `core.dispatch.dispatch`, where a group stands in `core.dispatch.placement`, and
how a message comes back in `core.queue.redelivery`. The queue tells its owner (`core.queue.owner`)
what has to happen elsewhere. Rules held here:

- An acquired message is never dropped and never expires.
- A message written to a store can be seen only after its commit (`STORING` until then).
- The limit is checked before the newcomer's lane is looked up.
- While a job rearranges the queue (`suspend`), nothing is handed out.
- `pump` is called once per batch of events, never from inside one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from covey.config.queues import QueueSettings
from covey.core.dispatch.admission import Exclusions
from covey.core.dispatch.dispatch import Dispatch
from covey.core.dispatch.lane import HELD, IDLE, READY
from covey.core.dispatch.membership import Membership, Start
from covey.core.dispatch.placement import Placement
from covey.core.dispatch.rules import rules_of
from covey.core.dispatch.state import DispatchState
from covey.core.events.event import ACK, ENQUEUE, RECOVER, RECOVERED_AT_ONCE, EventKind, QueueEvents
from covey.core.model.consumer import Consumer, Source, Window
from covey.core.model.entry import (
    ACCEPTED,
    ACQUIRED,
    GONE,
    KEPT,
    PENDING,
    STORED,
    STORING,
    Entry,
    Outcome,
)
from covey.core.model.message import Message
from covey.core.queue.balance import Balancer
from covey.core.queue.counters import Ages, Counters
from covey.core.queue.discipline import Discipline
from covey.core.queue.owner import QueueOwner
from covey.core.queue.pause import Pause
from covey.core.queue.redelivery import Redelivery
from covey.core.queue.storage_state import StorageState
from covey.core.queue.timers import Timers
from covey.groups.key import GroupKey
from covey.groups.strategy import GroupStrategy

if TYPE_CHECKING:
    from covey.core.queue.owner import Sparing


class Queue(Source):
    """Messages in order, until a consumer has settled each."""

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        strategy: GroupStrategy,
        key: GroupKey,
        owner: QueueOwner,
    ) -> None:
        self.name = name
        self.owner = owner
        self.counters = Counters()
        self.ages = Ages()
        self.next_seq = 1
        self.dropped_to = 0  # above this number, only settled messages have gone
        self.size = 0  # content bytes of all entries
        self.consumer_numbers = 0
        self.state = DispatchState(name, strategy, rules_of(settings), owner.audit)
        self.discipline = Discipline(self.state, key)
        self.placement = Placement(self.state)
        self.membership = Membership(self.state, self.placement)
        self.dispatch = Dispatch(self.state, self.placement, self.membership, self.expire_if_due)
        self.redelivery = Redelivery(self)
        self.balancer = Balancer(self)
        self.timers = Timers(self)
        self.exclusions = Exclusions(self.state, self.membership, self.dispatch)
        self.start = Start(self.state, self.membership)
        self.draining: list[Consumer] = []  # AMQP links to be told when nothing more can come
        self.is_durable = settings.durable
        self.is_dirty = False  # its owner will pump it
        self.is_awaited = False  # a producer waits for room in it
        self.promised = 0  # messages that a long commit is still to bring
        self.promised_size = 0
        self.storage_state = StorageState()
        self.drop_cursor = 0  # no entry before it may be dropped; a return moves it back
        self.touched_at = 0.0
        self.pause = Pause()
        self.suspended = 0  # jobs that must end before anything is handed out
        self.purges: list[Sparing] = []  # those under way
        self.is_ended = False  # it was deleted; what a transaction has of it may still be settled
        self.apply(settings)

    def apply(self, settings: QueueSettings) -> None:
        """Take over a (new) policy, except its strategy: see `change_strategy`."""
        self.settings = settings
        self.nak_limit = settings.nak_limit
        self.membership.follow(rules_of(settings))
        self.discipline.apply(settings)
        self.choose_way()
        self.start.arm()

    def choose_way(self) -> None:
        """Set `takes_all`: no quota, pause, mirror or discipline concerns new messages."""
        settings = self.settings
        is_limited = settings.quota > 0 or settings.quota_messages > 0
        self.has_quota = is_limited or self.pause.coming is not None
        is_simple = self.discipline.is_usual and not settings.mirrored
        self.takes_all = is_simple and not self.has_quota

    # Coming in.

    def enqueue(self, message: Message, state: int = PENDING, group: str | None = None) -> Entry:
        """Give the message its number and its place; raises GroupIdError for a bad group id.

        The group is the message's own unless another is given.
        """
        discipline = self.discipline
        if group is None:
            group = discipline.group_of(message)
        lane = self.placement.lane_for(group) if group else discipline.lane_of(message)
        seq = self.next_seq
        self.next_seq = seq + 1
        entry = Entry(seq, message, lane, state)
        self.insert(entry)
        self.counters.enqueued += 1
        if self.state.events is not None:
            is_kept = message.persistent and self.survives
            self.state.events.arrive(ENQUEUE, group, seq, message.size, is_kept, message)
        return entry

    def insert(self, entry: Entry) -> None:
        """Put a new entry, whose number is above all others', at its place."""
        state = self.state
        lane = entry.lane
        state.index.add(entry)
        self.size += entry.size
        if entry.message is None:
            self.storage_state.out += 1
        else:
            self.storage_state.resident += entry.message.weight
        if entry.expires_ms:
            self.timers.expiry.add(entry)
        if lane.is_grouped:
            lane.append(entry)
            if lane.head is None:
                self.placement.arrive(lane, entry)
        else:
            lane.count += 1
            if state.has_selectors:
                self.dispatch.ungrouped.append(entry)
            else:
                state.default_view.level(lane.rank).append(entry)
        if not self.is_dirty:
            self.mark()

    def committed(self, entry: Entry) -> None:
        """Let an entry be seen: its store commit is back."""
        if entry.state == STORING and not self.is_ended:
            entry.state = PENDING
            lane = entry.lane
            if self.expire_if_due(entry):
                pass  # the expiry timer skips STORING entries, and does not look again
            elif lane.is_grouped and lane.head is entry:
                self.placement.resolve(lane)
            self.mark()

    def mark(self) -> None:
        """Have the queue pumped at the end of this turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.owner.mark(self)

    def suspend(self) -> None:
        """Hand out nothing until `resume` has been called as often as this."""
        self.suspended += 1

    def resume(self) -> None:
        """Go on handing out."""
        self.suspended -= 1
        self.mark()

    # Going out.

    def pump(self, now: float, wall_ms: int, budget: int) -> bool:
        """Deliver what can be delivered; True if there is more to do."""
        state = self.state
        state.begin_pump(now, wall_ms)
        self.is_dirty = False
        self.ages.note(self.next_seq, now)
        more_is_due = self.timers.run()
        if self.suspended:
            return more_is_due
        is_open = self.start.has_begun or self.start.begin_if_due()
        more = is_open and self.dispatch.pump(budget, is_paused=self.pause.going is not None)
        while state.claims.done:
            self.owner.group_done(*state.claims.done.pop(0))
        if not more and self.draining:
            resting, self.draining = self.draining, []
            for consumer in resting:
                consumer.drained()
        return more or more_is_due

    def settle(self, entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
        """Settle an acquired entry; ignore one that is settled already, or gone with its queue."""
        if entry.state != ACQUIRED or self.is_ended:
            return
        self.state.turn(now)
        consumer = entry.holder
        if consumer is not None:
            consumer.unsettled.pop(entry.seq, None)
            consumer.clock_from = now
            if consumer.is_overdue:
                self.heard(consumer, now)
        if outcome is ACCEPTED:
            self.settled(entry)
        else:
            self.redelivery.take(entry, outcome, reason)
        if consumer is not None and len(consumer.unsettled) + 1 == consumer.unsettled_max:
            self.dispatch.offer(consumer)  # it held all it may, and was in no line
        if not self.is_dirty:
            self.mark()

    def accept(self, consumer: Consumer, entries: Sequence[Entry], now: float) -> None:
        """Settle all these entries as accepted, except those the consumer no longer holds.

        An entry that is settled in an open transaction is the transaction's.
        """
        self.state.turn(now)
        consumer.clock_from = now
        if consumer.is_overdue:
            self.heard(consumer, now)
        unsettled = consumer.unsettled
        was_full = len(unsettled) >= consumer.unsettled_max
        for entry in entries:
            if entry.holder is consumer and unsettled.pop(entry.seq, None) is not None:
                self.settled(entry)
        if was_full:
            self.dispatch.offer(consumer)
        if not self.is_dirty:
            self.mark()

    def heard(self, consumer: Consumer, now: float) -> None:
        """Called when a consumer is at work: its clocks restart, and it may get groups again."""
        self.state.deadlines.restart(consumer, now)  # entries back from a transaction have none
        if consumer.is_overdue and not consumer.is_gone:
            self.state.turn(now)
            self.membership.resume(consumer)
            self.dispatch.admit(consumer)
            self.mark()

    def heard_late(self, consumer: Consumer, seq: int, now: float) -> None:
        """Count a settlement that came too late; it shows that its consumer is at work."""
        self.counters.late += 1
        self.state.record(EventKind.LATE, "", consumer.id, seq)
        self.heard(consumer, now)

    def settled(self, entry: Entry) -> None:
        """Remove an entry that its consumer accepted, or that was settled as it was sent."""
        if self.state.events is not None:
            self.record(ACK, entry)
        self.counters.acked += 1
        entry.lane.failures = 0  # failures are counted in a row
        self.finish(entry)

    def finish(self, entry: Entry) -> None:
        """Remove an acquired entry; free its group if nothing else of it is unsettled."""
        lane = entry.lane
        self._remove(entry)
        if not lane.is_grouped:
            return
        lane.unsettled -= 1
        if lane.unsettled == 0:
            lane.holder = None
            if self.state.wants_drained:
                self.dispatch.drained(lane)
            if lane.count == 0 and lane.where == IDLE:
                self.placement.vanish(lane)
            # In the common case the lane is READY for its owner and nothing changes.
            elif lane.owner is None or lane.where != READY or lane.target is not lane.owner:
                self.placement.resolve(lane)
        elif lane.where == HELD:
            self.placement.resolve(lane)

    def drop(self, entry: Entry, kind: EventKind) -> None:
        """Remove an entry that nobody has acquired: expired, purged, or over the limit."""
        lane = entry.lane
        self.dropped_to = max(self.dropped_to, entry.seq)
        self.record(kind, entry)
        self._remove(entry)
        if lane.is_grouped:
            self.placement.dropped(entry)
        else:
            self.dispatch.ungrouped.trim()

    def _remove(self, entry: Entry) -> None:
        if entry.marks & STORED:
            self.owner.removed(self, entry)
        if entry.message is None:
            self.storage_state.out -= 1
        else:
            self.storage_state.resident -= entry.message.weight
        entry.state = GONE
        entry.holder = None
        entry.message = None  # freed here: entries and lanes point at each other
        entry.lane.count -= 1
        self.size -= entry.size
        self.state.index.remove(entry.seq)
        if self.is_awaited:
            self.owner.freed(self)

    # For readers that keep numbers.

    @property
    def first_seq(self) -> int:
        """Return the number of the first message here; if there is none, of the next to come."""
        first = self.state.index.look_from(0)
        return self.next_seq if first is None else first.seq

    @property
    def retained_from(self) -> int:
        """Return the number from which on every message that has gone was settled."""
        return self.dropped_to + 1

    @property
    def survives(self) -> bool:
        """Return True if its persistent messages survive a restart."""
        return self.is_durable and self.storage_state.number != 0

    def report_to(self, events: QueueEvents | None) -> None:
        """Report all entries that are here to a sink, then each event; None: report no more."""
        self.state.report_to(events)
        if events is None:
            return
        self.report_policy(self.settings)
        if not (self.survives or self.state.index.count):
            return
        events.arrive(RECOVER, "", 0, 0, self.survives, None)
        for number, entry in enumerate(self.state.index, 1):
            is_kept = entry.stored == KEPT
            events.arrive(RECOVER, entry.lane.name, entry.seq, entry.size, is_kept, None)
            if number % RECOVERED_AT_ONCE == 0:
                events.catch_up()

    def report_policy(self, settings: QueueSettings) -> None:
        """Report the strategy that decides who owns groups from now on."""
        groups = settings.groups
        idle = " forget-idle" if groups.forget_idle_s else ""
        self.state.record(EventKind.POLICY, groups.strategy + idle, 0, 0)

    def record(self, kind: int, entry: Entry) -> None:
        """Report an event of one entry, if anybody listens."""
        if self.state.events is not None:
            holder = 0 if entry.holder is None else entry.holder.id
            self.state.record(kind, entry.lane.name, holder, entry.seq)

    # Time.

    def next_deadline(self, now: float, wall_ms: int) -> float:
        """Return when the queue must be pumped again without an event; 0 for never."""
        due = self.timers.next_deadline(now, wall_ms)
        start = 0.0 if self.start.has_begun else self.start.deadline
        return min(due, start) if due and start else due or start

    def expire_if_due(self, entry: Entry) -> bool:
        """Drop an entry if it has expired; return True if so."""
        if self.state.has_run_out(entry):
            self.expire(entry)
            return True
        return False

    def expire(self, entry: Entry) -> None:
        """Drop an expired entry; dead-letter it if the policy says so."""
        if self.settings.dlq_expired:
            if entry.message is None:
                # The entry is looked at again once its body is read.
                self.storage_state.overdue.append(entry.seq)
                return
            self.owner.dead_letter(self, entry, "expired")
        self.counters.expired += 1
        self.drop(entry, EventKind.EXPIRE)

    # Consumers.

    def join(self, consumer: Consumer, now: float) -> None:
        """Take a consumer in; `from_seq` -1 means only messages that come from now on."""
        self.redelivery.check_wishes(consumer)
        self.state.turn(now)
        self.consumer_numbers += 1
        consumer.id = self.consumer_numbers
        if consumer.from_seq < 0:
            consumer.from_seq = self.next_seq
        if consumer.is_browser:
            consumer.cursor = consumer.from_seq
            if consumer.heeds_holders and self.state.wants_drained:
                consumer.sees_acquired = False
            self.state.add_browser(consumer)
            consumer.window.browsing += consumer.browse_ends
        else:
            self.membership.join(consumer)
            self.dispatch.admit(consumer)
            self.balancer.joined()
        self.start.joined()
        consumer.queue = self
        consumer.window.consumers[consumer] = None
        self.mark()

    def leaving(self, consumer: Consumer, now: float, *, counted: bool = True) -> Iterator[int]:
        """Let a consumer go; what it held returns, and counts as a failed try if `counted`.

        A consumer may hold very much, so this goes step by step. Nothing is handed out meanwhile.
        """
        if consumer.queue is not self:
            return
        self.state.turn(now)
        consumer.queue = None
        consumer.window.leave(consumer)
        if consumer in self.draining:
            self.draining.remove(consumer)
        if consumer.is_browser:
            consumer.is_gone = consumer.is_barred = True
            self.state.remove_browser(consumer)
        else:
            yield from self.redelivery.returning(consumer, counted=counted)
        self.start.left()
        self.touched_at = now
        self.mark()

    def tell_later(self, window: Window) -> None:
        """After this pump, have a window tell its next consumers that it is open."""
        self.owner.opened(window)

    def credit_changed(self, consumer: Consumer) -> None:
        """Called when a consumer's window opened."""
        if not consumer.is_browser:
            self.dispatch.offer(consumer)
        self.mark()
