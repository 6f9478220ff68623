# Compiled by mypyc: see setup.py.
"""Redelivery: how a delivery that was not accepted comes back to its queue, or dies.

    released   back to its place, as if it had never been sent
    failed     the try counts; back to its place, at once or after a delay; dead after too many
    rejected   dead at once
    refused    released or failed, and kept away from the consumer that refused it
    ran out    its consumer held it for too long: failed, and the consumer is suspended

A returned message always goes back to its sequence position. A group waits with its failed message,
since order comes first. A failed message without a group waits alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.dispatch.lane import Lane
from covey.core.dispatch.rules import retry_delay
from covey.core.dispatch.state import ParkRecord
from covey.core.errors import RefusedError
from covey.core.events.event import KIND_NAMES, EventKind
from covey.core.model.consumer import Consumer
from covey.core.model.entry import ACQUIRED, PENDING, Entry, Outcome

if TYPE_CHECKING:
    from covey.core.queue.queue import Queue


class Redelivery:
    """The way back into one queue."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def take(self, entry: Entry, outcome: Outcome, reason: str) -> None:
        """Carry out any outcome but ACCEPTED on an acquired entry."""
        queue = self.queue
        if outcome is Outcome.REJECTED:
            queue.record(EventKind.REJECT, entry)
            self._die(entry, f"rejected: {reason}" if reason else "rejected")
        elif outcome is Outcome.FAILED:
            self._fail(entry)
        elif outcome is Outcome.DECLINED or outcome is Outcome.UNFIT:
            self._refuse(entry, outcome)
        else:
            queue.record(EventKind.RELEASE, entry)
            self._put_back(entry)

    def take_overdue(self, consumer: Consumer, most: int) -> int:
        """Take back messages that a consumer has held for longer than its deadline; count them."""
        queue = self.queue
        state = queue.state
        entries = state.deadlines.overdue(consumer, state.now, most)
        if not consumer.is_overdue:
            queue.membership.suspend(consumer)
            state.audit.group_trouble(
                queue.name, KIND_NAMES[EventKind.DEADLINE], entries[0].lane.name
            )
        for entry in entries:
            consumer.unsettled.pop(entry.seq, None)
            queue.counters.overdue += 1
            queue.record(EventKind.DEADLINE, entry)
            self._fail(entry)
        consumer.ran_out(entries)
        if state.rules.ends_late_connections:
            consumer.session.kick(
                f"queue {queue.name}: a message was held for longer than {consumer.deadline_s:g} s"
            )
        return len(entries)

    def check_wishes(self, consumer: Consumer) -> None:
        """Raise RefusedError if a consumer asks for a deadline or a group that it cannot have."""
        self.queue.discipline.check_claim(self.queue.name, consumer)
        asked = consumer.deadline_asked
        most = self.queue.settings.delivery_deadline_max_s
        if most and (asked > most or asked == 0.0):
            wish = f"of {asked:g} s" if asked else "of 0, for ever,"
            raise RefusedError(
                f"queue {self.queue.name}: a deadline {wish} is beyond {most:g} s,"
                " the most that delivery_deadline_max_s allows",
                "invalid",
            )

    def returning(self, consumer: Consumer, *, counted: bool) -> Iterator[int]:
        """Put back all that a leaving consumer holds; nothing is handed out meanwhile."""
        queue = self.queue
        queue.suspended += 1
        touched: dict[Lane, None] = {}
        for entry in queue.membership.leave(consumer):
            if entry.state != ACQUIRED or entry.holder is not consumer:
                continue  # it was settled between two portions
            if counted:
                self.count_try(entry)
            queue.record(EventKind.RELEASE, entry)
            if entry.lane.is_grouped:
                touched[entry.lane] = None
            self.set_pending(entry)
            yield 1
        yield from queue.membership.settling_lanes(consumer, touched)
        queue.suspended -= 1

    def count_try(self, entry: Entry) -> None:
        """Count a delivery that came to nothing, in the store too."""
        entry.deliveries += 1
        self.queue.owner.retried(self.queue, entry)

    def set_pending(self, entry: Entry) -> None:
        """Put an entry in line again, unless it has expired. Does not resolve its lane."""
        queue = self.queue
        lane = entry.lane
        queue.counters.returned += 1
        entry.holder = None
        entry.is_first = False
        if lane.is_grouped:
            lane.unsettled -= 1
        entry.state = PENDING
        queue.drop_cursor = min(queue.drop_cursor, entry.seq)
        for purge in queue.purges:
            purge.spare(entry.seq)
        values = queue.discipline.last_values
        if queue.expire_if_due(entry):
            return
        if values is not None and values.is_outdated(entry):
            queue.counters.dropped += 1
            queue.drop(entry, EventKind.DROP)
        elif lane.is_grouped:
            lane.put_back(entry)
        else:
            queue.dispatch.ungrouped.take_back(entry)

    def _put_back(self, entry: Entry) -> None:
        queue = self.queue
        lane = entry.lane
        self.set_pending(entry)
        # The entry may have expired, and been its lane's last: then the lane is gone already.
        if queue.state.lanes.get(lane.name) is lane:
            if lane.unsettled == 0:
                lane.holder = None
                if queue.state.wants_drained:
                    queue.dispatch.drained(lane)
            queue.placement.resolve(lane)

    def _fail(self, entry: Entry) -> None:
        """Count a failed try; the message goes back, or is dead after too many."""
        queue = self.queue
        state = queue.state
        self.count_try(entry)
        lane = entry.lane
        lane.failures += 1
        queue.record(EventKind.FAIL, entry)
        is_poisoned = 0 < state.rules.park_after_failures <= lane.failures
        if lane.is_grouped and is_poisoned and not lane.is_parked:
            self._park(entry)
        if queue.nak_limit and entry.deliveries >= queue.nak_limit:
            self._die(entry, f"failed {entry.deliveries} times")
            return
        delay = retry_delay(queue.settings, entry.deliveries)
        if delay and lane.is_grouped:
            # Order first: the whole group waits with its failed message.
            lane.hold_until = max(lane.hold_until, state.now + delay)
            state.hold(lane, lane.hold_until)
        elif delay and not state.has_run_out(entry):
            queue.drop_cursor = min(queue.drop_cursor, entry.seq)
            for purge in queue.purges:
                purge.spare(entry.seq)
            queue.timers.send_away(entry, delay)
            return
        self._put_back(entry)

    def _park(self, entry: Entry) -> None:
        """Stop the group of a message that failed, until an operator lets the group go on."""
        queue = self.queue
        entry.lane.is_parked = True
        queue.state.record_trouble(EventKind.PARK, entry.lane.name, 0, entry.seq)
        queue.placement.resolve(entry.lane)

    def _refuse(self, entry: Entry, outcome: Outcome) -> None:
        """Put an entry back for any consumer but its holder."""
        queue = self.queue
        consumer = entry.holder
        can_be_kept_away = consumer is None or queue.exclusions.refuse(consumer, entry)
        if not can_be_kept_away and queue.settings.dlq is not None:
            queue.record(EventKind.REJECT, entry)
            self._die(entry, "undeliverable to a consumer that would get it again")
        elif outcome is Outcome.UNFIT or not can_be_kept_away:
            self._fail(entry)
        else:
            queue.record(EventKind.RELEASE, entry)
            self._put_back(entry)

    def _die(self, entry: Entry, reason: str) -> None:
        queue = self.queue
        queue.counters.dead += 1
        queue.record(EventKind.DEAD_LETTER, entry)
        queue.owner.dead_letter(queue, entry, reason)
        lane = entry.lane
        settings = queue.settings
        if lane.is_grouped and settings.dead_letter_then == "park":
            self._park_behind(entry, reason)
        elif lane.is_grouped and settings.dead_letter_rest and settings.dlq is not None:
            if lane.count > lane.unsettled and not queue.placement.is_seized(lane):
                queue.placement.seize(lane)
                queue.owner.rest_dies(queue, lane.name, f"behind {entry.seq}, {reason}")
        queue.finish(entry)

    def _park_behind(self, entry: Entry, reason: str) -> None:
        """Park the group of a message that has died, as a command would."""
        queue = self.queue
        state = queue.state
        lane = entry.lane
        if lane.is_parked and lane.name in state.parked:
            return
        record = ParkRecord("", state.wall_ms, f"{entry.seq} died: {reason}")
        lane.is_parked = True
        state.set_parked(lane.name, record)
        state.record_trouble(EventKind.PARK, lane.name, 0, entry.seq)
        queue.owner.parked(queue, lane.name, record)
        queue.placement.resolve(lane)
