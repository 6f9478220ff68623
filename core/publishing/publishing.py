# Compiled by mypyc: see setup.py.
"""Publishing: how messages get to where they belong, all or nothing.

| call           | who calls it       | what it does                                               |
|----------------|--------------------|------------------------------------------------------------|
| `publish`      | every protocol     | puts one message wherever it is to go, now or later        |
| `try_put`      | a protocol's SEND  | the short way of `publish`; False: nothing has happened    |
| `publish_all`  | a commit           | the same for many messages, all of them or none            |
| `answer`       | the broker itself  | the same for its own words, which wait for no disk         |
| `dead_letter`  | a queue            | puts a dead message where the queue's policy says          |
| `arrivals.put` | a topic            | puts one message into one queue                            |
| `fan_out`      | every turn         | hands out what a topic has gathered                        |
| `retry`        | every turn         | tries work that has waited and need not any more           |

`publish` tries the short way first. A protocol that makes an answer only for a message that has to
wait asks `try_put` itself, and calls `publish` if that says no.

One SEND may name many destinations, and a transaction has many sends. Either all of them are taken
or none. A long commit is admitted, weighed and put in portions (`core.publishing.commit`). So every
queue is asked first (`core.queue.quota`), then `Overload`
(`core.storage.overload`), and only then is anything put. Work that finds no room waits, and is
tried again in order. Its session is blocked meanwhile.

A topic never refuses, but a subscriber that does not keep up makes the producer wait before its
next message: the session is blocked until every such subscriber has caught up.

A mirrored queue listens to the topic of its name, so a send to the queue goes to the topic.

`WaitingWork` keeps the work that waits, in the order it came. A producer whose message finds its
queue full (`full_policy = "block"`) waits there. A producer that finds a gate shut waits there, and
so does a commit. When the queue has lost a message, or may hold more, or the gate opens, the oldest
piece of work is tried again, as a whole. It may then wait for something else.

A queue or a gate that somebody waits for says when there is room (`free`), and no more. Trying
again there and then would put a message into a queue that is in the middle of something. So the
broker retries between dispatches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from covey.core.errors import RefusedError
from covey.core.host.temporary import admitted
from covey.core.host.topic import Topic
from covey.core.host.virtual_host import VirtualHost
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry
from covey.core.model.message import Message, Origin
from covey.core.naming.destination import Destination, Kind
from covey.core.publishing.arrivals import Arrivals
from covey.core.queue.policy import dead_letter_name
from covey.core.queue.queue import Queue
from covey.core.queue.quota import has_room, is_kept_out_by_itself, why_full
from covey.core.session import Session
from covey.core.storage.commits import Commits
from covey.core.storage.overload import Gate
from covey.groups.key import GroupIdError

Send = tuple[tuple["Destination", ...], "Message"]
Obstacle = Queue | Gate


class Needs:
    """What messages that are published together need, queue by queue."""

    __slots__ = ("counts", "is_persistent", "sizes")

    def __init__(self) -> None:
        self.counts: dict[Queue, int] = {}
        self.sizes: dict[Queue, int] = {}
        self.is_persistent = False  # one of them is

    def add(self, queue: Queue, count: int, size: int) -> None:
        """Need so much more of a queue."""
        self.counts[queue] = self.counts.get(queue, 0) + count
        self.sizes[queue] = self.sizes.get(queue, 0) + size


class Work:
    """Messages to be published all together, and what follows."""

    __slots__ = ("done", "is_ours", "is_passed", "needs", "refused", "sends", "session", "taken")

    def __init__(
        self,
        session: Session,
        sends: list[Send],
        done: Callable[[], None] | None = None,
        refused: Callable[[], None] | None = None,
        taken: Callable[[], None] | None = None,
        *,
        is_ours: bool = False,
        needs: Needs | None = None,
        is_passed: Callable[[], bool] | None = None,
    ) -> None:
        self.needs = needs  # weighed already; then whoever has made it puts the messages
        self.is_ours = is_ours  # what the broker itself says waits for no disk and no memory
        self.session = session
        self.sends = sends
        self.taken = taken  # called as it is taken: what it does is part of the same batch
        self.done = done  # called once all of it is safe
        self.refused = refused  # called if it is refused after it had to wait
        self.is_passed = is_passed  # says whether it was done before


class WaitingWork:
    """Who waits for what."""

    def __init__(self, opened: list[Gate]) -> None:
        """Begin with nobody; `opened` has the gates that have opened since the last look."""
        self.lines: dict[Obstacle, deque[Work]] = {}
        self.freed: dict[Obstacle, None] = {}  # those that somebody waits for, and need not
        self._opened = opened

    def add(self, obstacle: Obstacle, work: Work) -> None:
        """Let a piece of work wait for a queue or a gate."""
        self.lines.setdefault(obstacle, deque()).append(work)
        obstacle.is_awaited = True

    def free(self, obstacle: Obstacle) -> None:
        """Hear that a queue has more room or is gone, or that a gate has opened."""
        if obstacle in self.lines:
            self.freed[obstacle] = None

    @property
    def is_due(self) -> bool:
        """Return True if something that somebody waits for was freed."""
        return bool(self.freed or self._opened)

    def sessions(self) -> list[Session]:
        """Return whose work waits, each as often as it does."""
        return [work.session for line in self.lines.values() for work in line]

    def retry(self, attempt: Callable[[Work], Obstacle | None]) -> None:
        """Try what waits for what was freed, oldest first, until it finds no room again.

        `attempt` returns what stands in the way, None if the work is done with.
        """
        while self.is_due:
            while self._opened:
                self.free(self._opened.pop(0))
            if not self.freed:
                return
            obstacle = next(iter(self.freed))
            del self.freed[obstacle]
            self._retry(obstacle, attempt)

    def forget(self, session: Session) -> list[Work]:
        """Drop and return the work of a session that went; who waited behind it may go on."""
        gone: list[Work] = []
        for obstacle, line in list(self.lines.items()):
            kept = deque([work for work in line if work.session is not session])
            if len(kept) == len(line):
                continue
            gone += [work for work in line if work.session is session]
            if kept:
                self.lines[obstacle] = kept
                self.freed[obstacle] = None
            else:
                del self.lines[obstacle]
                self.freed.pop(obstacle, None)
                obstacle.is_awaited = False
        return gone

    def _retry(self, obstacle: Obstacle, attempt: Callable[[Work], Obstacle | None]) -> None:
        line = self.lines.pop(obstacle, None)
        obstacle.is_awaited = False
        while line:
            found = attempt(line[0])
            if found is obstacle:
                self.lines[obstacle] = line
                obstacle.is_awaited = True
                return
            work = line.popleft()
            if found is not None:
                self.add(found, work)


# Asked for each message: a look-up in an Enum is a search.
QUEUE: Final = Kind.QUEUE
TOPIC: Final = Kind.TOPIC


class Publishing:
    """The way in."""

    def __init__(
        self,
        commits: Commits,
        arrivals: Arrivals,
        broker_id: str,
        sessions: Mapping[int, Session],
    ) -> None:
        """Publish for these sessions, which come and go."""
        self.commits = commits
        self.promises = commits.promises
        self.arrivals = arrivals
        self.broker_id = broker_id
        self.sessions = sessions
        self.waiting_work = WaitingWork(commits.overload.opened)
        self.fanned: Topic | None = None  # the one topic that may have gathered messages

    def publish(
        self,
        session: Session,
        targets: tuple[Destination, ...],
        message: Message,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Put one message where it belongs, now or when there is room everywhere.

        `done` is called once it is taken and safe. Raises RefusedError if any target refuses it;
        then none has it.
        """
        if not self.try_put(session, targets, message):
            session.sent += 1
            self.publish_all(Work(session, [(targets, message)], done))
        elif done is not None:
            self.promises.after(session, done)

    def try_put(self, session: Session, targets: tuple[Destination, ...], message: Message) -> bool:
        """Put one message where nothing can stand in its way; False: `publish` has to see to it."""
        if len(targets) != 1:
            return False
        target = targets[0]
        if target not in session.sendable:
            return False
        overload = self.commits.overload
        if overload.is_shut and overload.gate(is_persistent=message.persistent) is not None:
            return False
        if target.kind is QUEUE:
            queue = session.host.queues.get(target.name)
            if queue is None or not queue.takes_all or message.due_ms:
                return False
            try:
                self.arrivals.enqueue(queue, message)
            except GroupIdError as error:
                raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error
        elif not self._try_fan_out(session, target, message):
            return False
        session.sent += 1
        return True

    def _try_fan_out(self, session: Session, target: Destination, message: Message) -> bool:
        host = session.host
        topic = host.topics.get(target.name) if target.kind is TOPIC else None
        if topic is None or topic.met != host.audience.newest:
            return False  # `VirtualHost.topic` makes it, or lets it meet its new listeners
        if not _is_taken_at_once(topic):
            return False
        self._publish_topic(session, topic, message)
        return True

    def retry(self) -> None:
        """Try what waited for queues that have room again."""
        self.waiting_work.retry(self._attempt)

    def give_up_late(self, now: float) -> None:
        """End the connections that would rather fail than wait any longer; nothing is taken."""
        for session in self.waiting_work.sessions():
            if 0.0 < session.patience_s <= now - session.blocked_since:
                for work in self.waiting_work.forget(session):
                    if work.refused is not None:
                        work.refused()
                if session.kick is not None:
                    session.kick(f"the message was not taken in time: {session.blocked_on}")

    def dead_letter(self, host: VirtualHost, queue: Queue, entry: Entry, reason: str) -> None:
        """Put a dead message where its queue's policy says; it never expires there."""
        name = queue.settings.dlq
        if name is None:
            return
        origin = Origin(
            queue.name,
            entry.lane.name,
            entry.seq,
            entry.deliveries,
            self.arrivals.clock.wall_ms,
            _who(entry.holder),
        )
        dead = host.queue(dead_letter_name(name, queue.name))
        self.arrivals.put_anyhow(dead, entry.content.as_dead_letter(reason, origin), origin.group)

    # All or nothing.

    def publish_all(self, work: Work) -> None:
        """Publish all of it, now or when there is room; raises RefusedError if it can never be."""
        obstacle = self._try(work, may_overtake=False)
        if obstacle is None:
            self._finish(work)
        else:
            work.session.block(_why(obstacle), work.session.host.now)
            self.waiting_work.add(obstacle, work)

    def answer(self, session: Session, targets: tuple[Destination, ...], message: Message) -> None:
        """Put what the broker answers a session where it asked; an alarm keeps no answer back."""
        self.publish_all(Work(session, [(targets, message)], is_ours=True))

    def _attempt(self, work: Work) -> Obstacle | None:
        """Try work that waited again; a refusal now is the sender's, not of whoever made room."""
        self.promises.disclaim()
        try:
            obstacle = self._try(work, may_overtake=True)
        except RefusedError as error:
            if work.refused is not None:
                work.refused()
            work.session.kick(error.text)
            return None
        if obstacle is None:
            self._finish(work)
            work.session.unblock()
        else:
            work.session.blocked_on = _why(obstacle)
        return obstacle

    def _finish(self, work: Work) -> None:
        if work.taken is not None:
            work.taken()
        self.promises.claim(work.session)
        if work.done is not None:
            self.promises.after(work.session, work.done)

    def _try(self, work: Work, *, may_overtake: bool) -> Obstacle | None:
        """Publish everything, or nothing: then return what stands in the way."""
        session = work.session
        if work.is_passed is not None and work.is_passed():
            self.commits.follow()  # what was done before may be under way
            work.sends = []
        needs = work.needs
        sends: list[Send] = []
        if needs is None:
            needs = Needs()
            sends = [self.admit(session, send) for send in work.sends]
            for send in sends:
                self.weigh(session, send, needs)
        obstacle: Obstacle | None = self._blocker(session, needs, may_overtake=may_overtake)
        if obstacle is None and self.commits.overload.is_shut and work.sends and not work.is_ours:
            obstacle = self.commits.overload.gate(is_persistent=needs.is_persistent)
        if obstacle is None:
            for send in sends:
                self.put(session, send)
        return obstacle

    def admit(self, session: Session, send: Send) -> Send:
        """Return where a message may go; raises RefusedError if that is refused."""
        return admitted(session, send[0], self.broker_id, self.sessions), send[1]

    def weigh(self, session: Session, send: Send, needs: Needs) -> None:
        """Add what a message needs; raises RefusedError if one of its queues can never take it."""
        targets, message = send
        if message.persistent:
            needs.is_persistent = True
        for queue in _queues(session, targets, message):
            self.arrivals.check(queue, message)
            count, size = self.arrivals.needed(queue, message)
            needs.add(queue, count, size)

    def put(self, session: Session, send: Send) -> None:
        """Put a message where it was admitted to."""
        for target in send[0]:
            self._route(session, target, send[1])

    def _blocker(self, session: Session, needs: Needs, *, may_overtake: bool) -> Queue | None:
        for queue, count in needs.counts.items():
            if not queue.has_quota:
                continue
            size = needs.sizes[queue]
            is_late = not may_overtake and queue in self.waiting_work.lines
            if has_room(queue, count, size) and not is_late:
                continue
            if not is_kept_out_by_itself(queue, session, count, size):
                return queue
        return None

    def _route(self, session: Session, target: Destination, message: Message) -> None:
        host = session.host
        if target.kind is Kind.TOPIC:
            self._publish_topic(session, host.topic(target.name), message)
        elif target.kind is Kind.DSUB:
            self.arrivals.put(host.durable(target.name).queue, message)
        else:
            queue = host.queue(target.name)
            if queue.settings.mirrored:
                self._publish_topic(session, host.topic(target.name), message)
            else:
                self.arrivals.put(queue, message)

    def _publish_topic(self, session: Session, topic: Topic, message: Message) -> None:
        now = session.host.now
        if topic is not self.fanned:
            self.fan_out(now)
            self.fanned = topic
        topic.publish(session, message, now)

    def fan_out(self, now: float) -> None:
        """Hand out what the last topic has gathered."""
        if self.fanned is not None:
            self.fanned.fan_out(now)
            self.fanned = None


def _why(obstacle: Obstacle) -> str:
    """Say in words what a producer waits for."""
    return obstacle.reason if isinstance(obstacle, Gate) else why_full(obstacle)


def _who(consumer: Consumer | None) -> str:
    """Name a consumer by the client it belongs to, and by the name that the client gave it."""
    if consumer is None:
        return ""
    session = consumer.session
    client = session.client_id or session.remote
    return f"{client}/{consumer.name}" if client and consumer.name else client or consumer.name


def _is_taken_at_once(topic: Topic) -> bool:
    """Return True if no queue can refuse what others have taken, or keep its sender waiting."""
    bindings = topic.bindings
    return not bindings or (len(bindings) == 1 and bindings[0].queue.takes_all)


def _queues(
    session: Session, targets: tuple[Destination, ...], message: Message
) -> Iterator[Queue]:
    """Walk the queues that a send fills and whose quota the sender has to respect."""
    host = session.host
    maker = session.identity.name
    for target in targets:
        if target.kind is Kind.DSUB:
            yield host.durable(target.name).queue
        elif target.kind is Kind.TOPIC or host.queue(target.name, maker=maker).settings.mirrored:
            for binding in host.topic(target.name, maker).bindings:
                if binding.admits(message, session.client_id):
                    yield binding.queue
        else:
            yield host.queue(target.name)
