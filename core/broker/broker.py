# Compiled by mypyc: see setup.py.
"""Broker: what a protocol may ask of the core, for one virtual host.

    open / drop             a connection comes and goes
    publishing              a message to one or many destinations, all or nothing
    subscribe / unsubscribe
    settle                  through the entry's own source (`core.host.subscription.settle`)
    transactions            begun, committed, aborted; named by the client
    run                     at the end of every batch of events: deliver what can be delivered
    go_on                   once a turn of the event loop: a portion of the jobs, and `run`

No call here blocks. Work that finds no room is put aside and done later, in order. Meanwhile its
session is blocked, and the session's protocol stops reading. `now` is a monotonic time in seconds.
Only expiry follows the wall clock, through the clock's offset.

`Claims` know who holds a name that only one reader at a time may have. A client may come back
before the broker has noticed that its old connection is dead. Then the new connection takes the
name: it ends the reader that holds the name, unless that reader keeps it. The protocol chooses the
name. The name must say whose it is (host, user, client), or strangers could end each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from covey.config.settings import BrokerSettings, Settings
from covey.core.broker.recovery import Recovery, recover
from covey.core.broker.rounds import EVERY_S, Rounds
from covey.core.broker.shared import Shared
from covey.core.broker.trace import Traces
from covey.core.broker.turns import NEVER, Turns
from covey.core.errors import RefusedError
from covey.core.events.audit import Audit
from covey.core.events.event import EventSink
from covey.core.host.access import (
    check_connection,
    check_patterns,
    check_reading,
    check_subscription,
    make_durable,
    renew_durable,
)
from covey.core.host.attachment import Disconnect, Subscribe, Unsubscribe
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.temporary import check_made
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import JobKeeper, Jobs, Steps
from covey.core.naming.destination import Destination
from covey.core.naming.policies import Policies
from covey.core.publishing.arrivals import Arrivals
from covey.core.publishing.publishing import Publishing
from covey.core.publishing.transactions import Transactions
from covey.core.publishing.transfer import Bury, Group
from covey.core.queue.acceptance import Acceptance
from covey.core.security.users import Identity, Verb
from covey.core.selector import Selector
from covey.core.session import Client, Session
from covey.core.storage.commits import Commits
from covey.core.storage.memory import MemoryStore
from covey.core.storage.paging import Decoder
from covey.core.storage.store import MessageStore

Name = tuple[str, ...]


class Claims:
    """Who holds which name."""

    def __init__(self) -> None:
        self._held: dict[Name, Callable[[], None]] = {}
        self._kept: set[Name] = set()  # names that nobody may take over

    def __len__(self) -> int:
        return len(self._held)

    def evict(self, name: Name) -> None:
        """End the reader that holds the name, if there is one."""
        assert name not in self._kept, f"{name} is kept: ask first"
        lost = self._held.pop(name, None)
        if lost is not None:
            lost()

    def is_kept(self, name: Name) -> bool:
        """Return True if somebody holds the name and nobody may take it over."""
        return name in self._kept

    def hold(self, name: Name, lost: Callable[[], None], *, is_kept: bool = False) -> None:
        """Hold a free name; `lost` is called when another reader claims the name."""
        assert name not in self._held, f"{name} is taken: evict first"
        self._held[name] = lost
        if is_kept:
            self._kept.add(name)

    def release(self, name: Name, lost: Callable[[], None]) -> None:
        """Give a name back, unless another reader holds it by now."""
        if self._held.get(name) == lost:
            del self._held[name]
            self._kept.discard(name)


class Keeper(JobKeeper):
    """What jobs ask of the broker: that answers wait for their changes, and another turn."""

    def __init__(self, commits: Commits, wake: Callable[[], None]) -> None:
        self._commits = commits
        self._wake = wake

    def claim(self, session: Session, *, is_over: bool) -> None:
        """Make the session's answers wait for this turn's changes; if over, for earlier ones, too.

        Called for each portion of a job that the session asked for.
        """
        if is_over:
            self._commits.follow()
        self._commits.promises.claim(session)

    def wake(self) -> None:
        """Ask the server for another turn."""
        self._wake()


class Broker:
    """The core's front door."""

    def __init__(
        self,
        settings: Settings,
        store: MessageStore | None = None,
        decoders: Mapping[str, Decoder] | None = None,
        audit: Audit | None = None,
        wake: Callable[[], None] | None = None,
        stopwatch: Callable[[], float] | None = None,
        shared: Shared | None = None,
        space: str = "",
        *,
        is_recovered: bool = True,
    ) -> None:
        """Put the core together for one virtual host, and bring back what its store holds.

        `decoders` read a stored message back, one for each `Message.kind`. `audit` hears of
        denials, failed logins, slow consumers and groups in trouble. `wake` asks the server for
        another `go_on` soon. `stopwatch` tells the time within a turn and bounds portions of jobs.
        `shared` is what the brokers of the process have in common. `space` is the id of the virtual
        host; without it, the first virtual host is meant. If `is_recovered` is False, the caller
        places what `recovery` brings before anybody else uses the broker.
        """
        self.wake: Callable[[], None] = wake or _nothing
        self.look_sooner: Callable[[], None] = _nothing  # called if the next tick is too late
        self._looks_at = 0.0  # when the next tick is planned
        self.settings = settings
        self.limits = settings.broker
        self.shared = shared or Shared(settings, audit, stopwatch)
        self.audit = self.shared.audit
        self.clock = self.shared.clock
        self.users = self.shared.users
        kept = store or MemoryStore()
        counts = (self.shared.unwritten, self.shared.bodies)
        self.commits = Commits(kept, settings, decoders or {}, self.wake, self.clock, *counts)
        self.promises = self.commits.promises
        self.turn_lengths = self.shared.turn_lengths
        self.jobs = Jobs(self.clock, Keeper(self.commits, self.wake), self.shared.stopwatch)
        self.allow(self.limits)
        arrivals = Arrivals(self.commits, self.clock, self.limits)
        self.sessions: dict[int, Session] = {}
        told = (settings.broker.id, self.sessions, self.jobs, self.turn_lengths)
        self.publishing = Publishing(self.commits, arrivals, *told)
        self.transactions = Transactions(self.publishing, self.clock, self.limits, self.jobs)
        hosts: list[VirtualHost] = []
        self.turns = Turns(self.shared, self.commits, self.publishing, hosts)
        self.rounds = Rounds(self)
        self.claims = Claims()
        self.traces = Traces(self.clock)
        self.blocks_gone = 0  # how often producers that are gone had to wait
        self.internal_errors = 0  # unexpected exceptions; whoever catches one logs it
        self.instance = "covey"  # names this run in message ids; the server makes it unique
        self.run_mark = ""  # names this run in names of temporary destinations
        ledger = self.commits.ledger if self.commits.is_durable else None
        given = (settings.virtual_host(space), Policies(settings), self.clock)
        self.host = VirtualHost(*given, self.turns, ledger, self.jobs)
        self.host.audience.freed = self.publishing.waiting_work.free
        hosts.append(self.host)
        if ledger is not None and is_recovered:
            recover(hosts, self.commits)
        self.shared.brokers.append(self)

    def recovery(self) -> Recovery:
        """Return what brings back, in pieces, what the store holds."""
        return Recovery([self.host], self.commits)

    @property
    def damages(self) -> list[str]:
        """Return the damaged or missing parts of the store, each with its place."""
        pager = self.commits.pager
        return [*self.commits.store.damages, *(pager.damages if pager is not None else [])]

    def allow(self, limits: BrokerSettings) -> None:
        """Apply other limits from now on."""
        self.limits = limits
        self.turn_lengths.slow_s = limits.slow_turn_ms / 1000
        self.jobs.allow(limits.work_portion, limits.work_portion_ms, limits.session_work_max)

    # Connections.

    def host_named(self, name: str | None) -> VirtualHost:
        """Return the virtual host if this is one of its host names, or None: no name was asked."""
        if name is None or name.lower() in self.host.host_names:
            return self.host
        raise RefusedError(f"no virtual host has the host name {name}", "not-found")

    def open(
        self, host: VirtualHost, identity: Identity, now: float, client: Client | None = None
    ) -> Session:
        """Open a session for a connection that has logged in; `client` is its protocol's side."""
        shared = self.shared
        check_connection(shared.sessions.values(), identity, self.limits)
        self.turn(now)
        session = Session(shared.new_session_number(), host, identity, self.run_mark, client)
        session.connected_at = now
        self.sessions[session.id] = shared.sessions[session.id] = session
        return session

    def drop(self, session: Session, now: float) -> None:
        """End a connection's session; the messages that it held return to their places."""
        if session.is_gone:
            return
        session.is_gone = True
        self.blocks_gone += session.blocks
        self.turn(now)
        del self.sessions[session.id]
        self.shared.sessions.pop(session.id, None)
        self.publishing.waiting_work.forget(session)
        for subscription in session.subscriptions.values():
            subscription.window.is_paused = True  # no more deliveries, whatever jobs still run
        self._end_jobs(session, lambda: self.jobs.begin(Disconnect(session)))

    def _end_jobs(self, session: Session, then: Callable[[], None]) -> None:
        """Stop the jobs of a session that has ended, then call `then`.

        A job that must not be stopped (`outlives_session`) is waited for.
        """
        for job in self.jobs.of(session):
            if job.outlives_session:
                job.then(lambda: self._end_jobs(session, then))
                return
            self.jobs.stop(job)
        then()

    # Subscriptions.

    def subscribe(
        self,
        session: Session,
        subscription: Subscription,
        destinations: tuple[Destination, ...],
        now: float,
        *,
        is_browser: bool = False,
        is_waited_for: bool = False,
    ) -> Subscribe:
        """Let a session read from these destinations under the subscription's name.

        The job is over when the session reads from all of them; or from none, and the subscription
        ends (`Subscription.end`).
        """
        self.turn(now)
        subscription.verb = Verb.BROWSE if is_browser else Verb.CONSUME
        self.check_subscription(session, subscription.name, destinations, subscription.verb)
        for destination in destinations:
            check_made(session, destination)
        check_patterns(session.host.patterns, destinations, self.limits)
        job = Subscribe(subscription, destinations)
        if job.total > self.limits.work_portion:
            self.jobs.check(session, job.total)
        session.subscriptions[subscription.name] = subscription
        self.jobs.begin(job, is_waited_for=is_waited_for)
        if job.is_over and job.flaw is not None:
            self.unsubscribe(session, subscription.name, now)
            raise job.flaw
        return job

    def make_durable(
        self,
        session: Session,
        name: str,
        topics: tuple[Destination, ...],
        selector: Selector | None,
        now: float,
    ) -> Durable:
        """Make a durable subscription, or change the topics and selector of an existing one."""
        self.turn(now)
        durable = make_durable(session, name, topics, selector, self.limits.id)
        self.commits.follow()  # another session may have made it, in a batch not yet on disk
        return durable

    def renew_durable(
        self,
        session: Session,
        name: str,
        topics: tuple[Destination, ...],
        selector: Selector | None,
        now: float,
        *,
        not_from: str,
    ) -> Durable:
        """Return a durable subscription to exactly this; one of that name that differs is ended."""
        self.turn(now)
        durable = renew_durable(session, name, topics, selector, self.limits.id, not_from)
        self.commits.follow()
        return durable

    def unsubscribe(
        self,
        session: Session,
        name: str,
        now: float,
        *,
        counted: bool = True,
        is_waited_for: bool = False,
        after: Steps | None = None,
    ) -> Unsubscribe:
        """End a subscription and return the messages that it held; the job does so in portions.

        `after` are steps of the protocol's own. They are done last.
        """
        subscription = session.subscriptions.pop(name, None)
        if subscription is None:
            raise RefusedError(f"there is no subscription {name}", "not-found")
        self.turn(now)
        for job in self.jobs.of(session):
            if isinstance(job, Subscribe) and job.subscription is subscription:
                self.jobs.stop(job)
            elif isinstance(job, Acceptance):
                self.jobs.complete(job)  # a message that was accepted must not be returned
        self.publishing.fan_out(now)  # the subscription gets what was published before its end
        if subscription.feed is not None:
            self.host.fan_outs.catch_up(subscription.feed, now)
        leave = Unsubscribe(subscription, counted=counted, after=after)
        self.jobs.begin(leave, is_waited_for=is_waited_for)
        return leave

    def check_subscription(
        self, session: Session, name: str, destinations: tuple[Destination, ...], verb: Verb
    ) -> None:
        """Raise RefusedError if the session may not have this subscription."""
        check_subscription(session, name, self.limits)
        self.check_readable(session, destinations, verb)

    def check_readable(
        self, session: Session, destinations: tuple[Destination, ...], verb: Verb
    ) -> None:
        """Raise RefusedError if this user or this connection may not read one of them."""
        check_reading(session, destinations, verb, self.limits.id)

    # Time.

    @property
    def now(self) -> float:
        """Return the time of the current turn."""
        return self.clock.now

    def turn(self, now: float) -> None:
        """Tell everybody what time it is; done before each batch of events."""
        self.clock.turn(now)

    def begin_turn(self, now: float, doing: str) -> None:
        """Begin a batch of events: tell the time, and measure from here to the end of `run`."""
        self.clock.turn(now)
        self.turn_lengths.begin(doing)

    def run(self, now: float, session: Session | None = None) -> None:
        """Deliver what can be delivered, and hand the turn's changes to the store.

        `session` is the session that made these changes, if the turn was one session's.
        """
        if session is not None and self.promises.is_unclaimed:
            self.promises.claim(session)
        if now != self.clock.now:
            self.turn(now)
        is_more = self.turns.run(self.limits.dispatch_budget)
        if self.turns.dying:
            self._bury_rests()
            is_more = True
        if self.turns.finished:
            self._end_finished()
            is_more = True
        if self.turns.soonest < self._looks_at:
            self._looks_at = self.turns.soonest
            self.look_sooner()
        self.turns.soonest = NEVER
        # A job may rest until a client does something. This turn may have been that.
        if is_more or (self.jobs.is_any and (session is not None or self.jobs.is_busy)):
            self.wake()
        self.turn_lengths.end()

    def _bury_rests(self) -> None:
        """Dead-letter the rest of each group whose message has died, if its queue wants that."""
        dying, self.turns.dying = self.turns.dying, []
        for queue, group, reason in dying:
            rest = Group(queue, group, is_seized=True)
            count = 0 if rest.lane is None else rest.lane.count
            job = Bury(rest, None, count, reason)
            job.then(partial(self.host.queue_factory.dying.end, queue.name, group))
            self.jobs.begin(job)

    def _end_finished(self) -> None:
        """Tell consumers of a single group that the group is done; each ends its subscription."""
        finished, self.turns.finished = self.turns.finished, []
        for consumer, group in finished:
            if not consumer.is_gone:
                consumer.group_done(group)

    def go_on(self, now: float) -> None:
        """Do a portion of the jobs, then `run`; called once a turn of the event loop."""
        self.begin_turn(now, "deliveries")
        if self.jobs.is_any:
            self.jobs.run()
            self.turn_lengths.doing = self.jobs.last_done
        self.run(now)

    def tick(self, now: float) -> float:
        """Do what is due by time alone; return when to be called again."""
        self.begin_turn(now, "what is due by time")
        self._looks_at = self.turns.mark_due(now + EVERY_S)
        self.rounds.make(now)
        if self.publishing.give_up_late(now):
            self._looks_at = now
        if self.turns.is_due:
            self.run(now)
        if self.jobs.is_any:
            self.wake()
        self.turn_lengths.end()
        return self._looks_at

    def listen(self, events: EventSink | None) -> None:
        """Send the events of all queues, present and future, to a sink."""
        before, position = self.commits.watched(self.instance, events)
        sink = None if events is None else events.of_host(self.host.id, before, position)
        self.host.report_to(sink)
        self.traces.resume()


def _nothing() -> None:
    """Wake nobody: a broker in a test runs when it is told to."""
