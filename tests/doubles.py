"""Doubles: what the core meets at its edges, in a form that a test can look into.

A message in no encoding, a consumer that keeps what it gets, the connection behind a session, a
store whose promises a test keeps, an operator's ears, a sink of events, an owner of queues. None is
a mock: each does what the core asks of it, in the simplest way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.broker.cluster import Cluster
from covey.core.broker.directory import Directory
from covey.core.broker.shared import Shared
from covey.core.clock import Clock
from covey.core.events.audit import Audit, OperatorAction
from covey.core.events.event import EventKind, EventSink, QueueEvents
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job, Steps
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry
from covey.core.model.message import Message, Neutral, Origin
from covey.core.naming.policies import Policies
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity
from covey.core.selector import Value
from covey.core.session import Client, Session
from covey.core.storage.cluster import ClusterView, NodeRow, SpaceLoad, SpaceRow
from covey.core.storage.memory import MemoryStore
from covey.core.storage.store import MessageStore

_SETTINGS = Settings()
_HOST = VirtualHost(_SETTINGS.virtual_hosts[0], Policies(_SETTINGS), Clock(), Unowned())
NOBODY = Session(0, _HOST, Identity("nobody"))  # the queue never looks at a consumer's session

Event = tuple[EventKind, str, int, int]


def make_directory(
    settings: Settings,
    store: MessageStore | None = None,
    audit: Audit | None = None,
    stopwatch: Callable[[], float] | None = None,
) -> Directory:
    """Make a broker for each virtual host; the first one has the store."""
    directory = Directory(settings, Shared(settings, audit, stopwatch))
    for entry in settings.virtual_hosts:
        broker = Broker(settings, store, shared=directory.shared, space=entry.id)
        directory.brokers[entry.id] = broker
        store = None
    return directory


class SlowWatch:
    """A stopwatch that finds much time gone at each look."""

    def __init__(self) -> None:
        self.time = 1.0

    def look(self) -> float:
        self.time += 1.0
        return self.time


class Letter(Message):
    """A message in no encoding: properties and a size."""

    kind = "letter"

    def __init__(self, size: int = 1, **properties: Value) -> None:
        super().__init__(size)
        self.properties = properties

    def message_id(self) -> str:
        return ""

    def lookup(self, name: str) -> Value:
        return self.properties.get(name)

    def neutral(self) -> Neutral:
        return Neutral()

    def encode(self) -> tuple[bytes, bytes]:
        return b"", b""

    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> Message:
        return Letter(self.size, **self.properties)


class Reader(Consumer):
    """A consumer that keeps what it gets and what it is told."""

    def __init__(self, window: Window, session: Session = NOBODY) -> None:
        super().__init__(session, window)
        self.entries: list[Entry] = []
        self.got: list[int] = []
        self.done: list[str] = []  # one group that it took and that is empty now
        self.names: list[object] = []  # of the messages, which entries forget when they go
        self.firsts: list[int] = []
        self.ends = 0
        self.drains = 0
        self.lost: list[str] = []
        self.overdue: list[int] = []
        self.reason = ""
        self.wants_revoked = True

    def deliver(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.got.append(entry.seq)
        self.names.append(entry.content.lookup("name"))
        if entry.is_first:
            self.firsts.append(entry.seq)

    def browse_ended(self) -> None:
        self.ends += 1

    def drained(self) -> None:
        self.drains += 1

    def revoked(self, group: str) -> None:
        self.lost.append(group)

    def cancelled(self, reason: str) -> None:
        self.reason = reason

    def ran_out(self, entries: list[Entry]) -> None:
        self.overdue += [entry.seq for entry in entries]

    def group_done(self, group: str) -> None:
        """Note that its group is done."""
        self.done.append(group)

    def held(self) -> list[int]:
        """Give the numbers it has not settled."""
        return sorted(self.unsettled)


class Listener(Client):
    """The connection behind a session: it keeps what the core asks of it."""

    def __init__(self) -> None:
        self.resumed = 0
        self.kicks: list[str] = []

    def resume(self) -> None:
        """Count it."""
        self.resumed += 1

    def kick(self, reason: str) -> None:
        """Keep the reason."""
        self.kicks.append(reason)


class HeldStore(MemoryStore):
    """A store that promises, and keeps its promise when the test says so."""

    is_durable = True

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[int] = []
        self.stored: list[Message] = []
        self.deleted: list[int] = []
        self.resting: list[int] = []  # tickets of batches that can wait
        self.hurried = 0

    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        """Note what is to be kept."""
        self.stored.append(message)

    def delete(self, queue: int, seq: int) -> None:
        """Note what is to be forgotten."""
        self.deleted.append(seq)

    def flush(self, ticket: int, can_wait: bool = False) -> None:
        """Wait for the test's word."""
        self.tickets.append(ticket)
        if can_wait:
            self.resting.append(ticket)

    def hurry(self) -> None:
        """Count it."""
        self.hurried += 1

    def write(self) -> None:
        """Finish everything that was handed over."""
        while self.tickets:
            self.listener.finished(self.tickets.pop(0), None)


class Events(QueueEvents):
    """Keeps everything."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        self.all.append((EventKind(kind), group, consumer, seq))

    def kinds(self, *wanted: EventKind) -> list[Event]:
        """Give the events of these kinds."""
        return [event for event in self.all if event[0] in wanted]


class OneForAll(EventSink):
    """Sends the events of every queue of every host to one place."""

    def __init__(self, events: QueueEvents) -> None:
        self.events = events

    def of_queue(self, name: str) -> QueueEvents:
        return self.events

    def of_host(self, host: str, before: str = "", position: int = 0) -> EventSink:
        return self


class Heard(Audit):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self.actions: list[OperatorAction] = []

    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        self.all.append(("denied", user, verb, destination, remote))

    def login_failed(self, user: str, remote: str) -> None:
        self.all.append(("login failed", user, remote))

    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        self.all.append(("slow", user, remote, waited_s))

    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        self.all.append(("blocked", user, remote, reason, waited_s))

    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        self.all.append(("group", queue, trouble, group))

    def subscription_ended(self, user: str, remote: str, subscription: str, reason: str) -> None:
        self.all.append(("subscription ended", user, remote, subscription, reason))

    def slow_turn(self, length_s: float, doing: str) -> None:
        self.all.append(("slow turn", length_s, doing))

    def operator_action(self, action: OperatorAction) -> None:
        self.actions.append(action)


class Endless(Job):
    """Work that never ends."""

    def __init__(self) -> None:
        super().__init__("count", "everything", None, 0)
        self.is_stoppable = True

    def steps(self) -> Steps:
        while True:
            yield 1


AnyJob = TypeVar("AnyJob", bound=Job)


def at_once(job: AnyJob) -> AnyJob:
    """Do all of a job in one portion."""
    assert job.advance(10**9, None, 0.0)
    job.finish()
    return job


class Grave(Unowned):
    """An owner that keeps the dead messages."""

    def __init__(self, audit: Audit | None) -> None:
        super().__init__(audit)
        self.dead: list[tuple[Message, str]] = []

    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        self.dead.append((entry.content, reason))


class KnownCluster(Cluster):
    """Two brokers, of which this one serves a virtual host called `here`; notes what is asked."""

    def __init__(self) -> None:
        super().__init__("here")
        self.asked: list[tuple[object, ...]] = []
        self.age = 0.0

    def view(self, now: float) -> ClusterView:
        spaces = frozenset({"here", "there", "nowhere"})
        nodes = [
            NodeRow("b", "b:1", "1", "x", False, 9.0, spaces - {"nowhere"}, {}),
            NodeRow("here", "a:1", "1", "x", False, 9.0, spaces, {"here": SpaceLoad(3, 2)}),
        ]
        rows = [
            SpaceRow("here", "here", 2, 1e9, 4.0),
            SpaceRow("nowhere", None, 1, 1e9, 0.0),
            SpaceRow("there", "b", 1, 1e9, 4.0),
        ]
        return ClusterView(tuple(nodes), tuple(rows), 2e9)

    def age_s(self, now: float) -> float:
        return self.age

    def ask_move(self, space: str, node: str) -> None:
        self.asked.append(("move", space, node))

    def ask_drain(self, node: str, *, is_draining: bool) -> None:
        self.asked.append(("drain", node, is_draining))
