# Compiled by mypyc: see setup.py.
"""Publishing: how messages get to where they belong, all or nothing.

One SEND may name many destinations, and a transaction has many sends; either all of them are
taken or none. So every queue is asked first (`core.queue.quota`), and only then is anything put.
Work that finds a queue full is parked and tried again, in order; its session is blocked meanwhile.

A topic never refuses, but a subscriber that does not keep up makes the producer wait before its
next message: the session is blocked until every such subscriber has caught up.

A mirrored queue listens to the topic of its name, so a send to the queue goes to the topic.

Parking: work that waits for room in a queue, in the order it came.

A producer whose message finds its queue full (`full_policy = "block"`) waits here; so does a
commit. When the queue has lost a message the oldest piece of work is tried again, as a whole; it
may then wait for another queue.

A queue that somebody waits for says so when it loses a message (`free`), and no more: trying
again there and then would put a message into a queue that is in the middle of something. The
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
from covey.core.model.message import Message
from covey.core.naming.destination import Destination, Kind
from covey.core.publishing.arrivals import Arrivals
from covey.core.queue.policy import dead_letter_name
from covey.core.queue.queue import Queue
from covey.core.queue.quota import has_room, is_kept_out_by_itself, why_full
from covey.core.session import Session
from covey.core.storage.commits import Commits
from covey.groups.key import GroupIdError

Send = tuple[tuple["Destination", ...], "Message"]


class Work:
    """Messages to be published all together, and what follows."""

    __slots__ = ("done", "refused", "sends", "session", "taken")

    def __init__(
        self,
        session: Session,
        sends: list[Send],
        done: Callable[[], None] | None = None,
        refused: Callable[[], None] | None = None,
        taken: Callable[[], None] | None = None,
    ) -> None:
        self.session = session
        self.sends = sends
        self.taken = taken  # called as it is taken: what it does is part of the same batch
        self.done = done  # called once all of it is safe
        self.refused = refused  # called if it is refused after it had to wait


class Parking:
    """Who waits for which queue."""

    def __init__(self) -> None:
        self.waiting: dict[Queue, deque[Work]] = {}
        self.freed: dict[Queue, None] = {}  # those that lost a message somebody waits for

    def add(self, queue: Queue, work: Work) -> None:
        """Let a piece of work wait for a queue."""
        self.waiting.setdefault(queue, deque()).append(work)
        queue.freed = self.free

    def free(self, queue: Queue) -> None:
        """Hear that a queue has more room, or is gone."""
        if queue in self.waiting:
            self.freed[queue] = None

    def retry(self, attempt: Callable[[Work], Queue | None]) -> None:
        """Try what waits for the freed queues, oldest first, until it finds no room again.

        `attempt` returns the queue that has no room, None if the work is done with.
        """
        while self.freed:
            queue = next(iter(self.freed))
            del self.freed[queue]
            self._retry(queue, attempt)

    def forget(self, session: Session) -> None:
        """Drop the work of a session that went; who waited behind it may go on."""
        for queue, line in list(self.waiting.items()):
            kept = deque([work for work in line if work.session is not session])
            if len(kept) == len(line):
                continue
            if kept:
                self.waiting[queue] = kept
                self.freed[queue] = None
            else:
                del self.waiting[queue]
                self.freed.pop(queue, None)
                queue.freed = None

    def _retry(self, queue: Queue, attempt: Callable[[Work], Queue | None]) -> None:
        line = self.waiting.pop(queue, None)
        queue.freed = None
        while line:
            blocker = attempt(line[0])
            if blocker is queue:
                self.waiting[queue] = line
                queue.freed = self.free
                return
            work = line.popleft()
            if blocker is not None:
                self.add(blocker, work)


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
        self.parking = Parking()
        self._fanned: Topic | None = None  # the one topic that may have gathered messages

    def publish(
        self,
        session: Session,
        targets: tuple[Destination, ...],
        message: Message,
        done: Callable[[], None] | None,
    ) -> None:
        """Put one message where it belongs, now or when there is room."""
        if not self.is_put(session, targets, message):
            self.place(session, targets, message, done)
        elif done is not None:
            self.promises.after(session, done)

    def is_put(self, session: Session, targets: tuple[Destination, ...], message: Message) -> bool:
        """Put one message where nothing can stand in its way; False: it is to be placed."""
        if len(targets) != 1:
            return False
        target = targets[0]
        if target not in session.sendable:
            return False
        if target.kind is QUEUE:
            queue = session.host.queues.get(target.name)
            if queue is None or not queue.takes_all or message.due_ms:
                return False
            try:
                self.commits.put(queue, message)
            except GroupIdError as error:
                raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error
        elif not self._is_fanned_out(session, target, message):
            return False
        session.sent += 1
        if self.commits.dam.is_shut:
            self.commits.dam.hold(session, session.host.now, is_persistent=message.persistent)
        return True

    def place(
        self,
        session: Session,
        targets: tuple[Destination, ...],
        message: Message,
        done: Callable[[], None] | None,
    ) -> None:
        """Put one message wherever it belongs, when there is room everywhere."""
        session.sent += 1
        self.start(Work(session, [(targets, message)], done))

    def _is_fanned_out(self, session: Session, target: Destination, message: Message) -> bool:
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
        self.parking.retry(self._attempt)

    def dead_letter(self, host: VirtualHost, queue: Queue, message: Message, reason: str) -> None:
        """Put a dead message where its queue's policy says; it never expires there."""
        name = queue.settings.dlq
        if name is not None:
            dead = host.queue(dead_letter_name(name, queue.name))
            self.arrivals.place_dead(dead, message.as_dead_letter(reason))

    def fill(self, queue: Queue, message: Message) -> None:
        """Put a message into a queue, as its quota allows."""
        self.arrivals.take(queue, message)

    # All or nothing.

    def start(self, work: Work) -> None:
        """Carry work out, now or when there is room; raises RefusedError if it can never be."""
        blocker = self._try(work, may_overtake=False)
        if blocker is None:
            self._finish(work)
        else:
            work.session.block(why_full(blocker), work.session.host.now)
            self.parking.add(blocker, work)

    def _attempt(self, work: Work) -> Queue | None:
        """Try parked work again; a refusal now is the sender's, not of whoever made room."""
        self.promises.disclaim()
        try:
            blocker = self._try(work, may_overtake=True)
        except RefusedError as error:
            if work.refused is not None:
                work.refused()
            if work.session.kick is not None:
                work.session.kick(error.text)
            return None
        if blocker is None:
            self._finish(work)
            work.session.unblock()
        return blocker

    def _finish(self, work: Work) -> None:
        if work.taken is not None:
            work.taken()
        self.promises.claim(work.session)
        if work.done is not None:
            self.promises.after(work.session, work.done)
        dam = self.commits.dam
        if dam.is_shut:
            is_persistent = any(message.persistent for _, message in work.sends)
            dam.hold(work.session, work.session.host.now, is_persistent=is_persistent)

    def _try(self, work: Work, *, may_overtake: bool) -> Queue | None:
        """Publish everything, or nothing: then return the queue that has no room."""
        session = work.session
        sends = [
            (admitted(session, targets, self.broker_id, self.sessions), message)
            for targets, message in work.sends
        ]
        blocker = self._blocker(session, sends, may_overtake=may_overtake)
        if blocker is None:
            for targets, message in sends:
                for target in targets:
                    self._route(session, target, message)
        return blocker

    def _blocker(self, session: Session, sends: list[Send], *, may_overtake: bool) -> Queue | None:
        counts: dict[Queue, int] = {}
        sizes: dict[Queue, int] = {}
        for targets, message in sends:
            for queue in _queues(session.host, targets, message):
                self.arrivals.check(queue, message)
                count, size = self.arrivals.needed(queue, message)
                counts[queue] = counts.get(queue, 0) + count
                sizes[queue] = sizes.get(queue, 0) + size
        for queue, count in counts.items():
            if not queue.has_quota:
                continue
            size = sizes[queue]
            is_late = not may_overtake and queue in self.parking.waiting
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
            self.fill(host.durable(target.name).queue, message)
        else:
            queue = host.queue(target.name)
            if queue.settings.mirrored:
                self._publish_topic(session, host.topic(target.name), message)
            else:
                self.fill(queue, message)

    def _publish_topic(self, session: Session, topic: Topic, message: Message) -> None:
        now = session.host.now
        if topic is not self._fanned:
            self.fan_out(now)
            self._fanned = topic
        topic.publish(session, message, now)

    def fan_out(self, now: float) -> None:
        """Hand out what the last topic has gathered."""
        if self._fanned is not None:
            self._fanned.fan_out(now)
            self._fanned = None


def _is_taken_at_once(topic: Topic) -> bool:
    """Say whether no queue can refuse what others have taken, or keep its sender waiting."""
    taps = topic.taps
    return not taps or (len(taps) == 1 and taps[0].queue.takes_all)


def _queues(
    host: VirtualHost, targets: tuple[Destination, ...], message: Message
) -> Iterator[Queue]:
    """Walk the queues that a send fills and whose quota the sender has to respect."""
    for target in targets:
        if target.kind is Kind.DSUB:
            yield host.durable(target.name).queue
        elif target.kind is Kind.TOPIC or host.queue(target.name).settings.mirrored:
            for tap in host.topic(target.name).taps:
                if tap.admits(message):
                    yield tap.queue
        else:
            yield host.queue(target.name)
