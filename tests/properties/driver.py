"""The driver: random events for one queue and its referee, all from one seed.

Biased towards trouble: few groups, few credits, many parks, failures and leaves, and a pump that
often comes late or with a budget of two. `run(seed, strategy)` plays one sequence; a violation
carries the seed and the last events, so that it can be played again.
"""

from __future__ import annotations

from random import Random

from covey.core.events.event import EventKind
from covey.core.model.consumer import Window
from covey.core.model.entry import PENDING, STORING, Entry, Outcome
from covey.core.queue import policy as commands
from covey.core.queue.balance import plan
from covey.core.queue.purge import Purge
from covey.core.queue.queue import Queue
from covey.core.queue.quota import oldest_available
from covey.core.selector import compile_selector
from covey.groups.key import GroupKey
from tests.doubles import Letter, at_once
from tests.properties.bodies import Bodies
from tests.properties.claiming import NEXT
from tests.properties.clients import Client, Slip
from tests.properties.judged import JudgedBrowser, JudgedConsumer, outcome_of
from tests.properties.law import Policy, settings_of, strategy_of
from tests.properties.ownership import OWNERSHIPS
from tests.properties.referee import Referee
from tests.properties.seeds import portions
from tests.properties.taking import Commands, Heirs
from tests.properties.transacted import Transacted

STRATEGIES = tuple(OWNERSHIPS)
GROUPS = ("", "a", "b", "c", "d")  # by `BUCKETS` buckets b shares with nobody, a with d
COLOURS = ("red", "blue")
SELECTORS = {colour: compile_selector(f"colour = '{colour}'") for colour in COLOURS}
EVENTS_PER_RUN = 100
CLIENTS_MAX = 5
TRACE_SHOWN = 40

WEIGHTS = {
    "send": 26,
    "join": 9,
    "leave": 7,
    "retire": 2,
    "pause": 3,
    "credit": 12,
    "settle": 20,
    "accept": 4,
    "enlist": 4,
    "end_transaction": 2,
    "page_out": 4,
    "page_in": 5,
    "drop_head": 1,
    "change_policy": 1,
    "commit": 5,
    "park": 5,
    "close": 2,
    "rebalance": 1,
    "change_strategy": 1,
    "purge": 1,
    "late": 3,
    "take_group": 3,
    "take_numbers": 2,
    "go_on": 6,
    "browse": 1,
    "tick": 9,
}


class Driver:
    """One queue, one referee, one seed."""

    def __init__(self, seed: int, strategy: str) -> None:
        self.random = Random(f"{strategy} {seed}")
        chance = self.random.random
        self.policy = Policy(
            unsettled_max=self.random.choice((0, 0, 1, 2)),
            park_after_failures=self.random.choice((0, 0, 2)),
            nak_limit=self.random.choice((0, 0, 3)),
            delay_s=self.random.choice((0.0, 0.0, 0.5)),
            sticky_return_s=self.random.choice((0.0, 0.0, 2.0)),
            consumers_before=self.random.choice((0, 0, 0, 0, 0, 2)),
            is_strict=chance() < 0.1,
            deadline_s=self.random.choice((0.0, 0.0, 1.5)),
            spill_s=self.random.choice((0.0, 0.0, 0.6)),
            rebalance_s=self.random.choice((0.0, 0.0, 0.4)),
            rebalance_rate=self.random.choice((1, 100)),
            rate=self.random.choice((0.0, 0.0, 0.0, 2.0, 20.0)),
            dead_rest=chance() < 0.25,
            dead_then_park=chance() < 0.15,
        )
        if self.policy.consumers_before or chance() < 0.05:
            self.policy.time_before_s = 1.0
        self.budget = 2 if chance() < 0.3 else 1000
        self.pump_chance = self.random.choice((1.0, 0.6, 0.3))
        self.has_selectors = chance() < 0.5
        self.has_commits = chance() < 0.3
        self.has_expiry = chance() < 0.4
        self.has_paging = chance() < 0.4
        self.packing = Random(f"{strategy} {seed} packing")  # leaves the other events as they were
        self.pack_chance = self.packing.choice((0.0, 0.3, 1.0))
        self.has_priorities = chance() < 0.4
        self.has_claims = chance() < 0.4
        self.groups = GROUPS[: self.random.choice((2, 3, 5))]
        self.now = 1.0
        self.wall_ms = 1_000_000
        heirs = Heirs()
        self.queue = Queue(
            "judged", settings_of(self.policy), strategy_of(strategy), GroupKey(), heirs
        )
        self.referee = Referee(self.queue, self.policy, OWNERSHIPS[strategy]())
        self.queue.state.report_to(self.referee)
        self.commands = Commands(self.queue, self.referee, heirs)
        self.consumers: dict[int, JudgedConsumer] = {}
        self.browsers: list[JudgedBrowser] = []
        self.storing: list[Entry] = []
        self.bodies = Bodies(self.queue, self.referee)
        self.transacted = Transacted(self.referee, Random(f"{strategy} {seed} transacted"))
        self.trace: list[str] = []

    def play(self, events: int) -> None:
        """Play random events; the pump runs after most of them."""
        names = list(WEIGHTS)
        self.on_join()
        self.on_join()
        for name in self.random.choices(names, list(WEIGHTS.values()), k=events):
            self.trace.append(name)
            getattr(self, f"on_{name}")()
            if self.random.random() < self.pump_chance:
                self.pump()
        self.pump_until_rest()

    def pump(self) -> bool:
        """Pump once; at rest the referee looks at everything."""
        self.trace.append(f"  pump {self.now} {self.wall_ms}")
        self.referee.pump_begins(self.now, self.wall_ms)
        self.referee.is_scan_limited = self.budget == 2
        self.referee.may_rebalance = 0 < self.queue.balancer.due <= self.now
        if self.bodies.out and self.packing.random() < self.pack_chance:
            self.bodies.pack()
        more = self.queue.pump(self.now, self.wall_ms, self.budget)
        if self.referee.may_rebalance:
            self.referee.see_rebalance()
        for consumer in [one for one in self.consumers.values() if one.is_finished]:
            self._leave(consumer)
            more = True
        if not more and self.bodies.read_wanted():
            return True
        if not more:
            self.referee.rests()
            for browser in [] if self.bodies.out else self.browsers:
                browser.judge_rest()  # nobody reads what is out for it here
        return more

    def pump_until_rest(self) -> None:
        """Pump until nothing moves: it must come to rest."""
        for _ in range(2000):
            if not self.pump():
                return
        raise AssertionError("the pump never rests")

    # Events.

    def on_send(self) -> None:
        """Send one to three messages."""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            message = Letter(self.random.choice((1, 5)), colour=self.random.choice(COLOURS))
            message.group = self.random.choice(self.groups)
            closes = bool(message.group) and self.random.random() < 0.08
            message.group_sequence = -1 if closes else 0
            if self.has_expiry and self.random.random() < 0.4:
                message.expires_ms = self.wall_ms + self.random.choice((100, 700, 1500, 3000))
            is_storing = self.has_commits and self.random.random() < 0.5
            self._send(message, is_storing=is_storing)

    def _send(self, message: Letter, *, is_storing: bool) -> None:
        seq = self.queue.next_seq
        colour = str(message.lookup("colour"))
        self.trace.append(f"    {seq} {message.group!r} {colour}")
        slip = Slip(
            seq,
            message.group,
            message.size,
            colour,
            message.group_sequence < 0,
            message.expires_ms,
            "storing" if is_storing else "pending",
        )
        self.referee.sent(slip)
        entry = self.queue.enqueue(message, STORING if is_storing else PENDING)
        if is_storing:
            self.storing.append(entry)

    def on_commit(self) -> None:
        """Bring one commit back."""
        if self.storing:
            entry = self.storing.pop(self.random.randrange(len(self.storing)))
            self.trace.append(f"    {entry.seq}")
            self.referee.committed(entry.seq)
            self.queue.committed(entry)

    def on_join(self) -> None:
        """Let a consumer in, with whatever it may ask for."""
        if len(self.consumers) >= CLIENTS_MAX:
            return
        pick = self.random.choice
        client = Client(0, pick((0, 1, 2, 5, 50)), pick((0, 0, 3)))
        client.weight = pick((1, 1, 2))
        client.priority = pick((0, 1)) if self.has_priorities else 0
        client.unsettled_max = pick((100_000, 100_000, 1, 2))
        client.client_id = pick(("", "", "x", "y")) if self.policy.sticky_return_s else ""
        client.is_presettled = self.random.random() < 0.15
        client.deadline_s = pick((self.policy.deadline_s, self.policy.deadline_s, 0.7))
        if self.has_claims and self.random.random() < 0.5:
            client.group_asked = pick((NEXT, NEXT, *self.groups[1:]))
        elif self.has_selectors:
            client.colour = pick(("", *COLOURS))
            client.from_seq = pick((0, 0, 0, -1))
            client.is_exclusive = self.random.random() < 0.2
        self._join(client)

    def _join(self, client: Client) -> None:
        consumer = JudgedConsumer(Window(client.count, client.size), self.referee)
        consumer.weight = client.weight
        consumer.priority = client.priority
        consumer.unsettled_max = client.unsettled_max
        consumer.client_id = client.client_id
        consumer.is_presettled = client.is_presettled
        if client.deadline_s != self.policy.deadline_s:
            consumer.deadline_asked = client.deadline_s
        if client.is_presettled:
            client.deadline_s = 0.0
        consumer.selector = SELECTORS.get(client.colour)
        consumer.from_seq = client.from_seq
        consumer.is_exclusive = client.is_exclusive
        consumer.group_asked = client.group_asked
        client.number = self.queue.consumer_numbers + 1
        if client.from_seq < 0:
            client.from_seq = self.queue.next_seq
        self.trace.append(f"    {client}")
        self.referee.now = self.now
        self.referee.joined(client)
        self.queue.join(consumer, self.now)
        assert consumer.id == client.number
        self.consumers[consumer.id] = consumer

    def on_leave(self) -> None:
        """Let a consumer go, or a browser."""
        self.referee.now = self.now
        if self.browsers and self.random.random() < 0.2:
            browser = self.browsers.pop()
            self.referee.browser_left(has_ended=browser.has_ended)
            self.queue.leave(browser, self.now)
            return
        consumer = self._some_consumer()
        if consumer is not None:
            self._leave(consumer)

    def _leave(self, consumer: JudgedConsumer) -> None:
        del self.consumers[consumer.id]
        self.referee.left(consumer.id)
        self.queue.leave(consumer, self.now)

    def on_retire(self) -> None:
        """Let a consumer have no new groups."""
        consumer = self._some_consumer()
        if consumer is not None:
            kept = {lane.name for lane in consumer.lanes}
            self.referee.retired(consumer.id, kept)
            commands.retire(self.queue, consumer, self.now)

    def on_pause(self) -> None:
        """Fill a consumer's outbox, or empty it."""
        consumer = self._some_consumer()
        if consumer is not None:
            paused = not consumer.window.is_paused
            self.referee.clients[consumer.id].is_paused = paused
            consumer.window.is_paused = paused
            consumer.window.reconsider()

    def on_credit(self) -> None:
        """Grant credit, sometimes to a browser."""
        count, size = self.random.choice(((1, 0), (1, 0), (2, 0), (0, 3), (10, 0)))
        if self.browsers and self.random.random() < 0.2:
            self.random.choice(self.browsers).window.grant(count, size)
            return
        consumer = self._some_consumer()
        if consumer is not None:
            client = self.referee.clients[consumer.id]
            client.count += count
            client.size += size
            consumer.window.grant(count, size)

    def on_settle(self) -> None:
        """Settle one or two deliveries."""
        for _ in range(self.random.choice((1, 1, 2))):
            held = [entry for one in self.consumers.values() for entry in one.unsettled.values()]
            if not held:
                return
            entry = self.random.choice(held)
            outcome = self.random.choices(tuple(Outcome), (12, 4, 4, 2, 1, 1))[0]
            self.trace.append(f"    {entry.seq} {outcome.value}")
            self.referee.now = self.now
            self.referee.heard(entry.holder.id if entry.holder else 0)
            outcome_of(self.referee, entry.seq, outcome)
            self.queue.settle(entry, outcome, self.now)

    def on_accept(self) -> None:
        """Accept some of what one consumer holds in one go, one of it twice.

        What a transaction has does not go with it.
        """
        holding = [consumer for consumer in self.consumers.values() if consumer.unsettled]
        if not holding:
            return
        consumer = self.random.choice(holding)
        held = list(consumer.unsettled.values())
        row = self.random.sample(held, self.random.randint(1, len(held)))
        self.trace.append(f"    {[entry.seq for entry in row]}")
        self.referee.now = self.now
        self.referee.heard(consumer.id)
        for entry in row:
            self.referee.accepted(entry.seq)
        self.queue.accept(consumer, [*row, row[0], *self.transacted.enlisted()], self.now)

    def on_enlist(self) -> None:
        """Settle something in a transaction."""
        held = [entry for one in self.consumers.values() for entry in one.unsettled.values()]
        if held:
            entry = self.random.choice(held)
            outcome = self.random.choice((Outcome.ACCEPTED, Outcome.RELEASED, Outcome.FAILED))
            self.trace.append(f"    {entry.seq} {outcome.value}")
            self.referee.now = self.now
            self.transacted.enlist(entry, outcome, self.now)

    def on_end_transaction(self) -> None:
        """Commit or abort."""
        is_commit = self.random.random() < 0.6
        self.trace.append(f"    {'commit' if is_commit else 'abort'}")
        self.referee.now = self.now
        self.transacted.end(self.now, is_commit=is_commit)

    def on_page_out(self) -> None:
        """Put some bodies out of memory."""
        if self.has_paging:
            self.bodies.put_out(self.random)

    def on_page_in(self) -> None:
        """Read some bodies, wanted or not."""
        self.bodies.read_some(self.random)

    def on_drop_head(self) -> None:
        """Give up the oldest that nobody has, as a full ring does."""
        entry = oldest_available(self.queue)
        if entry is not None:
            self.trace.append(f"    {entry.seq}")
            self.referee.dropped_one(entry.seq)
            self.queue.counters.dropped += 1
            self.queue.drop(entry, EventKind.DROP)

    def on_change_policy(self) -> None:
        """Let another cap and another patience hold."""
        self.policy.unsettled_max = self.random.choice((0, 1, 2))
        self.policy.park_after_failures = self.random.choice((0, 2))
        self.policy.is_strict = self.random.random() < 0.2
        self._change_deadline(self.random.choice((0.0, 1.5)))
        self.trace.append(f"    {self.policy}")
        self.referee.rearm()
        self.queue.state.now = self.now
        self.queue.apply(settings_of(self.policy))

    def _change_deadline(self, deadline_s: float) -> None:
        if deadline_s == self.policy.deadline_s:
            return
        self.policy.deadline_s = deadline_s
        for number, consumer in self.consumers.items():
            client = self.referee.clients[number]
            client.heard_at = self.now
            if consumer.deadline_asked < 0 and not client.is_presettled:
                client.deadline_s = deadline_s

    def on_park(self) -> None:
        """Park a group or let it go on."""
        group = self.random.choice(self.groups[1:])
        parked = self.random.random() < 0.5
        self.trace.append(f"    {group!r} {parked}")
        self.referee.parked(group, parked)
        commands.park(self.queue, group, self.now, parked=parked)

    def on_take_group(self) -> None:
        """Take a group out of the queue, as a purge, a move or a burial does, in portions."""
        self.referee.now = self.now
        group = self.random.choice(self.groups[1:])
        self.trace.append(f"    {self.commands.take_group(group, self.random)}")

    def on_take_numbers(self) -> None:
        """Take single messages out, in portions."""
        self.trace.append(f"    {self.commands.take_numbers(self.random)}")

    def on_go_on(self) -> None:
        """Do a portion of what was begun."""
        self.commands.go_on(self.now, self.random)
        self.referee.now = self.now
        self.transacted.go_on(self.now)

    def on_close(self) -> None:
        """Close a group by command."""
        group = self.random.choice(self.groups[1:])
        self.trace.append(f"    {group!r}")
        self.referee.closed(group)
        commands.close_group(self.queue, group, self.now)

    def on_rebalance(self) -> None:
        """Share out the groups anew."""
        planned = plan(self.queue)
        steps = [(step.unit.key, step.unit.owner.id, step.target.id) for step in planned]
        self.trace.append(f"    {steps}")
        self.referee.rebalanced(steps)
        groups = sum(len(step.unit.lanes) for step in planned)
        assert commands.rebalance(self.queue, self.now) == groups

    def on_change_strategy(self) -> None:
        """Let another strategy decide."""
        name = self.random.choice(STRATEGIES)
        self.trace.append(f"    {name}")
        self.referee.strategy_changed(OWNERSHIPS[name]())
        commands.change_strategy(self.queue, strategy_of(name), self.now)

    def on_purge(self) -> None:
        """Drop what nobody has acquired."""
        count = sum(slip.state != "held" for slip in self.referee.slips.values())
        self.referee.purged()
        purge = Purge(self.queue)
        purge.now = self.now
        assert at_once(purge).count == count

    def on_late(self) -> None:
        """Settle what was taken from a consumer: it settles nothing, and the consumer is back."""
        consumer = self._some_consumer()
        if consumer is not None:
            self.trace.append(f"    {consumer.id}")
            self.referee.now = self.now
            self.referee.heard(consumer.id)
            self.queue.heard_late(consumer, 0, self.now)

    def on_browse(self) -> None:
        """Let a browser in."""
        if len(self.browsers) >= 2:
            return
        browser = JudgedBrowser(Window(self.random.choice((0, 2, 50))), self.referee)
        browser.is_browser = True
        browser.browse_ends = self.random.random() < 0.5
        browser.sees_acquired = self.random.random() < 0.7
        browser.from_seq = self.random.choice((0, 0, -1))
        if self.random.random() < 0.3:
            browser.selector = SELECTORS[self.random.choice(COLOURS)]
        self.referee.now = self.now
        self.referee.browser_joined()
        self.queue.join(browser, self.now)
        self.browsers.append(browser)

    def on_tick(self) -> None:
        """Let time pass."""
        step = self.random.choice((100, 500, 1000, 2500))
        self.now += step / 1000
        self.wall_ms += step

    def _some_consumer(self) -> JudgedConsumer | None:
        if not self.consumers:
            return None
        return self.random.choice(list(self.consumers.values()))


def run(seed: int, strategy: str, events: int = EVENTS_PER_RUN) -> int:
    """Play one sequence and give its number of deliveries; a violation names the seed."""
    driver = Driver(seed, strategy)
    try:
        with portions(f"{strategy} {seed}"):
            driver.play(events)
    except Exception as error:
        trace = "\n".join(driver.trace[-TRACE_SHOWN:])
        setting = f"{driver.policy}, budget {driver.budget}"
        raise AssertionError(f"{strategy}, seed {seed}: {error!r}\n{setting}\n{trace}") from error
    return driver.referee.deliveries
