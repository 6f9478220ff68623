# Compiled by mypyc: see setup.py.
"""Broker: what a protocol may ask of the core.

    open / drop             a connection comes and goes
    publishing              a message to one or many destinations, all or nothing
    subscribe / unsubscribe
    settle                  through the entry's own source (`core.host.subscription.settle`)
    transactions            begun, committed, aborted; named by the client
    run                     at the end of every batch of events: deliver what can be delivered

Nothing here waits. Work that finds no room waits and is done later, in order; the session is
blocked meanwhile and its protocol stops reading. `now` is a monotonic time in seconds; only
expiry follows the wall clock, through the clock's offset.

`Claims` know who has a name that only one reader at a time may have. A client may come back before
the broker has noticed that its old connection is dead. Then the new one takes the old one's place:
whoever claims a name ends the one that has it, unless that one keeps it. The protocol chooses the
name. It must say whose it is (host, user, client), or strangers could end each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from covey.config.settings import Settings
from covey.core.broker.recovery import recover
from covey.core.broker.rounds import EVERY_S, Rounds
from covey.core.broker.trace import Traces
from covey.core.broker.turns import Turns
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.audit import Audit, Unheard
from covey.core.events.event import EventSink
from covey.core.host.access import (
    check_connection,
    check_reading,
    check_subscription,
    make_durable,
    renew_durable,
)
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.temporary import check_made, delete_temporaries
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import Destination
from covey.core.naming.policies import Policies
from covey.core.publishing.arrivals import Arrivals
from covey.core.publishing.publishing import Publishing
from covey.core.publishing.transactions import Transactions
from covey.core.security.throttle import throttle_of
from covey.core.security.users import Identity, Users, Verb
from covey.core.selector import Selector
from covey.core.session import Client, Session
from covey.core.storage.commits import Commits
from covey.core.storage.memory import MemoryStore
from covey.core.storage.paging import Decoder
from covey.core.storage.store import MessageStore

Name = tuple[str, ...]


class Claims:
    """Who has which name."""

    def __init__(self) -> None:
        self._held: dict[Name, Callable[[], None]] = {}
        self._kept: set[Name] = set()  # those that nobody may take over

    def __len__(self) -> int:
        return len(self._held)

    def evict(self, name: Name) -> None:
        """End whoever has the name."""
        assert name not in self._kept, f"{name} is kept: ask first"
        lost = self._held.pop(name, None)
        if lost is not None:
            lost()

    def is_kept(self, name: Name) -> bool:
        """Say whether somebody has the name and keeps it."""
        return name in self._kept

    def hold(self, name: Name, lost: Callable[[], None], *, is_kept: bool = False) -> None:
        """Have a free name; `lost` is called when another claims it."""
        assert name not in self._held, f"{name} is taken: evict first"
        self._held[name] = lost
        if is_kept:
            self._kept.add(name)

    def release(self, name: Name, lost: Callable[[], None]) -> None:
        """Give a name back, unless another has it by now."""
        if self._held.get(name) == lost:
            del self._held[name]
            self._kept.discard(name)


class Broker:
    """The core's front door."""

    def __init__(
        self,
        settings: Settings,
        store: MessageStore | None = None,
        decoders: Mapping[str, Decoder] | None = None,
        audit: Audit | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        """Put the core together, and bring back what the store holds.

        `decoders` read a stored message back, one for each `Message.kind`; `audit` hears of
        denials, failed logins, slow consumers and groups in trouble; `wake` asks the server for
        another `run` soon.
        """
        self.wake: Callable[[], None] = wake or _nothing
        self.settings = settings
        self.limits = settings.broker
        self.audit = audit or Unheard()
        self.clock = Clock()
        self.users = Users(
            settings.users,
            settings.permissions,
            throttle=throttle_of(settings.broker),
            clock=self.clock,
            audit=self.audit,
        )
        self.commits = Commits(store or MemoryStore(), settings, decoders or {}, self.wake)
        self.promises = self.commits.promises
        arrivals = Arrivals(self.commits, self.clock, self.limits)
        self.sessions: dict[int, Session] = {}
        self.publishing = Publishing(self.commits, arrivals, settings.broker.id, self.sessions)
        self.transactions = Transactions(self.publishing, self.clock, self.limits)
        self.hosts: list[VirtualHost] = []
        self.turns = Turns(self.clock, self.commits, self.publishing, self.hosts, self.audit)
        self.rounds = Rounds(self)
        self.claims = Claims()
        self.traces = Traces(self.clock)
        self.session_numbers = 0
        self.blocks_gone = 0  # how often producers that are gone had to wait
        self.internal_errors = 0  # exceptions that nobody foresaw; whoever catches one logs it
        self.instance = "covey"  # names this run in message ids; the server makes it unique
        self.run_mark = ""  # and this in names of temporary destinations
        policies = Policies(settings)
        is_durable = self.commits.is_durable
        ledger = self.commits.ledger if is_durable else None
        for entry in settings.virtual_hosts:
            self.hosts.append(VirtualHost(entry, policies, self.clock, self.turns, ledger))
        if is_durable:
            recover(self.hosts, self.commits)

    @property
    def damages(self) -> list[str]:
        """Return what of the store was found damaged or missing, with its place."""
        pager = self.commits.pager
        return [*self.commits.store.damages, *(pager.damages if pager is not None else [])]

    # Connections.

    def host_named(self, name: str | None) -> VirtualHost:
        """Return the virtual host a client asks for; the first one if it names none."""
        if name is None:
            return self.hosts[0]
        for host in self.hosts:
            if name.lower() in host.host_names:
                return host
        raise RefusedError(f"no virtual host has the host name {name}", "not-found")

    def open(
        self, host: VirtualHost, identity: Identity, now: float, client: Client | None = None
    ) -> Session:
        """Let a connection in that has logged in; its protocol's side of it is the client."""
        check_connection(self.sessions.values(), identity, self.limits)
        self.turn(now)
        self.session_numbers += 1
        session = Session(self.session_numbers, host, identity, self.run_mark, client)
        session.connected_at = now
        self.sessions[session.id] = session
        return session

    def drop(self, session: Session, now: float) -> None:
        """Let a connection go: what it held returns to its place."""
        if session.is_gone:
            return
        session.is_gone = True
        self.blocks_gone += session.blocks
        self.turn(now)
        del self.sessions[session.id]
        self.publishing.waiting_work.forget(session)
        self.transactions.abort_all(session, now)
        for subscription in list(session.subscriptions.values()):
            session.host.unsubscribe(subscription, counted=True)
        session.subscriptions.clear()
        delete_temporaries(session)

    # Subscriptions.

    def subscribe(
        self,
        session: Session,
        subscription: Subscription,
        destinations: tuple[Destination, ...],
        now: float,
        *,
        is_browser: bool = False,
    ) -> None:
        """Let a session read from these destinations under the subscription's name."""
        self.turn(now)
        subscription.verb = Verb.BROWSE if is_browser else Verb.CONSUME
        self.check_subscription(session, subscription.name, destinations, subscription.verb)
        for destination in destinations:
            check_made(session, destination)
        session.subscriptions[subscription.name] = subscription
        try:
            for destination in destinations:
                session.host.subscribe(subscription, destination)
        except RefusedError:
            self.unsubscribe(session, subscription.name, now)
            raise

    def make_durable(
        self,
        session: Session,
        name: str,
        topics: tuple[Destination, ...],
        selector: Selector | None,
        now: float,
    ) -> Durable:
        """Make a durable subscription, or change what an existing one hears, for everybody."""
        self.turn(now)
        durable = make_durable(session, name, topics, selector, self.limits.id)
        self.commits.follow()  # somebody else may have just made it
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
        """Return a durable subscription that hears just this; another of its name ends before."""
        self.turn(now)
        durable = renew_durable(session, name, topics, selector, self.limits.id, not_from)
        self.commits.follow()
        return durable

    def unsubscribe(self, session: Session, name: str, now: float, *, counted: bool = True) -> None:
        """End a subscription; what it held returns."""
        subscription = session.subscriptions.pop(name, None)
        if subscription is None:
            raise RefusedError(f"there is no subscription {name}", "not-found")
        self.turn(now)
        session.host.unsubscribe(subscription, counted=counted)

    def check_subscription(
        self, session: Session, name: str, destinations: tuple[Destination, ...], verb: Verb
    ) -> None:
        """Raise RefusedError if the session may not have this subscription."""
        check_subscription(session, name, self.limits)
        self.check_readable(session, destinations, verb)

    def check_readable(
        self, session: Session, destinations: tuple[Destination, ...], verb: Verb
    ) -> None:
        """Raise RefusedError if one of them may not be read by this user or this connection."""
        check_reading(session, destinations, verb, self.limits.id)

    # Time.

    @property
    def now(self) -> float:
        """Return the time of the current turn."""
        return self.clock.now

    def turn(self, now: float) -> None:
        """Tell everybody what time it is; done before each batch of events."""
        self.clock.turn(now)

    def run(self, now: float, session: Session | None = None) -> None:
        """Deliver what can be delivered, and hand the turn's changes to the store.

        The session, if it was its turn, is the one that has made them.
        """
        if session is not None and self.promises.is_unclaimed:
            self.promises.claim(session)
        if now != self.clock.now:
            self.turn(now)
        if self.turns.run(self.limits.dispatch_budget):
            self.wake()

    def tick(self, now: float) -> float:
        """Do what is due by time alone; return when to be called again."""
        self.turn(now)
        deadline = self.turns.mark_due(now + EVERY_S)
        self.rounds.make(now)
        self.publishing.give_up_late(now)
        if self.turns.is_due:
            self.run(now)
        return deadline

    def listen(self, events: EventSink | None) -> None:
        """Send the events of all queues, present and future, to a sink."""
        for host in self.hosts:
            is_other = host is not self.hosts[0]
            host.report_to(events.of_host(host.id) if events is not None and is_other else events)
        self.traces.resume()


def _nothing() -> None:
    """Wake nobody: a broker in a test runs when it is told to."""
